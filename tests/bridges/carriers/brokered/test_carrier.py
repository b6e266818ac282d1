"""A link over a broker: when it is up, what it ignores, what ends it. Both brokers, real."""

import asyncio
import contextlib

import pytest
from brokered_harness import PATIENCE, Server, broker_at, linked, parent_at
from mosquitto_server import MosquittoServer
from rabbitmq_server import RabbitServer

from bridges.carriers.base import BUFFER_BYTES, CarrierBroken, CarrierEnded, CarrierFlooded
from bridges.carriers.brokered.carrier import MOST_OF_A_STRANGER, BrokeredCarrier, connect
from bridges.carriers.brokered.envelopes import Answer, End, Envelope, Gone, Packets, Taken, encode
from bridges.carriers.brokered.line import BrokerLine
from bridges.carriers.brokered.listener import Listener
from bridges.carriers.brokered.window import MAX_ENVELOPES

HALF, NONCE = b"h" * 8, b"h" * 8 + b"p" * 8


class Silent(BrokerLine):
    """A line that keeps what was said."""

    def __init__(self, max_message: int = 2**20) -> None:
        self.max_message = max_message
        self.said: list[bytes] = []
        self.closed = False

    def say(self, message: bytes) -> None:
        self.said.append(message)

    async def close(self) -> None:
        self.closed = True


def carrier(max_packet: int = 65536) -> tuple[BrokeredCarrier, Silent]:
    """A child's end, met."""
    made, line = BrokeredCarrier("mqtt://b", HALF, max_packet), Silent()
    made.ride(line)
    made.heard("york", encode(Answer(NONCE, 65536)))
    return made, line


def hear(end: BrokeredCarrier, *envelopes: Envelope) -> None:
    for envelope in envelopes:
        end.heard("york", encode(envelope))


# --- when it is up


async def test_it_is_up_only_when_the_node_has_answered() -> None:
    made, line = BrokeredCarrier("mqtt://b", HALF, 65536), Silent()
    made.ride(line)
    made.send([b"early"])
    waiting = asyncio.create_task(made.answered())
    hear(made, Answer(b"x" * 16, 65536), Packets(NONCE, 1, [b"x"]))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert not line.said
    assert "knocking" in repr(made)
    hear(made, Answer(NONCE, 65536))
    await waiting
    assert line.said == [encode(Packets(NONCE, 1, [b"early"]))]
    assert made.strangers == 2


async def test_no_node_behind_the_broker_is_said_at_once(server: Server) -> None:
    with pytest.raises(CarrierBroken, match="no node listens behind"):
        await connect(broker_at(server), "york", timeout=PATIENCE)


async def test_a_node_of_another_tree_is_none(server: Server) -> None:
    async with parent_at(broker_at(server, "other")) as parent:
        with pytest.raises(CarrierBroken, match="no node listens behind"):
            await connect(broker_at(server), "york", timeout=PATIENCE)
        assert not parent.carriers


async def test_a_node_does_not_answer_itself(server: Server) -> None:
    async with parent_at(broker_at(server), "york") as parent:
        with pytest.raises(CarrierBroken, match="took our knock, but no node answered within 5 s"):
            await connect(broker_at(server), "york", timeout=5)
        assert parent.listener.ignored == 1


async def test_an_answer_of_another_version_is_explained() -> None:
    made = BrokeredCarrier("mqtt://b", HALF, 65536)
    hear(made, Answer(NONCE, 65536, 2))
    with pytest.raises(CarrierBroken, match="speaks version 2 of links over brokers, we speak 1: install"):
        await made.answered()


async def test_the_smaller_packets_of_both_sides_count() -> None:
    made, line = BrokeredCarrier("mqtt://b", HALF, 65536), Silent(50_000)
    made.ride(line)
    assert made.max_packet == 50_000 - 256
    hear(made, Answer(NONCE, 40_000))
    assert made.max_packet == 40_000


async def test_a_broker_that_takes_too_little_is_named() -> None:
    made = BrokeredCarrier("mqtt://b", HALF, 65536)
    made.ride(Silent(30_000))
    with pytest.raises(CarrierBroken, match="takes messages of 30000 bytes at most: links need 33024"):
        await made.answered()


# --- what it ignores


