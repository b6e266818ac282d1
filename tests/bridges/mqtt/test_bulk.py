"""Messages past paho: their order, their numbers, and QoS 2, at a broker that says what the test says."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from one_by_one import one_by_one
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion
from resetting import Loop, each_loop, reset, twice

from bridges.mqtt import packets
from bridges.mqtt.bulk import PahoInBulk
from bridges.mqtt.packets import Packet, PacketAnswer, Publish, Subscribe
from bridges.mqtt.readers import PacketReader
from bridges.properties import NO_PROPERTIES, MqttProperties
from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.mosquitto.connection import (
    UNSPEAKABLE,
    Filter,
    MqttConnection,
    Post,
    Received,
)
from bridges.site_brokers.mosquitto.login import MqttAccess
from config.uris import address

PATIENCE = 60


class Broker:
    """Says what it is told to, and hears."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[Packet] = asyncio.Queue()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer, packet_reader = writer, PacketReader(1 << 20)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65_536):
                for packet in one_by_one(packet_reader, data):
                    if isinstance(packet, packets.Connect):
                        writer.write(packets.connack(present=True, code=0, said={}))
                    else:
                        self.heard.put_nowait(packet)

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def say(self, *said: bytes) -> None:
        self.writer.write(b"".join(said))

    def give(self, number: int, qos: int, payload: bytes = b"p") -> None:
        self.say(packets.publish(b"t", payload, qos, number, retain=False, again=False, said=b"\0"))

    async def hear(self) -> Packet:
        return await asyncio.wait_for(self.heard.get(), PATIENCE)


class Client(MqttConnection):
    """With what it got."""

    def __init__(self, port: int) -> None:
        self.got: list[Received] = []
        self.codes: list[int] = []
        self.lost: asyncio.Future[SiteBrokerError] = asyncio.get_running_loop().create_future()
        super().__init__(
            MqttAccess(address(f"mqtt://127.0.0.1:{port}"), None, None, None, PATIENCE),
            "bulk",
            MQTTProtocolVersion.MQTTv5,
            session=60,
            at_most=100,
            on_message=self.got.append,
            on_lost=self.lost.set_result,
        )

    def say(self, payload: bytes, qos: int = 1) -> None:
        self.post(Post("t", payload, qos, False, MqttProperties(), self.codes.append))


@contextlib.asynccontextmanager
async def line() -> AsyncIterator[tuple[Broker, Client]]:
    broker = Broker()
    async with await asyncio.start_server(broker.serve, "127.0.0.1", 0) as server:
        client = Client(server.sockets[0].getsockname()[1])
        assert await client.open()
        try:
            yield broker, client
        finally:
            await client.close()
            await broker.close()


async def until(broker: Broker, client: Client, payload: bytes) -> None:
    """All that the broker has said before is heard."""
    broker.give(99, 0, payload)
    async with asyncio.timeout(PATIENCE):
        while not client.got or client.got[-1].payload != payload:
            await asyncio.sleep(0.005)


def publish(payload: bytes, qos: int, number: int) -> Publish:
    return Publish("t", payload, qos, False, False, number)


async def test_what_is_said_leaves_in_its_order_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send = PahoInBulk._sock_send

    def counted(client: PahoInBulk, data: bytes) -> int:
        sent.append(len(data))
        return send(client, data)

    async with line() as (broker, client):
        monkeypatch.setattr(PahoInBulk, "_sock_send", counted)
        for number in range(1, 51):
            client.answer(Received("t", b"", 1, False, False, number, MqttProperties(), ()))
        client.say(b"before")
        subscribed = asyncio.create_task(client.subscribe([Filter("f", 1)]))
        await asyncio.sleep(0)
        client.say(b"behind")
        assert [await broker.hear() for _ in range(50)] == [
            PacketAnswer(packets.PUBACK, number) for number in range(1, 51)
        ]
        assert await broker.hear() == publish(b"before", 1, 1)
        asked = await broker.hear()
        assert isinstance(asked, Subscribe)
        assert await broker.hear() == publish(b"behind", 1, 3)
        assert len(sent) == 3  # what was said before paho's packet, that packet, and what was said behind it
        broker.say(packets.suback(asked.packet_id, [1], {}))
        assert await subscribed == [1]


