"""Confirms in a window, and each way in which RabbitMQ says no."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pika
import pytest
from rabbitmq_server import RabbitServer
from rabbitmq_site import PATIENCE

from bridges.amqp.connection import Connection, Returned
from bridges.amqp.errors import AmqpError
from bridges.amqp.frames import Incoming
from bridges.amqp.server import Server
from bridges.properties import AGAIN
from bridges.site_brokers.rabbitmq.messages import is_ours
from bridges.site_brokers.rabbitmq.publishing import Outgoing, Publisher, Refused


class RejectingChannel:
    """As a RabbitMQ does where a queue has just gone: it rejects the first message, and returns the next."""

    is_open = True

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.on_confirm = self.on_return = lambda *_: None
        self.published: list[bytes] = []

    def publish(
        self, exchange: str, key: str, body: bytes, properties: pika.BasicProperties, mandatory: bool
    ) -> None:
        self.published.append(body)
        asyncio.get_running_loop().call_soon(self._answer, len(self.published), properties)

    def _answer(self, number: int, properties: pika.BasicProperties) -> None:
        if number > 1:
            self.on_return(Returned(312, "NO_ROUTE", properties))
        self.on_confirm(number, False, number > 1)


class ItsConnection:
    def __init__(self, channel: RejectingChannel) -> None:
        self._channel = channel

    async def channel(self, *, confirms: bool) -> RejectingChannel:
        return self._channel


class Ledger:
    """What became of each message, by its body."""

    def __init__(self) -> None:
        self.outcomes: dict[bytes, Refused | None] = {}

    def outgoing(self, key: str, body: bytes, exchange: str = "", mandatory: bool = True) -> Outgoing:
        def done(refused: Refused | None) -> None:
            assert body not in self.outcomes
            self.outcomes[body] = refused

        return Outgoing(exchange, key, body, pika.BasicProperties(delivery_mode=2), mandatory, done)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.outcomes) < count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def publishing(connection: Connection, window: int = 1024) -> AsyncIterator[Publisher]:
    publisher = Publisher(connection, "york", window)
    task = asyncio.create_task(publisher.run())
    yield publisher
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def bodies_of(rabbitmq: RabbitServer, vhost: str, queue: str) -> list[bytes]:
    """What a plain application finds in a queue."""
    with rabbitmq.connect(vhost) as application:
        channel = application.channel()
        found = []
        while (got := channel.basic_get(queue, auto_ack=True))[0]:
            assert is_ours(got[1], "", queue)
            found.append(got[2])
        return found


async def test_all_are_confirmed_in_order_within_the_window(
    rabbitmq: RabbitServer, vhost: str, connect, ledger: Ledger
) -> None:
    connection = await connect()
    await (await connection.channel()).declare("till", durable=True)
    bodies = [b"%d" % number for number in range(500)]
    async with publishing(connection, window=16) as publisher:
        for body in bodies:
            publisher.give(ledger.outgoing("till", body))
        assert len(publisher) == 500
        await ledger.until(500)
        assert (publisher.confirmed, publisher.refused, len(publisher)) == (500, 0, 0)
        assert repr(publisher) == "<Publisher of york confirmed=500 refused=0 outstanding=0>"
    assert await asyncio.to_thread(bodies_of, rabbitmq, vhost, "till") == bodies


async def test_what_no_queue_takes_is_refused_and_the_others_are_not(
    rabbitmq: RabbitServer, vhost: str, connect, ledger: Ledger
) -> None:
    connection = await connect()
    await (await connection.channel()).declare("till", durable=True)
    async with publishing(connection) as publisher:
        for number in range(60):
            publisher.give(ledger.outgoing("nobody" if number % 3 == 0 else "till", b"%d" % number))
        publisher.give(ledger.outgoing("nobody", b"to whom it may concern", mandatory=False))
        await ledger.until(61)
    refused = {int(body) for body, outcome in ledger.outcomes.items() if outcome is not None}
    assert refused == set(range(0, 60, 3))
    assert {outcome.reason for outcome in ledger.outcomes.values() if outcome} == {"QUEUE_DOES_NOT_EXIST"}
    found = await asyncio.to_thread(bodies_of, rabbitmq, vhost, "till")
    assert found == [b"%d" % number for number in range(60) if number % 3]


async def test_what_a_full_queue_rejects_is_refused(
    rabbitmq: RabbitServer, vhost: str, connect, ledger: Ledger
) -> None:
    connection = await connect()
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    await (await connection.channel()).declare("small", durable=True, arguments=arguments)
    async with publishing(connection) as publisher:
        publisher.give(ledger.outgoing("small", b"first"))
        await ledger.until(1)
        publisher.give(ledger.outgoing("small", b"second"))
        await ledger.until(2)
    assert ledger.outcomes[b"first"] is None
    second = ledger.outcomes[b"second"]
    assert second is not None
    assert str(second).startswith("REFUSED_BY_BROKER: queue 'small'")


async def test_what_may_have_come_to_its_queue_already_says_so(connect, ledger: Ledger) -> None:
    """Whatever was given before that for which the broker closes the channel is given again."""
    reader = await (await connect()).channel()
    await reader.declare("till", durable=True)
    got: list[Incoming] = []
    async with publishing(await connect()) as publisher:
        for number in range(6):
            publisher.give(ledger.outgoing("till", b"%d" % number, "no such" if number == 3 else ""))
        await ledger.until(6)
    await reader.consume("till", got.append, acknowledged=False)
    async with asyncio.timeout(PATIENCE):
        while not got or got[-1].body != b"5":
            await asyncio.sleep(0.01)
    unmarked = [each.body for each in got if AGAIN not in (each.properties.headers or {})]
    assert sorted(unmarked) == [b"0", b"1", b"2", b"4", b"5"]
    assert len(got) > len(unmarked)


async def test_what_one_of_several_queues_rejects_is_refused_in_words_that_say_so(
    connect, ledger: Ledger
) -> None:
    channel = await (await connect()).channel()
    for queue, most in (("full", 0), ("till", 9)):
        full = {"x-max-length": most, "x-overflow": "reject-publish"}
        await channel.declare(queue, durable=True, arguments=full)
        await channel.bind(queue, "amq.topic", "prices.#")
    async with publishing(await connect()) as publisher:
        publisher.give(ledger.outgoing("prices.tea", b"9", "amq.topic", mandatory=False))
        await ledger.until(1)
    refused = ledger.outcomes[b"9"]
    assert refused is not None
    assert "exchange 'amq.topic'" in refused.text
    assert "others may have it" in refused.text
    assert (await channel.declare("till", passive=True)).messages == 1


async def test_what_a_queue_rejects_that_has_just_gone_has_no_queue(ledger: Ledger) -> None:
    channel = RejectingChannel()
    async with publishing(ItsConnection(channel)) as publisher:  # type: ignore[arg-type]
        publisher.give(ledger.outgoing("passing", b"late"))
        await ledger.until(1)
        assert publisher.repeated == 1
    refused = ledger.outcomes[b"late"]
    assert refused is not None
    assert refused.reason == "QUEUE_DOES_NOT_EXIST"
    assert channel.published == [b"late"] * 2


async def test_what_closes_the_channel_is_found_and_those_behind_it_arrive(
    rabbitmq: RabbitServer, vhost: str, connect, ledger: Ledger
) -> None:
    connection = await connect()
    await (await connection.channel()).declare("till", durable=True)
    async with publishing(connection) as publisher:
        for number in range(20):
            exchange = "no such exchange" if number in (3, 11) else ""
            publisher.give(ledger.outgoing("till", b"%d" % number, exchange))
        await ledger.until(20)
        publisher.give(ledger.outgoing("till", b"and on"))
        await ledger.until(21)
        assert publisher.repeated >= 1
    refused = {body: outcome for body, outcome in ledger.outcomes.items() if outcome is not None}
    assert set(refused) == {b"3", b"11"}
    assert "no exchange 'no such exchange'" in refused[b"3"].text
    found = await asyncio.to_thread(bodies_of, rabbitmq, vhost, "till")
    assert set(found) == {b"%d" % number for number in range(20) if number not in (3, 11)} | {b"and on"}
    assert list(dict.fromkeys(found)) == sorted(set(found), key=found.index)


async def test_what_we_may_not_write_is_refused(rabbitmq: RabbitServer, vhost: str, ledger: Ledger) -> None:
    rabbitmq.add_user("weak")
    rabbitmq.permit(vhost, "weak", write="(amq.default|amq.topic)")
    connection = await Connection.open(Server(rabbitmq.uri(vhost), "weak", "weak"))
    async with publishing(connection) as publisher:
        publisher.give(ledger.outgoing("a.b", b"not allowed", "amq.fanout", mandatory=False))
        publisher.give(ledger.outgoing("a.b", b"allowed", "amq.topic", mandatory=False))
        await ledger.until(2)
    await connection.close()
    refused = ledger.outcomes[b"not allowed"]
    assert refused is not None
    assert "access to exchange 'amq.fanout'" in refused.text
    assert ledger.outcomes[b"allowed"] is None


async def test_what_amqp_cannot_say_is_refused(connect, ledger: Ledger) -> None:
    async with publishing(await connect()) as publisher:
        publisher.give(ledger.outgoing("k" * 300, b"too long"))
        publisher.give(ledger.outgoing("a", b"fine", "amq.topic", mandatory=False))
        await ledger.until(2)
    assert ledger.outcomes[b"too long"] is not None
    assert ledger.outcomes[b"fine"] is None


class SmallFrames(Server):
    """As a RabbitMQ of a small `frame_max`: both sides agree on the smaller one."""

    @property
    def parameters(self) -> pika.ConnectionParameters:
        agreed = super().parameters
        agreed.frame_max = 4096
        return agreed


async def test_properties_beyond_the_frames_that_were_agreed_on_are_refused(
    rabbitmq: RabbitServer, vhost: str, ledger: Ledger
) -> None:
    connection = await Connection.open(SmallFrames(rabbitmq.uri(vhost), timeout=30))
    async with publishing(connection) as publisher:
        for size in (4096, 8):
            message = ledger.outgoing("a", b"%d" % size, "amq.topic", mandatory=False)
            message.properties.headers = {"x": "y" * size}
            publisher.give(message)
        await ledger.until(2)
    await connection.close()
    assert "frame_max" in ledger.outcomes[b"4096"].text
    assert ledger.outcomes[b"8"] is None


async def test_a_lost_connection_says_nothing_of_what_was_under_way(
    rabbitmq: RabbitServer, connect, ledger: Ledger
) -> None:
    connection = await connect()
    publisher = Publisher(connection, "york")
    task = asyncio.create_task(publisher.run())
    publisher.give(ledger.outgoing("a", b"first", "amq.topic", mandatory=False))
    await ledger.until(1)
    await asyncio.to_thread(rabbitmq.kill)
    async with asyncio.timeout(60):
        await connection.ended
    publisher.give(ledger.outgoing("a", b"second", "amq.topic", mandatory=False))
    with pytest.raises(AmqpError):
        await task
    assert list(ledger.outcomes) == [b"first"]
    assert len(publisher) == 1


async def test_what_amqp_cannot_say_takes_no_room_of_the_window(
    rabbitmq: RabbitServer, vhost: str, connect, ledger: Ledger
) -> None:
    connection = await connect()
    await (await connection.channel()).declare("till", durable=True)
    async with publishing(connection) as publisher:
        for number in range(12):
            large = b"%d" % number + bytes(1_000_000)
            publisher.give(ledger.outgoing("x" * 300, large))
        publisher.give(ledger.outgoing("till", b"after"))
        await ledger.until(13)
        assert ledger.outcomes.pop(b"after") is None
        assert all(refused is not None for refused in ledger.outcomes.values())
