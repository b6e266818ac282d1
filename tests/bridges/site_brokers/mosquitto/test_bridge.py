"""The whole bridge at a real Mosquitto, with a desk that writes down what it is told, in both versions."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import paho.mqtt.client as paho
import pytest
import pytest_asyncio
from mosquitto_clients import Listener, publish, publish_lines
from mosquitto_server import DISCOVERY, MosquittoServer
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from rabbitmq_site import FakeDesk
from waiting import until

from bridges.site_brokers.base import BrokerDelivery, Setup, Taken
from bridges.site_brokers.mosquitto import MosquittoBridge, discovery, taking
from bridges.site_brokers.mosquitto.connection import Filter
from bridges.site_brokers.mosquitto.memory import Memory
from config.model import SiteBroker
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import Destination, Kind, parse

V5, V3 = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311


@pytest_asyncio.fixture(params=[V5, V3], ids=["5", "3.1.1"])
async def joined(
    request: pytest.FixtureRequest, server: MosquittoServer, tmp_path: Path
) -> AsyncIterator[tuple[MosquittoBridge, FakeDesk, int]]:
    settings = SiteBroker(uri=server.uri)
    store = f"{request.param:032x}"
    setup = Setup("test", "york", store, tmp_path, settings, None, None, 5.0, 1 << 20, 1000)
    bridge, desk = MosquittoBridge(setup, (request.param,)), FakeDesk()
    bridge.want(frozenset({parse("topic:up/#"), parse("queue:orders")}))
    running = asyncio.ensure_future(bridge.run(desk))
    await until(lambda: desk.completed > 0 and "queue/orders" in bridge.status().get("taking", ()))
    yield bridge, desk, server.port
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


def delivery(id: int, destination: str, payload: bytes, retained: bool = False) -> BrokerDelivery:
    return BrokerDelivery(id, parse(destination), Message(payload, Properties()), True, retained, False)


async def test_consumers_are_found_given_to_and_taken_from(
    joined: tuple[MosquittoBridge, FakeDesk, int],
) -> None:
    bridge, desk, port = joined
    assert desk.broker.startswith("Mosquitto ")
    with Listener(port, "-t", "down/#", "-t", "$share/g/queue/jobs", "-q", "1", "-i", "till") as till:
        await until(lambda: desk.destinations == {"topic:down/#", "queue:jobs"})
        bridge.deliver([delivery(1, "topic:down/x", b"1"), delivery(2, "queue:jobs", b"2")])
        bridge.deliver([delivery(3, "queue:a+b", b"3")])
        await till.until(2)
        await until(lambda: sorted(desk.confirmed) == [1, 2])
        assert desk.refused[3].startswith("UNROUTABLE")
    await until(lambda: desk.destinations == set())
    publish(port, "up/x", b"4")
    publish(port, "queue/orders", b"5")
    publish(port, "elsewhere", b"6")
    publish(port, "node/hq/answers", b"7")
    await until(lambda: len(desk.taken) == 3)
    assert [(str(each.destination), each.message.payload) for each in desk.taken] == [
        ("topic:up/x", b"4"),
        ("queue:orders", b"5"),
        ("queue:answers@hq", b"7"),
    ]


async def test_what_goes_round_through_a_bridge_of_the_broker_is_told(
    joined: tuple[MosquittoBridge, FakeDesk, int], tmp_path: Path
) -> None:
    """The bridge passes on to the other Mosquitto what the tree gives to this one, and its node takes it."""
    bridge, desk, port = joined
    messages = [delivery(id, "topic:down/x", b"1") for id in range(1, 101)]
    bridge.deliver(messages)
    await until(lambda: len(desk.confirmed) == 100)
    assert bridge.status()["other_ways"] == {}
    lines = ("allow_anonymous true", "connection north", f"address 127.0.0.1:{port}", "topic down/# in 1")
    other = MosquittoServer(tmp_path / "other", *lines, "remote_clientid to-the-north")
    other.start()
    try:
        await until(lambda: bool(bridge._discovery.bridges))
        bridge.deliver(messages)
        why = bridge.status()["other_ways"]["topic:down/x"]
        assert "'to-the-north'" in why
        assert "end the bridge" in why
    finally:
        other.kill()


async def test_what_comes_together_is_answered_by_destination(
    joined: tuple[MosquittoBridge, FakeDesk, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that the node had no room for kept all beside it: with MQTT 3.1.1 these can be all that Mosquitto
    gives without an answer.
    """
    _bridge, desk, port = joined
    came, take = taking.Subscriber._hand_in, desk.take

    def hand_in(subscriber: taking.Subscriber) -> None:
        if len(subscriber._gathered) < 20:
            asyncio.get_running_loop().call_later(0.01, subscriber._hand_in)
        else:
            monkeypatch.setattr(taking.Subscriber, "_hand_in", came)
            subscriber._hand_in()

    def hold(batch: Sequence[Taken], done: Callable[[], None]) -> None:
        full = any(each.destination.name == "up/full" for each in batch)
        take(batch, (lambda: None) if full else done)

    monkeypatch.setattr(taking.Subscriber, "_hand_in", hand_in)
    monkeypatch.setattr(desk, "take", hold)
    publish(port, "up/full", b"held")
    for _ in range(2):
        publish_lines(port, "up/free", [b"free"] * 20)
    await until(lambda: len(desk.taken) == 41)