async def test_whoever_waits_for_a_session_is_told_before_what_comes_behind() -> None:
    async with line() as (broker, client):

        async def subscribe() -> int:
            await client.subscribe([Filter("f", 1)])
            return len(client.got)

        asked = asyncio.create_task(subscribe())
        packet = await broker.hear()
        assert isinstance(packet, Subscribe)
        message = packets.publish(b"t", b"p", 0, 0, retain=False, again=False, said=b"\0")
        broker.say(message, packets.suback(packet.packet_id, [1], {}), message, message)
        await until(broker, client, b"behind")
        assert (await asked, len(client.got)) == (1, 4)


async def test_qos_2_is_given_once_and_released_when_the_broker_says_so() -> None:
    async with line() as (broker, client):
        for _ in range(2):
            broker.give(7, 2)
        await until(broker, client, b"first")
        assert [each.payload for each in client.got] == [b"p", b"first"]
        client.answer(client.got[0])
        assert await broker.hear() == PacketAnswer(packets.PUBREC, 7)
        broker.say(packets.answer(packets.PUBREL, 7))
        assert await broker.hear() == PacketAnswer(packets.PUBCOMP, 7)
        broker.give(7, 2)
        await until(broker, client, b"second")
        assert [each.payload for each in client.got] == [b"p", b"first", b"p", b"second"]


async def test_qos_2_of_an_earlier_connection_is_not_released() -> None:
    async with line() as (broker, client):
        broker.say(packets.answer(packets.PUBREC, 7), packets.answer(packets.PUBACK, 8))
        await until(broker, client, b"heard")
        client.say(b"new", qos=2)
        assert await broker.hear() == publish(b"new", 2, 1)
        broker.say(packets.answer(packets.PUBREC, 1))
        assert await broker.hear() == PacketAnswer(packets.PUBREL, 1)
        assert client.codes == []
        broker.say(packets.answer(packets.PUBCOMP, 1))
        client.say(b"refused", qos=2)
        assert await broker.hear() == publish(b"refused", 2, 2)
        broker.say(packets.answer(packets.PUBREC, 2, 0x97))
        await until(broker, client, b"refused as well")
        assert client.codes == [0, 0x97]


async def test_a_number_that_is_under_way_is_not_given_twice() -> None:
    async with line() as (broker, client):
        client.say(b"first")
        client._paho._last_mid = 65_534
        client.say(b"last")
        client.say(b"next")
        assert [await broker.hear() for _ in range(3)] == [
            publish(b"first", 1, 1),
            publish(b"last", 1, 65_535),
            publish(b"next", 1, 2),
        ]


def plain(client: Client, *payloads: bytes) -> list[Post]:
    return [Post("t", each, 1, False, NO_PROPERTIES, client.codes.append) for each in payloads]


async def test_messages_that_are_alike_are_written_as_a_row_and_in_their_order() -> None:
    async with line() as (broker, client):
        first, *others = plain(client, b"1", b"2", b"3", b"6")
        qos_2 = first._replace(payload=b"4", qos=2)
        elsewhere = first._replace(payload=b"5", topic="u")
        client.post(first, *others[:2], qos_2, elsewhere, others[2])
        heard = [await broker.hear() for _ in range(6)]
        payloads = [each.payload for each in heard if isinstance(each, Publish)]
        assert payloads == [b"1", b"2", b"3", b"4", b"5", b"6"]
        assert heard[3:5] == [publish(b"4", 2, 4), Publish("u", b"5", 1, False, False, 5)]


async def test_a_row_is_no_longer_than_what_the_broker_takes_unanswered() -> None:
    async with line() as (broker, client):
        client._in_flight = 2
        client.post(*plain(client, b"1", b"2", b"3"))
        assert [await broker.hear() for _ in range(2)] == [publish(b"1", 1, 1), publish(b"2", 1, 2)]
        broker.say(packets.answer(packets.PUBACK, 2))
        assert await broker.hear() == publish(b"3", 1, 3)


async def test_a_row_that_mqtt_cannot_say_is_told_of_and_others_go_on() -> None:
    async with line() as (broker, client):
        wrong, *_ = plain(client, b"wrong")
        wrong = wrong._replace(topic="a/#", done=lambda code: client.codes.append(-code))
        client.post(wrong, wrong, *plain(client, b"right"))
        heard = await broker.hear()
        assert isinstance(heard, Publish)
        assert heard.payload == b"right"
        await until(broker, client, b"heard")
        assert client.codes == [-UNSPEAKABLE, -UNSPEAKABLE]


