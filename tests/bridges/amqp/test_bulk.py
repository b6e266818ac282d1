"""A connection with messages past pika, at a broker of the test's own."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pika
import pytest
from pika import spec
from pika.frame import Body, Frame, Header, Method, decode_frame
from resetting import Loop, each_loop, reset, twice

from bridges.amqp.connection import Channel, Connection
from bridges.amqp.errors import AmqpLost
from bridges.amqp.frames import Incoming
from bridges.amqp.server import Server

PATIENCE = 60
PLAIN = pika.BasicProperties(delivery_mode=2)
ABLE = {"capabilities": {"publisher_confirms": True, "basic.nack": True}}
ANSWERS = {
    spec.Channel.Open: spec.Channel.OpenOk(),
    spec.Confirm.Select: spec.Confirm.SelectOk(),
    spec.Basic.Consume: spec.Basic.ConsumeOk("reader"),
    spec.Channel.Close: spec.Channel.CloseOk(),
    spec.Connection.Close: spec.Connection.CloseOk(),
}


class Broker:
    """Answers what a connection needs, and keeps what else it hears, as `heard`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.heard: asyncio.Queue[Frame] = asyncio.Queue()

    def say(self, *frames: Frame | bytes) -> None:
        self._writer.write(b"".join(one if isinstance(one, bytes) else one.marshal() for one in frames))

    def reset(self, last: bytes) -> None:
        reset(self._writer, last)

    async def _frame(self) -> Frame:
        head = await self._reader.readexactly(7)
        rest = await self._reader.readexactly(int.from_bytes(head[3:]) + 1)
        return decode_frame(head + rest)[1]

    async def run(self) -> None:
        await self._reader.readexactly(8)
        self.say(Method(0, spec.Connection.Start(0, 9, ABLE, "PLAIN", "en_US")))
        await self._frame()
        self.say(Method(0, spec.Connection.Tune(2047, 8192, 0)))
        await self._frame()
        await self._frame()
        self.say(Method(0, spec.Connection.OpenOk()))
        while True:
            frame = await self._frame()
            answer = ANSWERS.get(type(getattr(frame, "method", None)))
            if answer is not None:
                self.say(Method(frame.channel_number, answer))
            else:
                self.heard.put_nowait(frame)

    async def next(self) -> Frame:
        async with asyncio.timeout(PATIENCE):
            return await self.heard.get()


@asynccontextmanager
async def line() -> AsyncIterator[tuple[Broker, Connection]]:
    came: asyncio.Future[Broker] = asyncio.get_running_loop().create_future()
    left = asyncio.Event()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set_result(broker := Broker(reader, writer))
        try:
            await broker.run()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            left.set()

    server = await asyncio.start_server(visited, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connection = await Connection.open(Server(f"amqp://127.0.0.1:{port}", timeout=PATIENCE))
        try:
            yield await came, connection
        finally:
            await connection.close()
            async with asyncio.timeout(PATIENCE):
                await left.wait()


def delivery(tag: int, body: bytes, consumer: str = "reader") -> bytes:
    method, header = (
        Method(1, spec.Basic.Deliver(consumer, tag, False, "", "till")),
        Header(1, len(body), PLAIN),
    )
    return b"".join(frame.marshal() for frame in (method, header, Body(1, body)))


async def reading(connection: Connection) -> tuple[Channel, "asyncio.Queue[Incoming]"]:
    channel = await connection.channel()
    got: asyncio.Queue[Incoming] = asyncio.Queue()
    await channel.consume("till", got.put_nowait, tag="reader")
    return channel, got


async def test_all_that_is_said_leaves_in_its_order() -> None:
    async with line() as (broker, connection):
        channel = await connection.channel(confirms=True)
        channel.publish("", "first", b"1", PLAIN)
        channel.make("queue", None)
        channel.publish("", "second", b"", PLAIN)
        channel.acknowledge(7, multiple=True)
        channel.reject(8, requeue=True)
        channel.publish("", "third", b"3" * 10_000, PLAIN)
        said = [await broker.next() for _ in range(12)]
        assert [frame.method.NAME if isinstance(frame, Method) else frame.NAME for frame in said] == [
            "Basic.Publish", "Header", "Body", "Queue.Declare", "Basic.Publish", "Header", "Basic.Ack",
            "Basic.Reject", "Basic.Publish", "Header", "Body", "Body",
        ]  # fmt: skip
        assert [len(frame.fragment) for frame in said[-2:]] == [8184, 1816]


async def test_confirms_and_messages_are_told_in_the_order_in_which_they_came() -> None:
    async with line() as (broker, connection):
        channel, got = await reading(connection)
        told: asyncio.Queue[tuple[int, bool, bool]] = asyncio.Queue()
        await channel.confirm()
        channel.on_confirm = lambda *said: told.put_nowait(said)
        channel.on_cancelled = lambda consumer: got.put_nowait(consumer)  # type: ignore[arg-type]
        broker.say(
            delivery(1, b"one"),
            Method(1, spec.Basic.Ack(1, True)),
            Method(1, spec.Basic.Cancel("nobody")),
            delivery(2, b"two"),
            Method(1, spec.Basic.Nack(2, False)),
        )
        async with asyncio.timeout(PATIENCE):
            assert [await told.get(), await told.get()] == [(1, True, True), (2, False, False)]
            assert [(await got.get()).body, await got.get(), (await got.get()).body] == [
                b"one",
                "nobody",
                b"two",
            ]


async def test_a_message_for_a_consumer_that_is_cancelled_goes_back() -> None:
    async with line() as (broker, connection):
        channel, got = await reading(connection)
        cancelling = asyncio.create_task(channel.cancel("reader"))
        assert (await broker.next()).method.NAME == "Basic.Cancel"
        broker.say(delivery(5, b"late"), Method(1, spec.Basic.CancelOk("reader")), delivery(6, b"later"))
        async with asyncio.timeout(PATIENCE):
            await cancelling
        rejected = (await broker.next()).method
        assert (rejected.NAME, rejected.delivery_tag, rejected.requeue) == ("Basic.Reject", 5, True)
        assert got.empty()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (delivery(1, b"x")[:-1] + b"\0", "without its end"),
        (delivery(1, b"x") * 2 + b"\x07" * 8, "were agreed"),
    ],
)
async def test_bytes_that_are_no_amqp_end_the_connection(said: bytes, why: str) -> None:
    async with line() as (broker, connection):
        await reading(connection)
        broker.say(said)
        async with asyncio.timeout(PATIENCE):
            lost = await asyncio.shield(connection.ended)
        assert isinstance(lost, AmqpLost)
        assert why in str(lost)


@each_loop
def test_a_line_that_is_reset_while_much_waits_ends_the_connection(kind: Loop) -> None:
    async def ends() -> None:
        async with line() as (broker, connection):
            await reading(connection)
            broker.reset(delivery(1, b"x" * 4000) * 100)
            async with asyncio.timeout(PATIENCE):
                assert isinstance(await asyncio.shield(connection.ended), AmqpLost)

    twice(kind, ends)


async def test_a_line_that_the_loop_watches_no_more_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def closed(*_given: object) -> None:
        raise RuntimeError("unable to perform operation on <UVPoll closed=True>; the handler is closed")

    async with line() as (_broker, connection):
        channel, _ = await reading(connection)
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "add_writer", closed)
            channel.acknowledge(1)
            async with asyncio.timeout(PATIENCE):
                assert isinstance(await asyncio.shield(connection.ended), AmqpLost)
    assert caplog.text == ""
