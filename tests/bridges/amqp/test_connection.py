"""Connections and channels, at a real RabbitMQ."""

import asyncio

import pika
import pytest
from rabbitmq_server import RabbitServer

from bridges.amqp.connection import Channel, Connection
from bridges.amqp.errors import AmqpLost, AmqpRefused, AmqpUnreachable, ChannelLost, Unencodable
from bridges.amqp.frames import Incoming
from bridges.amqp.server import Server

PLAIN = pika.BasicProperties()


async def receive(channel: Channel, queue: str, count: int, priority: int = 0) -> list[Incoming]:
    """Consume `count` messages of a queue, without acknowledging them."""
    got: asyncio.Queue[Incoming] = asyncio.Queue()
    await channel.consume(queue, got.put_nowait, priority=priority)
    async with asyncio.timeout(60):
        return [await got.get() for _ in range(count)]


@pytest.mark.parametrize(
    ("uri", "vhost"),
    [
        ("amqp://h", "/"),
        ("amqp://h/", "/"),
        ("amqp://h/orders", "orders"),
        ("amqp://h/%2F", "/"),
        ("amqp://h/a%2Fb", "a/b"),
    ],
)
def test_the_path_of_the_uri_is_the_virtual_host(uri: str, vhost: str) -> None:
    assert Server(uri).vhost == vhost


def test_a_password_is_not_shown() -> None:
    assert "hunter2" not in repr(Server("amqp://h", "sapwood", "hunter2"))


async def test_messages_go_and_come(connect) -> None:
    channel = await (await connect()).channel()
    declared = await channel.declare("till")
    assert declared == ("till", 0, 0)
    channel.publish("", "till", b"one", pika.BasicProperties(headers={"a": 1}))
    (message,) = await receive(channel, "till", 1)
    assert (message.body, message.key, message.exchange, message.redelivered) == (b"one", "till", "", False)
    assert message.properties.headers == {"a": 1}
    assert (await channel.declare("till", passive=True)).consumers == 1


async def test_what_is_not_acknowledged_is_given_again(connect) -> None:
    connection = await connect()
    first = await connection.channel()
    await first.declare("till")
    for body in (b"1", b"2", b"3"):
        first.publish("", "till", body, PLAIN)
    got = await receive(first, "till", 3)
    first.acknowledge(got[1].tag, multiple=True)
    await first.close()
    again = await receive(await connection.channel(), "till", 1)
    assert [(message.body, message.redelivered) for message in again] == [(b"3", True)]


async def test_a_negative_priority_gives_way_to_plain_consumers(connect) -> None:
    connection = await connect()
    ours, theirs = await connection.channel(), await connection.channel()
    await ours.declare("till")
    got: list[bytes] = []
    await ours.consume("till", lambda message: got.append(b"ours"), priority=-10)
    await theirs.consume("till", lambda message: got.append(b"theirs"))
    for _ in range(20):
        theirs.publish("", "till", b"x", PLAIN)
    async with asyncio.timeout(60):
        while len(got) < 20:
            await asyncio.sleep(0.01)
    assert set(got) == {b"theirs"}


async def test_a_virtual_host_that_lets_nobody_in_says_why(rabbitmq: RabbitServer, vhost: str) -> None:
    """There may be a limit, or no such host: who has all permissions looks for them in vain."""
    rabbitmq.api("PUT", f"/vhost-limits/{vhost}/max-connections", {"value": 0})
    with pytest.raises(AmqpUnreachable, match=r"\(NOT_ALLOWED - .*limit \(0\) is reached\)") as refused:
        await Connection.open(Server(rabbitmq.uri(vhost), timeout=30))
    assert "raise the limit" in str(refused.value)
    assert not isinstance(refused.value, AmqpRefused)  # that would stop a node that starts
    cure = r"\(NOT_ALLOWED - vhost no-such not found\): rabbitmqctl add_vhost no-such && rabbitmqctl set_perm"
    with pytest.raises(AmqpRefused, match=cure):
        await Connection.open(Server(rabbitmq.uri("no-such"), timeout=30))