async def test_another_nonce_is_counted_and_ignored() -> None:
    made, _ = carrier()
    earlier = b"h" * 8 + b"e" * 8
    hear(made, Packets(earlier, 1, [b"old"]), Taken(earlier, 99), End(earlier, 1), Gone(earlier))
    hear(made, Packets(NONCE, 1, [b"new"]))
    assert await made.receive() == [b"new"]
    assert made.strangers == 3
    assert "3 strangers ignored" in repr(made)


async def test_a_number_that_comes_again_is_ignored() -> None:
    made, _ = carrier()
    hear(made, Packets(NONCE, 1, [b"a"]), Packets(NONCE, 1, [b"a"]), Packets(NONCE, 2, [b"b"]))
    assert await made.receive() == [b"a", b"b"]
    assert made.strangers == 1


async def test_of_two_parents_at_one_broker_the_first_to_answer_counts(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not hear of each other, as those of older versions."""
    monkeypatch.setattr(Listener, "_claimed", lambda *_: None)
    broker = broker_at(server)
    async with parent_at(broker, "hq") as one, parent_at(broker, "hq2") as two:
        near = await connect(broker, "york", timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while not (one.carriers and two.carriers and near.strangers):
                await asyncio.sleep(0.01)
        near.send([b"hello"])
        ends = [one.carriers[0], two.carriers[0]]
        hearing = [asyncio.create_task(end.receive()) for end in ends]
        done, _ = await asyncio.wait(hearing, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        assert [task.result() for task in done] == [[b"hello"]]
        other = ends[1 - hearing.index(done.pop())]
        async with asyncio.timeout(PATIENCE):
            while not other.strangers:
                await asyncio.sleep(0.01)
        for task in hearing:
            task.cancel()
        await near.close()


async def test_a_new_link_of_a_child_does_not_mix_with_the_old_one(server: Server) -> None:
    broker = broker_at(server)
    async with parent_at(broker) as parent:
        old = await connect(broker, "york", timeout=PATIENCE)
        new = await connect(broker, "york", timeout=PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while len(parent.carriers) < 2:
                await asyncio.sleep(0.01)
            for number, end in enumerate((old, new)):
                end.send([b"up %d" % number])
                parent.carriers[number].send([b"down %d" % number])
            for number, end in enumerate((old, new)):
                assert await parent.carriers[number].receive() == [b"up %d" % number]
                assert await end.receive() == [b"down %d" % number]
        await old.close()
        await new.close()


# --- what ends it


async def test_a_gap_ends_it_after_what_came_before() -> None:
    made, _ = carrier()
    hear(made, Packets(NONCE, 1, [b"a"]), Packets(NONCE, 3, [b"c"]), Packets(NONCE, 4, [b"d"]))
    assert not made.writable
    assert await made.receive() == [b"a"]
    with pytest.raises(CarrierBroken, match="a gap: 1 envelopes before number 3 never came"):
        await made.receive()


async def test_an_end_after_a_gap_is_a_gap() -> None:
    made, _ = carrier()
    hear(made, End(NONCE, 2, "bye"))
    with pytest.raises(CarrierBroken, match="a gap: 1 envelopes"):
        await made.receive()


async def test_what_no_node_says_ends_it() -> None:
    made, _ = carrier()
    made.heard("york", b"GET / HTTP/1.1")
    with pytest.raises(CarrierBroken, match="14 bytes that are no envelope of a link"):
        await made.receive()


@pytest.mark.parametrize("nonce", [HALF, NONCE])
async def test_a_side_that_the_broker_has_lost_is_gone(nonce: bytes) -> None:
    made, _ = carrier()
    hear(made, Packets(NONCE, 1, [b"a"]), Gone(nonce))
    assert await made.receive() == [b"a"]
    with pytest.raises(CarrierBroken, match="the other node has gone"):
        await made.receive()


async def test_the_window_bounds_what_is_under_way() -> None:
    made, line = carrier()
    for i in range(3 * MAX_ENVELOPES):
        made.send([b"%d" % i])
    assert len(line.said) == MAX_ENVELOPES
    hear(made, Taken(NONCE, MAX_ENVELOPES))
    assert len(line.said) == MAX_ENVELOPES + 1, "what had waited has gathered"
    made.send([b"x" * 65536] * (BUFFER_BYTES // 65536))
    assert not made.writable
    hear(made, Taken(NONCE, MAX_ENVELOPES + 2))
    assert made.writable


async def test_a_broker_that_is_killed_breaks_both_ends(server: Server) -> None:
    async with linked(broker_at(server)) as (near, far):
        ends = [asyncio.create_task(end.receive()) for end in (near, far)]
        await asyncio.to_thread(server.kill)
        try:
            for end in ends:
                with pytest.raises(CarrierBroken, match="lost"):
                    await asyncio.wait_for(end, PATIENCE)
        finally:
            await asyncio.to_thread(server.start)


async def test_mosquitto_tells_that_a_child_was_killed(mosquitto: MosquittoServer) -> None:
    async with linked(broker_at(mosquitto)) as (near, far):
        line = near._line
        assert line is not None
        line.paho._drop()  # type: ignore[attr-defined]  # as the kernel closes the socket of a killed process
        with pytest.raises(CarrierBroken, match="the other node has gone"):
            await asyncio.wait_for(far.receive(), PATIENCE)


async def test_a_message_to_a_node_that_has_gone_ends_the_link(server: Server) -> None:
    async with linked(broker_at(server)) as (near, far):
        line, far._line = far._line, None
        assert line is not None
        await line.close()
        asking = asyncio.create_task(_ask_on(near))
        with pytest.raises((CarrierBroken, CarrierEnded)):
            await asyncio.wait_for(near.receive(), PATIENCE)
        await asyncio.wait([asking])


async def _ask_on(carrier: BrokeredCarrier) -> None:
    """A broker may take a first message or two for somebody of whose end it has not heard yet."""
    with contextlib.suppress(CarrierBroken, CarrierEnded):
        while True:
            carrier.send([b"anybody?"])
            await asyncio.sleep(0.1)


# --- nothing outlives it


async def test_on_rabbitmq_nothing_is_left(rabbitmq: RabbitServer, vhost: str) -> None:
    async with linked(broker_at(rabbitmq, vhost=vhost)) as (near, far):
        near.send([b"never read"])
        far.send([b"never read"])
        queues = {one["name"]: one for one in rabbitmq.api("GET", f"/queues/{vhost}")}
        assert len(queues) == 3
        for name, queue in queues.items():
            assert name.startswith("sapwood.acme.link.")
            assert (queue["exclusive"], queue["auto_delete"], queue["durable"]) == (True, True, False)
            assert queue["arguments"]["x-overflow"] == "reject-publish"
            assert queue["arguments"]["x-max-length"] > MAX_ENVELOPES
    assert rabbitmq.api("GET", f"/queues/{vhost}") == []
    exchanges = [one["name"] for one in rabbitmq.api("GET", f"/exchanges/{vhost}")]
    assert not [name for name in exchanges if name.startswith("sapwood")]


async def test_on_mosquitto_nothing_is_left(mosquitto: MosquittoServer) -> None:
    async with linked(broker_at(mosquitto)) as (near, far):
        near.send([b"never read"])
        far.send([b"never read"])
        await near.close()
    log = mosquitto.last_words()
    clients = [line.split(" as ")[1] for line in log.splitlines() if "New client connected" in line]
    assert clients
    for client in clients[-3:]:
        assert "(p5, c1," in client, "MQTT 5, clean start"
    async with parent_at(broker_at(mosquitto)) as parent:
        again = await connect(broker_at(mosquitto), "york", timeout=PATIENCE)
        again.send([b"first"])
        async with asyncio.timeout(PATIENCE):
            while not parent.carriers:
                await asyncio.sleep(0.01)
            assert await parent.carriers[0].receive() == [b"first"]
        assert parent.carriers[0].strangers == again.strangers == 0
        await again.close()


async def test_a_stranger_says_little_before_it_has_proved_itself() -> None:
    for trusted in (False, True):
        made, _ = carrier(MOST_OF_A_STRANGER)
        made.trusted = trusted
        told: list[bool] = []
        made.when_proven = lambda told=told: told.append(True)  # type: ignore[misc]
        made.heard("york", encode(Packets(NONCE, 1, [bytes(MOST_OF_A_STRANGER)])))
        assert await made.receive() == [bytes(MOST_OF_A_STRANGER)]
        made.heard("york", encode(Packets(NONCE, 2, [bytes(30_000)])))
        if trusted:
            assert await made.receive() == [bytes(30_000)]
        else:
            with pytest.raises(
                CarrierFlooded, match="95536 bytes before the handshake is done: 69632 at most"
            ):
                await made.receive()
        assert told == []
    made, _ = carrier(MOST_OF_A_STRANGER)
    made.trusted = False
    made.proven()
    for number in (1, 2):
        made.heard("york", encode(Packets(NONCE, number, [bytes(60_000)])))
    assert await made.receive() == [bytes(60_000)] * 2