async def test_a_topic_that_the_broker_denies_is_asked_for_again(
    joined: tuple[MosquittoBridge, FakeDesk, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of dynamic security, which an administrator changes while all runs."""
    bridge, desk, port = joined
    monkeypatch.setattr(taking, "_ASK_AGAIN", 0.01)
    client, denied = bridge._session.client, [135]
    granted = client.subscribe

    async def subscribe(filters: Sequence[Filter]) -> list[int]:
        return [denied.pop()] if denied and filters else await granted(filters)

    monkeypatch.setattr(client, "subscribe", subscribe)
    bridge.want(bridge.wanted | {parse("topic:new/#")})
    await until(lambda: "new/#" in bridge.status()["taking"])
    assert bridge.status()["denied"] == {}
    publish(port, "new/x", b"1")
    await until(lambda: len(desk.taken) == 1)


async def test_what_was_given_does_not_come_back(joined: tuple[MosquittoBridge, FakeDesk, int]) -> None:
    bridge, desk, port = joined
    bridge.deliver([delivery(1, "topic:up/mine", b"1"), delivery(2, "topic:later/mine", b"2", retained=True)])
    await until(lambda: sorted(desk.confirmed) == [1, 2])
    bridge.want(bridge.wanted | {parse("topic:later/#")})
    publish(port, "up/theirs", b"3")
    await until(lambda: "later/#" in bridge.status()["taking"])
    publish(port, "later/theirs", b"4", "-r")
    await until(lambda: len(desk.taken) == 2)
    assert [each.message.payload for each in desk.taken] == [b"3", b"4"]


async def test_what_was_given_after_its_reader_went_is_not_retained(
    joined: tuple[MosquittoBridge, FakeDesk, int],
) -> None:
    bridge, desk, port = joined
    desk.unread = {"later/mine"}
    bridge.deliver([delivery(1, "topic:later/mine", b"1", retained=True)])
    bridge.deliver([delivery(2, "topic:later/read", b"2", retained=True)])
    await until(lambda: sorted(desk.confirmed) == [1, 2] and bridge.status()["retained_from_tree"] == 1)
    with Listener(port, "-t", "later/#", "-q", "1", "-i", "till") as till:
        await till.until(1)
        publish(port, "later/end", b"end")
        await till.until(2)
        assert till.payloads() == ["2", "end"]


async def test_nothing_else_suffers_from_what_mqtt_cannot_ask_for(
    joined: tuple[MosquittoBridge, FakeDesk, int],
) -> None:
    bridge, desk, port = joined
    odd = {Destination(Kind.TOPIC, "a\x01b/#"), parse("topic:$share/g/x"), parse("queue:a+b")}
    bridge.want(bridge.wanted | odd | {parse("topic:later/#")})
    await until(lambda: "later/#" in bridge.status()["taking"])
    publish(port, "later/x", b"1")
    await until(lambda: [each.message.payload for each in desk.taken] == [b"1"])
    assert sorted(bridge.status()["not_taken"]) == sorted(map(str, odd))


@contextlib.contextmanager
def responder(port: int, topic: str) -> Iterator[None]:
    """Answers each request at once, in a thread of its own."""
    client, is_there = paho.Client(CallbackAPIVersion.VERSION2, protocol=V5), threading.Event()
    client.on_subscribe = lambda *_: is_there.set()
    client.on_message = lambda _client, _data, asked: client.publish(asked.properties.ResponseTopic, b"", 1)  # type: ignore[union-attr]
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.subscribe(topic, 1)
    assert is_there.wait(60)
    yield
    client.disconnect()
    client.loop_stop()


def request(id: int, place: str) -> BrokerDelivery:
    message = Message(b"", Properties(reply_to=f"topic:{place}"))
    return BrokerDelivery(id, parse("topic:ask"), message, True, False, False)


async def test_nobody_is_asked_before_his_answer_is_heard(server: MosquittoServer, tmp_path: Path) -> None:
    """However much there is to subscribe to and to unsubscribe from; what is behind a request stays there."""
    many = frozenset(parse(f"topic:other/{number}") for number in range(1000))
    places = [f"answers/{number}" for number in range(20)]
    with responder(server.port, "ask"):
        async with machine(tmp_path / "york", server, "topic:up/#") as (bridge, desk):
            asked: frozenset[Destination] = frozenset()
            for number, place in enumerate(places):
                bridge.want(asked | many if number % 2 else asked)
                await asyncio.sleep(0)  # it begins with these
                asked |= {parse(f"topic:{place}")}
                bridge.want(bridge.wanted | asked)
                bridge.deliver([request(number, place), delivery(100 + number, "topic:down/x", b"")])
            await until(lambda: len(desk.confirmed) == 2 * len(places))
            await until(lambda: len(desk.taken) >= len(places))
    assert [each.destination.name for each in desk.taken] == places
    assert desk.confirmed[::2] == [*range(len(places))]


@asynccontextmanager
async def machine(
    directory: Path,
    server: MosquittoServer,
    *wanted: str,
    is_told: bool = True,
    versions: tuple[MQTTProtocolVersion, ...] = (V5, V3),
) -> AsyncIterator[tuple[MosquittoBridge, FakeDesk]]:
    """The node york on a machine with a database of its own, which is killed at the end."""
    settings = SiteBroker(uri=server.uri)
    setup = Setup("test", "york", directory.name, directory, settings, None, None, 5.0, 1 << 20, 1000)
    bridge, desk = MosquittoBridge(setup, versions), FakeDesk()
    desk.is_told = is_told
    bridge.want(frozenset(map(parse, wanted)))
    running = asyncio.ensure_future(bridge.run(desk))
    await until(lambda: len(bridge.status().get("taking", ())) > len(wanted))
    yield bridge, desk
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def test_what_the_broker_threw_away_while_the_node_was_away_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [line for line in DISCOVERY if not line.startswith("max_queued")]
    small = MosquittoServer(tmp_path / "small", *lines, "max_queued_messages 10")
    small.start()
    try:
        (directory := tmp_path / "york").mkdir()
        async with machine(directory, small, "topic:up/#"):
            pass
        publish_lines(small.port, "up/x", [b"%d" % number for number in range(50)])
        async with machine(directory, small, "topic:up/#") as (bridge, desk):
            await until(lambda: len(desk.taken) == 10 and "max_queued_messages" in bridge.status()["lacks"])
        assert "it throws away messages that wait for this node" in caplog.text
    finally:
        small.kill()


async def test_a_session_that_the_broker_did_not_keep_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Applications published meanwhile, and had their answers. A node that has left expects none."""
    forgetful = MosquittoServer(
        tmp_path / "small", *(line for line in DISCOVERY if "persistence" not in line)
    )
    forgetful.start()
    try:
        (directory := tmp_path / "york").mkdir()
        async with machine(directory, forgetful, "topic:up/#") as (bridge, _):
            assert bridge.status()["lacks"] == {}
        forgetful.stop()
        forgetful.start()
        async with machine(directory, forgetful, "topic:up/#") as (bridge, _):
            assert [*bridge.status()["lacks"]] == ["session"]
        assert "it has not kept this node's session" in caplog.text
        async with machine(directory, forgetful, "topic:up/#") as (bridge, _):
            assert bridge.status()["lacks"] == {}
            await bridge.leave()
        async with machine(directory, forgetful, "topic:up/#") as (bridge, _):
            assert bridge.status()["lacks"] == {}
    finally:
        forgetful.kill()


async def test_a_broker_that_tells_nothing_any_more_is_said_to_be_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its acl_file was changed while it runs: it grants what it granted, and sends nothing."""
    monkeypatch.setattr(discovery, "_DEAF_AFTER", 3.0)
    acl = tmp_path / "acl"
    deaf = "topic readwrite #\ntopic readwrite $sapwood/bridge/#\n"
    acl.write_text(f"{deaf}topic read $SYS/#\n")
    strict = MosquittoServer(tmp_path / "strict", *DISCOVERY, f"acl_file {acl}")
    strict.start()
    try:
        (directory := tmp_path / "york").mkdir()
        async with machine(directory, strict, "topic:up/#") as (bridge, desk):
            await until(lambda: bridge._discovery._beat > 0)
            acl.write_text(deaf)
            strict.read_again()
            await until(lambda: "log" in bridge.status()["lacks"])
            assert bridge.status()["discovery"] == "the broker does not tell who subscribes"
            assert "it tells this node nothing of $SYS any more" in caplog.text
            acl.write_text(f"{deaf}topic read $SYS/#\n")
            strict.read_again()
            await until(lambda: bridge.status()["lacks"] == {})
            with Listener(strict.port, "-t", "down/#", "-q", "1", "-i", "till"):
                await until(lambda: desk.destinations == {"topic:down/#"})
    finally:
        strict.kill()


async def test_a_change_that_comes_alone_is_on_disk_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retained message that was given comes again where the node is killed before that."""
    monkeypatch.setattr("bridges.site_brokers.mosquitto.bridge._SAVE_AFTER", 3600.0)
    settings = SiteBroker(uri="mqtt://127.0.0.1:1")
    setup = Setup("test", "york", "store", tmp_path, settings, None, None, 5.0, 1 << 20, 1000)
    bridge, loop = MosquittoBridge(setup), asyncio.get_running_loop()
    bridge._memory = Memory(tmp_path)
    begun = loop.time()
    bridge._save_soon()
    assert bridge._saving is not None
    assert bridge._saving.when() < begun + 3600
    await until(lambda: bridge._saving is None)
    assert list(tmp_path.iterdir())
    bridge._save_soon()
    assert bridge._saving is not None
    assert bridge._saving.when() > begun + 3600
    bridge._saving.cancel()


@pytest.mark.parametrize("filters", ["as they were", "unknown"])
async def test_what_was_kept_for_the_machine_before_waits_until_the_new_one_knows_who_reads_it(
    server: MosquittoServer, tmp_path: Path, filters: str
) -> None:
    async with machine(tmp_path / "old", server, "topic:up/#"):
        pass
    publish_lines(server.port, "up/x", [b"%d" % number for number in range(1500)])  # more than AT_MOST
    if filters == "unknown":
        publish(server.port, "$sapwood/bridge/filters", b"", "-r")
    for _ in range(2):  # the second time its database is not new any more
        async with machine(tmp_path / "new", server, is_told=False) as (_, desk):
            assert not desk.taken
    async with machine(tmp_path / "new", server, is_told=False) as (bridge, desk):
        bridge.want(frozenset({parse("topic:up/#")}))
        await until(lambda: len({each.message.payload for each in desk.taken}) == 1500)


async def test_what_comes_to_a_restarted_broker_before_its_node_does_is_taken_once(tmp_path: Path) -> None:
    """A Mosquitto that has read our session from its database keeps one copy, for a filter of its choice."""
    server = MosquittoServer(tmp_path / "mosquitto", *DISCOVERY)
    server.start()
    try:
        async with machine(tmp_path / "york", server, "topic:#") as (bridge, _):
            bridge.want(frozenset({parse("topic:#"), parse("topic:up/#")}))
            await until(lambda: "up/#" in bridge.status()["taking"])
        publish_lines(server.port, "up/x", [b"both copies of it wait"])
        server.stop()
        server.start()
        publish_lines(server.port, "up/x", [b"one copy waits", b"same", b"same"])
        async with machine(tmp_path / "york", server, "topic:#", "topic:up/#") as (_, desk):
            publish(server.port, "up/x", b"same")
            await until(lambda: len(desk.taken) == 5)
            publish(server.port, "up/x", b"last")
            await until(lambda: desk.taken[-1].message.payload == b"last")
            assert [each.message.payload for each in desk.taken] == [
                b"both copies of it wait",
                b"one copy waits",
                *[b"same"] * 3,
                b"last",
            ]
            assert [each.again for each in desk.taken] == [True, *[False] * 5]
    finally:
        server.stop()


@pytest.mark.parametrize("version", [V5, V3], ids=["5", "3.1.1"])
async def test_a_node_that_is_killed_does_not_put_what_it_gave_in_the_place_of_what_was_retained_since(
    server: MosquittoServer, tmp_path: Path, version: MQTTProtocolVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridges.site_brokers.mosquitto.bridge._GATHERS", 3600.0)  # nothing is saved before
    given = [retained(number, b"%d" % number) for number in range(4)]
    with Listener(server.port, "-t", "down/#", "-q", "1", "-i", "till") as till:
        async with machine(tmp_path / "york", server, versions=(version,)) as (bridge, desk):
            bridge.deliver(given[:3])
            await till.until(3)
            assert not desk.confirmed
        publish(server.port, "down/x", b"newer", "-r")
        await till.until(4)
        for _ in range(2):  # killed once more before that is saved
            async with machine(tmp_path / "york", server, versions=(version,)) as (bridge, desk):
                bridge.deliver([msgspec.structs.replace(each, again=True) for each in given[:3]])
                assert not desk.confirmed
        monkeypatch.undo()
        async with machine(tmp_path / "york", server, versions=(version,)) as (bridge, desk):
            bridge.deliver([msgspec.structs.replace(each, again=True) for each in given])
            await until(lambda: desk.confirmed == [0, 1, 2, 3])
        await till.until(5)
        assert till.payloads() == ["0", "1", "2", "newer", "3"]


def retained(number: int, payload: bytes) -> BrokerDelivery:
    return msgspec.structs.replace(
        delivery(number, "topic:down/x", payload, retained=True), name=b"n%d" % number
    )