async def test_a_question_that_the_broker_does_not_like_ends_the_channel_only(connect) -> None:
    connection = await connect()
    channel = await connection.channel()
    with pytest.raises(ChannelLost, match="no queue 'nobody'") as refused:
        await channel.declare("nobody", passive=True)
    assert refused.value.code == 404
    assert not channel.is_open
    with pytest.raises(ChannelLost, match="no queue 'nobody'"):
        await channel.declare("till")
    with pytest.raises(ChannelLost, match="no queue 'nobody'"):
        channel.publish("", "till", b"", PLAIN)
    assert (await (await connection.channel()).declare("till")).queue == "till"


async def test_a_cancelled_consumer_is_told(connect) -> None:
    connection = await connect()
    channel = await connection.channel()
    await channel.declare("till")
    told: asyncio.Queue[str] = asyncio.Queue()
    channel.on_cancelled = told.put_nowait
    tag = await channel.consume("till", lambda message: None)
    await (await connection.channel()).delete("till")
    async with asyncio.timeout(60):
        assert await told.get() == tag


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        (pika.BasicProperties(message_id="x" * 256), "till"),
        (PLAIN, "x" * 256),
        (pika.BasicProperties(headers={"a": object()}), "till"),
        (pika.BasicProperties(priority=700), "till"),
        (pika.BasicProperties(headers={"a": "x" * 200_000}), "till"),
    ],
)
async def test_what_amqp_cannot_say_is_not_sent(connect, properties: pika.BasicProperties, key: str) -> None:
    connection = await connect()
    channel = await connection.channel()
    with pytest.raises(Unencodable):
        channel.publish("", key, b"", properties)
    assert (await channel.declare("till")).messages == 0


async def test_the_end_of_a_connection_ends_its_channels_and_who_waits(connect) -> None:
    connection = await connect()
    channel = await connection.channel()
    waiting = asyncio.ensure_future(receive(channel, await name_of(channel), 1))
    await asyncio.sleep(0)
    await connection.close()
    await connection.close()
    assert isinstance(connection.ended.result(), AmqpLost)
    assert channel.ended.result().code == 0
    with pytest.raises(AmqpLost):
        await connection.channel()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)


async def name_of(channel: Channel) -> str:
    return (await channel.declare("", exclusive=True)).queue


async def test_a_killed_broker_ends_the_connection(rabbitmq: RabbitServer, connect) -> None:
    connection = await connect()
    channel = await connection.channel()
    await asyncio.to_thread(rabbitmq.kill)
    async with asyncio.timeout(60):
        lost = await connection.ended
    assert f"127.0.0.1:{rabbitmq.port}" in str(lost)
    assert channel.ended.result().code == 0
    with pytest.raises(AmqpUnreachable, match="cannot be reached"):
        await connect()


@pytest.mark.parametrize(
    ("user", "password", "vhost", "said"),
    [
        ("guest", "wrong", "/", "refuses user 'guest'"),
        ("guest", "guest", "nowhere", "nowhere"),
    ],
)
async def test_who_is_not_let_in_is_told_why(
    rabbitmq: RabbitServer, vhost: str, user: str, password: str, said: str
) -> None:
    del vhost
    wanted = "/" if said.startswith("refuses") else "nowhere"
    with pytest.raises(AmqpUnreachable, match=said):
        await Connection.open(Server(rabbitmq.uri(wanted), user, password))


async def test_permission_for_the_virtual_host_is_asked_for_by_command(
    rabbitmq: RabbitServer, vhost: str
) -> None:
    rabbitmq.add_user("stranger")
    with pytest.raises(AmqpUnreachable, match=f"rabbitmqctl set_permissions -p {vhost} stranger"):
        await Connection.open(Server(rabbitmq.uri(vhost), "stranger", "stranger"))


async def test_somebody_who_does_not_answer_is_given_up() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            pass
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(AmqpUnreachable, match="does not answer"):
            await Connection.open(Server(f"amqp://127.0.0.1:{port}", timeout=0.2))