async def test_a_row_of_answers_is_for_each_message_once() -> None:
    """The broker may say what it said before, and numbers of an earlier connection."""
    async with line() as (broker, client):
        client.post(*plain(client, b"1", b"2", b"3"))
        broker.say(*(packets.answer(packets.PUBACK, number) for number in (1, 900, 2, 1, 2)))
        await until(broker, client, b"heard")
        assert client.codes == [0, 0]
        broker.say(packets.answer(packets.PUBACK, 3))
        await until(broker, client, b"heard, too")
        assert client.codes == [0, 0, 0]


async def test_numbers_are_left_for_subscriptions_however_much_the_broker_takes_unanswered() -> None:
    async with line() as (broker, client):
        client.post(*plain(client, *[b""] * 65_535))
        assert len(client._unanswered) < 65_535  # else there would be no end of looking for another
        subscribed = asyncio.create_task(client.subscribe([Filter("f", 1)]))
        while not isinstance(packet := await broker.hear(), Subscribe):
            pass
        broker.say(packets.suback(packet.packet_id, [1], {}))
        assert await subscribed == [1]


async def test_what_is_said_upon_an_answer_takes_no_other_answer_of_its_row() -> None:
    """Its number may be one that the row has just set free."""
    async with line() as (broker, client):
        settled: list[str] = []

        def say(name: str, then: str = "") -> None:
            def done(code: int) -> None:
                settled.append(name)
                if then:
                    say(then)

            client.post(Post("t", name.encode(), 1, False, NO_PROPERTIES, done))

        say("first")
        client._paho._last_mid = 65_534
        say("last", "behind")
        broker.say(*(packets.answer(packets.PUBACK, number) for number in (65_535, 1)))
        heard = [await broker.hear() for _ in range(3)]
        assert heard[-1] == publish(b"behind", 1, 1)
        await until(broker, client, b"heard")
        assert settled == ["last", "first"]
        broker.say(packets.answer(packets.PUBACK, 1))
        await until(broker, client, b"heard, too")
        assert settled == ["last", "first", "behind"]


async def test_a_row_of_messages_is_given_one_by_one_and_answered_together() -> None:
    async with line() as (broker, client):
        row = [
            packets.publish(b"t", b"%d" % number, 1, number, retain=False, again=False, said=b"\2\x0b\1")
            for number in range(1, 6)
        ]
        broker.say(*row)
        broker.give(6, 2)
        await until(broker, client, b"heard")
        assert [(each.payload, each.number, tuple(each.filters)) for each in client.got[:5]] == [
            (b"%d" % number, number, (1,)) for number in range(1, 6)
        ]
        client.answer(*client.got[:6])
        assert [await broker.hear() for _ in range(6)] == [
            *(PacketAnswer(packets.PUBACK, number) for number in range(1, 6)),
            PacketAnswer(packets.PUBREC, 6),
        ]


async def test_what_is_no_mqtt_ends_the_connection() -> None:
    async with line() as (broker, client):
        broker.say(b"\x36\x02\x00\x00")
        assert "was lost" in str(await asyncio.wait_for(client.lost, PATIENCE))


async def test_a_line_that_the_broker_has_ended_is_read_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its goodbye is the last that is read: to look behind it, turn after turn, kept a core busy for good."""
    async with line() as (broker, client):
        broker.say(packets.disconnect(0x8B, "is shut down"))
        await asyncio.wait_for(client.lost, PATIENCE)
        looked: list[PahoInBulk] = []
        monkeypatch.setattr(PahoInBulk, "loop_read", lambda client: looked.append(client))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not looked


@each_loop
def test_a_line_that_is_reset_while_much_waits_is_read_to_its_end(kind: Loop) -> None:
    async def ends() -> None:
        async with line() as (broker, client):
            said = packets.publish(b"t", bytes(4000), 0, 0, retain=False, again=False, said=b"\0")
            reset(broker.writer, said * 100)
            assert "was lost" in str(await asyncio.wait_for(client.lost, PATIENCE))

    twice(kind, ends)


async def test_a_part_of_a_packet_waits_for_the_rest() -> None:
    async with line() as (broker, client):
        said = packets.publish(b"t", bytes(300_000), 1, 5, retain=False, again=False, said=b"\0")
        broker.say(said[:3])
        await broker.writer.drain()
        assert client._paho.loop_read() == MQTTErrorCode.MQTT_ERR_SUCCESS
        broker.say(said[3:])
        await until(broker, client, b"behind")
        assert [len(each.payload) for each in client.got] == [300_000, 6]
