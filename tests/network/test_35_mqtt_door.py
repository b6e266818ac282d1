"""MQTT applications at nodes that are their sites' brokers: unmodified clients, real nodes and crashes."""

import asyncio
import contextlib
import queue
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import paho.mqtt.client as paho
import pytest
from harness import Network, waiting
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from quick import QUICK_SITE

from broker.cli.demo.plan import free_ports

PATIENCE = 180.0
Message = tuple[str, bytes, int, bool]


class Application:
    """A client of paho's, on a thread of its own. `got`: topic, payload, QoS and retain flag of what came."""

    def __init__(self, port: int, name: str, *, clean: bool = True, **options: Any) -> None:
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=name,
            clean_session=None if "protocol" in options else clean,
            protocol=options.get("protocol", MQTTProtocolVersion.MQTTv311),
            manual_ack=options.get("manual", False),
        )
        if "password" in options:
            self.client.username_pw_set(name, options["password"])
        if "will" in options:
            self.client.will_set(*options["will"])
        self.client.reconnect_delay_set(0.05, 0.2)  # type: ignore[arg-type]
        self.port = port
        self.got: queue.Queue[Message] = queue.Queue()
        self.raw: list[paho.MQTTMessage] = []
        self.codes: queue.Queue[Any] = queue.Queue()
        self.present = False
        self.client.on_message = self._message
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda _c, _u, _m, codes, _p: self.codes.put(
            [code.value for code in codes]
        )

    def _message(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        self.raw.append(message)
        self.got.put((message.topic, bytes(message.payload), message.qos, message.retain))

    def _connected(self, _client: Any, _data: Any, flags: Any, code: Any, _properties: Any) -> None:
        self.present = flags.session_present
        self.codes.put(code.value)

    def start(self) -> "Application":
        self.client.connect("127.0.0.1", self.port, keepalive=20)
        self.client.loop_start()
        return self

    async def up(self) -> "Application":
        self.start()
        assert await self.code() == 0
        return self

    async def code(self) -> Any:
        return await asyncio.to_thread(self.codes.get, timeout=PATIENCE)

    async def read(self, *filters: str, qos: int = 1) -> list[int]:
        self.client.subscribe([(each, qos) for each in filters])
        codes: list[int] = await self.code()
        return codes

    async def publish(self, topic: str, *payloads: bytes, qos: int = 1, retain: bool = False) -> None:
        """Until all are acknowledged."""
        sent = [self.client.publish(topic, payload, qos, retain) for payload in payloads]
        for each in sent:
            await asyncio.to_thread(each.wait_for_publish, PATIENCE)
            assert each.is_published()

    async def take(self, count: int) -> list[Message]:
        return [await asyncio.to_thread(self.got.get, timeout=PATIENCE) for _ in range(count)]

    def end(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def application() -> Iterator[Callable[..., Application]]:
    made: list[Application] = []

    def make(*arguments: Any, **options: Any) -> Application:
        made.append(Application(*arguments, **options))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def ports(network: Network) -> dict[str, int]:
    """HQ and a store with doors, not started."""
    network.add("hq")
    network.add("york", "hq")
    doors = [port for port in free_ports(4) if port not in network.ports.values()]
    network.configure("hq", **QUICK_SITE, mqtt={"port": doors[0]})
    network.configure("york", "hq", **QUICK_SITE, mqtt={"port": doors[1]})
    return {"hq": doors[0], "york": doors[1]}


async def test_topics_and_queues_cross_the_tree(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    await network.start()
    till = await application(ports["york"], "till").up()
    assert await till.read("prices/+/uk", "$share/any/queue/orders", "$share/+/other") == [1, 1, 0x80]
    await network.until_known("hq", "topic:prices/+/uk")
    await network.until_known("hq", "queue:orders")
    office = await application(ports["hq"], "office").up()
    await office.publish("prices/1004/uk", b"46")
    await office.publish("prices/1004/us", b"no")
    await office.publish("queue/orders", b"two crates")
    assert sorted(await till.take(2)) == [
        ("prices/1004/uk", b"46", 1, False),
        ("queue/orders", b"two crates", 1, False),
    ]
    assert till.got.empty()
    status = await network.status("york")
    assert status["mqtt"] == {"port": ports["york"], "clients": 1}


async def test_mqtt_and_the_switch_share_queues_and_topics(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    await network.start()
    till = await application(ports["york"], "till").up()
    await till.read("news/#")
    async with network.client("york") as client:
        await client.create("sales")
        await till.publish("queue/sales", b"1", b"2")
        await client.send("topic:news/today", b"open")
        assert await till.take(1) == [("news/today", b"open", 1, False)]
    assert await network.collect("york", "queue:sales", 2) == [b"1", b"2"]


async def test_what_was_acknowledged_survives_a_crash_and_a_session_its_absence(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    await network.start()
    till = await application(ports["york"], "till", clean=False).up()
    assert not till.present
    await till.read("prices/#")
    await network.until_known("hq", "topic:prices/#")
    till.end()
    office = await application(ports["hq"], "office").up()
    await office.publish("prices/1", *[b"%d" % number for number in range(50)])
    network.kill("york")
    network.kill("hq")
    await network.start()
    back = await application(ports["york"], "till", clean=False).up()
    assert back.present
    assert [payload for _, payload, _, _ in await back.take(50)] == [b"%d" % n for n in range(50)]
    back.end()
    await network.until_drained("york")
    gone = await application(ports["york"], "till").up()
    assert not gone.present
    await network.until("york", lambda status: not status["subscriptions"], "rid of the old session")


async def test_who_has_much_waiting_is_given_it_as_fast_as_he_reads(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    await network.start("hq")
    away = await application(ports["hq"], "till", clean=False).up()
    await away.read("pictures/#")
    away.end()
    office = await application(ports["hq"], "office").up()
    large = [b"%d" % number + bytes(1_000_000) for number in range(90)]  # together more than may lie unread
    await office.publish("pictures/1", *large)
    back = await application(ports["hq"], "till", clean=False).up()
    assert [payload for _, payload, _, _ in await back.take(90)] == large


async def test_an_application_of_mqtt_5_asks_and_is_answered_across_the_tree(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    """Each by paho, with properties both ways."""
    await network.start()
    till = await application(ports["york"], "till", protocol=MQTTProtocolVersion.MQTTv5).up()
    office = await application(ports["hq"], "office", protocol=MQTTProtocolVersion.MQTTv5).up()
    await office.read("question/+", qos=2)
    await till.read("answers/till", qos=2)
    await network.until_known("hq", "topic:answers/till")
    await network.until_known("york", "topic:question/+")
    asked = Properties(PacketTypes.PUBLISH)
    asked.ResponseTopic, asked.CorrelationData = "answers/till", b"\x00\x07"
    asked.UserProperty = [("shop", "york"), ("shop", "1004")]
    till.client.publish("question/price", b"?", 2, properties=asked)
    assert await office.take(1) == [("question/price", b"?", 2, False)]
    got: Any = office.raw[0].properties
    assert (got.ResponseTopic, got.CorrelationData) == ("answers/till", b"\x00\x07")
    assert got.UserProperty == [("shop", "york"), ("shop", "1004")]
    answered = Properties(PacketTypes.PUBLISH)
    answered.CorrelationData = got.CorrelationData
    office.client.publish(got.ResponseTopic, b"46", 2, properties=answered)
    assert await till.take(1) == [("answers/till", b"46", 2, False)]
    found: Any = till.raw[0].properties
    assert found.CorrelationData == b"\x00\x07"


async def test_what_was_not_acknowledged_is_given_again(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    await network.start("hq")
    first = await application(ports["hq"], "one", manual=True).up()
    await first.read("$share/g/queue/work")
    sender = await application(ports["hq"], "sender").up()
    await sender.publish("queue/work", b"a", b"b", b"c")
    assert [payload for _, payload, _, _ in await first.take(3)] == [b"a", b"b", b"c"]
    first.client.ack(first.raw[0].mid, 1)
    await network.until("hq", lambda status: waiting(status) == 2, "rid of the first")
    first.client._sock_close()  # as a machine that is switched off
    first.client.loop_stop()
    second = await application(ports["hq"], "two").up()
    await second.read("$share/g/queue/work")
    assert [payload for _, payload, _, _ in await second.take(2)] == [b"b", b"c"]
    assert all(message.dup for message in second.raw)


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_each_quality_of_service(
    network: Network, ports: dict[str, int], application: Callable[..., Application], qos: int
) -> None:
    await network.start("hq")
    reader = await application(ports["hq"], "reader").up()
    assert await reader.read("t", qos=qos) == [qos]
    writer = await application(ports["hq"], "writer").up()
    await writer.publish("t", *[b"%d" % number for number in range(500)], qos=qos)
    assert await reader.take(500) == [("t", b"%d" % n, qos, False) for n in range(500)]


async def test_retained_messages_wills_and_a_clean_end(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    await network.start()
    office = await application(ports["hq"], "office", will=("gone/office", b"lost", 1, False)).up()
    await office.publish("prices/1", b"46", retain=True)
    till = await application(ports["york"], "till").up()
    await till.read("prices/#", "gone/#")
    assert await till.take(1) == [("prices/1", b"46", 1, True)]
    await network.until_known("hq", "topic:gone/#")
    office.client._sock_close()
    office.client.loop_stop()
    assert await till.take(1) == [("gone/office", b"lost", 1, False)]
    polite = await application(ports["hq"], "polite", will=("gone/polite", b"lost", 1, False)).up()
    await polite.publish("gone/test", b"now")
    polite.end()
    await network.until("hq", lambda status: status["mqtt"]["clients"] == 0, "left by all")
    assert await till.take(1) == [("gone/test", b"now", 1, False)]
    assert till.got.empty()


async def test_a_client_id_is_taken_over_and_a_wrong_password_takes_nothing(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    secret = network.folder / "secret"
    secret.write_text("open sesame\n")
    secret.chmod(0o600)
    network.configure("hq", **QUICK_SITE, http={"session_secret_file": str(secret)})
    await network.start("hq")
    first = await application(ports["hq"], "till", password="open sesame").up()
    await first.read("t")
    thief = application(ports["hq"], "till", password="guess").start()
    assert await thief.code() != 0
    thief.end()
    await first.publish("t", b"still here")
    assert await first.take(1) == [("t", b"still here", 1, False)]
    first.client._reconnect_on_failure = False
    second = await application(ports["hq"], "till", password="open sesame").up()
    await second.read("t")
    await second.publish("t", b"mine")
    assert await second.take(1) == [("t", b"mine", 1, False)]
    assert "another connection has its client id now" in network.nodes["hq"].log.read_text()
    assert "open sesame" not in network.nodes["hq"].log.read_text()


async def test_other_versions_and_bad_clients_are_told_or_sent_away(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    await network.start("hq")
    older = application(ports["hq"], "older", protocol=MQTTProtocolVersion.MQTTv31)
    older.start()
    assert await older.code() == 0x84  # as paho calls the 1 of 3.1
    older.end()
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\x10\xff\xff\xff\xff\xff", b"\xc0\x00"):
        reader, writer = await asyncio.open_connection("127.0.0.1", ports["hq"])
        writer.write(said)
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()
    liar = await application(ports["hq"], "liar").up()
    await liar.publish("$SYS/x", b"")
    status = await network.until("hq", lambda status: status["dead"]["messages"] == 1, "burying it")
    (reason,) = status["dead"]["reasons"]
    assert "topics of brokers" in reason
    assert liar.codes.empty()


async def test_a_body_that_an_older_version_left_unreadable_is_a_dead_letter_and_ends_nobody_s_connection(
    network: Network, ports: dict[str, int], application: Callable[..., Application]
) -> None:
    """It did not open what it kept. The reader gets all that comes before and behind, on one connection."""
    await network.start()
    till = await application(ports["hq"], "till", clean=False).up()
    await till.read("prices/#")
    till.end()
    office = await application(ports["hq"], "office").up()
    for payload in (b"1", b"2", b"3"):
        await office.publish("prices/tea", payload)
    assert await network.stop("hq") == 0
    with contextlib.closing(sqlite3.connect(network.data("hq") / "node.db")) as database:
        rows = [row for (row,) in database.execute('SELECT "row" FROM "bundle" ORDER BY "row"')]
        assert len(rows) == 3
        database.execute('UPDATE "bundle" SET "body" = zeroblob(length("body")) WHERE "row" = ?', (rows[1],))
        database.commit()
    await network.restart("hq")
    again = await application(ports["hq"], "till", clean=False).up()
    assert [payload for _, payload, _, _ in await again.take(2)] == [b"1", b"3"]
    status = await network.until("hq", lambda status: status["dead"]["messages"] == 1, "burying it")
    (reason,) = status["dead"]["reasons"]
    assert "UNREADABLE" in reason
    late = await application(ports["hq"], "late").up()
    await late.publish("prices/tea", b"4")
    assert [payload for _, payload, _, _ in await again.take(1)] == [b"4"]
    assert again.codes.empty()
