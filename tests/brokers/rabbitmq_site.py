"""A site with a RabbitMQ, for tests: plain pika applications, and a bridge with a desk that writes down what
it is told.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pika
import pytest
from rabbitmq_server import RabbitServer

from bridges.site_brokers.base import BrokerConsumer, BrokerDelivery, Setup, Taken
from bridges.site_brokers.rabbitmq.bridge import RabbitBridge
from sapwood.protocol.bundles import Message, Properties
from sapwood.protocol.destinations import Destination, parse

PATIENCE = 150.0  # the broker is asked once a minute for what it did not tell
_ids = itertools.count(1)


class Applications:
    """Plain pika programs of one virtual host, as unaware of us as any."""

    def __init__(self, server: RabbitServer, vhost: str) -> None:
        self._server = server
        self.vhost = vhost
        self.connections: list[pika.BlockingConnection] = []
        self._own: Any = None

    def channel(self) -> Any:
        """A channel on a connection of its own."""
        self.connections.append(self._server.connect(self.vhost))
        return self.connections[-1].channel()

    def consumer(self, queue: str, *topics: str, **declared: Any) -> Any:
        """A channel that consumes a queue, made as `declared`, and bound by `topics`."""
        channel = self.channel()
        channel.queue_declare(queue, **declared)
        for key in topics:
            channel.queue_bind(queue, "amq.topic", key)
        channel.basic_consume(queue, lambda *delivery: None)
        return channel

    def publish(
        self, key: str, body: bytes, exchange: str = "", properties: pika.BasicProperties | None = None
    ) -> None:
        self._at_hand().basic_publish(
            exchange, key, body, properties or pika.BasicProperties(delivery_mode=2)
        )

    def _at_hand(self) -> Any:
        """The channel of who publishes and looks; anew if it was lost. A bridge on the same loop stands still
        meanwhile, and to connect takes longer than all the rest.
        """
        try:
            self._own.connection.process_data_events(0)
        except (AttributeError, pika.exceptions.AMQPError):
            self._own = None
        if self._own is None or not self._own.is_open:
            self._own = self.channel()
            self._own.confirm_delivery()
        return self._own

    def publish_many(self, queue: str, count: int) -> None:
        """Their numbers, each confirmed, over one connection. Wrinkle: 500 of the above take longer on a busy
        machine than a bridge on the same loop may be silent."""
        channel = self.channel()
        channel.confirm_delivery()
        for number in range(count):
            channel.basic_publish("", queue, b"%d" % number, pika.BasicProperties(delivery_mode=2))
        self.connections.pop().close()

    def drain(self, queue: str) -> list[tuple[bytes, pika.BasicProperties]]:
        """Take all there is."""
        channel, found = self._at_hand(), []
        while (got := channel.basic_get(queue, auto_ack=True))[0]:
            found.append((got[2], got[1]))
        return found

    async def until_bound(self, key: str) -> None:
        """Wait until the node's queue for topics is bound by a key: it wants a topic before it is."""
        path = f"/exchanges/{self.vhost}/amq.topic/bindings/source"
        async with asyncio.timeout(PATIENCE):
            while not any(
                (each["routing_key"], each["destination"]) == (key, "sapwood.topics")
                for each in self._server.api("GET", path)
            ):
                await asyncio.sleep(0.05)

    def close(self) -> None:
        for connection in self.connections:
            try:
                connection.close()
            except pika.exceptions.AMQPError:
                connection._cleanup()  # what was lost keeps sockets of its own open
        self.connections.clear()
        self._own = None


def drop(channel: Any) -> None:
    """The application is killed: its socket goes, and nothing is said."""
    connection = channel.connection
    raw = connection._impl._transport._sock
    raw.shutdown(2)
    with pytest.raises(pika.exceptions.AMQPError):
        connection.process_data_events(1)


class FakeDesk:
    """Writes down what a bridge tells; commits at once, unless `holding`. `unread`: by nobody here.

    `full`: names for which there is no room.
    """

    def __init__(self) -> None:
        self.consumers: set[BrokerConsumer] = set()
        self.taken: list[Taken] = []
        self.confirmed: list[int] = []
        self.refused: dict[int, str] = {}
        self.thrown_away: list[int] = []
        self.broker = ""
        self.completed = 0
        self.is_told = True
        self.holding = False
        self.unread: set[str] = set()
        self.full: set[str] = set()
        self.held: list[Callable[[], None]] = []

    def connected(self, text: str) -> None:
        self.broker = text

    def complete(self, consumers: Iterable[BrokerConsumer]) -> None:
        self.consumers = set(consumers)
        self.completed += 1

    def came(self, consumer: BrokerConsumer) -> None:
        self.consumers.add(consumer)

    def went(self, consumer: BrokerConsumer) -> None:
        self.consumers.discard(consumer)

    def take(self, batch: Sequence[Taken], done: Callable[[], None]) -> None:
        self.taken += batch
        if self.holding:
            self.held.append(done)
        else:
            done()

    def confirm(self, ids: Sequence[int]) -> None:
        self.confirmed += ids

    def refuse(self, id: int, reason: str) -> None:
        self.refused[id] = reason

    def again(self, delivery: BrokerDelivery) -> None:
        self.thrown_away.append(delivery.id)

    def has_room(self, destination: Destination) -> bool:
        return destination.name not in self.full

    def outdated(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.unread]

    @property
    def destinations(self) -> set[str]:
        return {str(consumer.destination) for consumer in self.consumers}

    @property
    def payloads(self) -> list[bytes]:
        return [taken.message.payload for taken in self.taken]

    async def until(self, holds: Callable[[], bool], what: str = "") -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not holds():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"not {what} in time: {vars(self)}"[:2000]) from None

    async def until_consumers(self, *destinations: str) -> None:
        """Wait until exactly these have consumers."""
        await self.until(lambda: self.destinations == set(destinations), f"consumers of {destinations}")


class At:
    """A bridge at work, with its desk."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.desk = FakeDesk()
        self.bridge = RabbitBridge(setup)
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> "At":
        """Run until it is connected."""
        self.desk.broker = ""
        self.task = asyncio.create_task(self.bridge.run(self.desk))
        await self.desk.until(lambda: bool(self.desk.broker) or self.task.done(), "connected")
        if self.task.done():
            await self.task
        return self

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    def want(self, *destinations: str) -> None:
        self.bridge.want(frozenset(map(parse, destinations)))

    def deliver(self, destination: str, payload: bytes, **properties: Any) -> int:
        """Give one message to the broker; returns its id."""
        number = next(_ids)
        message = Message(payload, Properties(**properties))
        self.bridge.deliver([BrokerDelivery(number, parse(destination), message, True, False, False)])
        return number

    async def until_answered(self, *ids: int) -> None:
        desk = self.desk
        await desk.until(lambda: {*desk.confirmed, *desk.refused} >= set(ids), f"answered {ids}")


class Reader:
    """A plain application that consumes a queue and acknowledges; `got` grows while somebody waits for it."""

    def __init__(self, channel: Any, queue: str, *topics: str, **declared: Any) -> None:
        self.got: list[tuple[bytes, pika.BasicProperties]] = []
        self.channel = channel
        self.queue = channel.queue_declare(queue, **declared).method.queue
        for key in topics:
            channel.queue_bind(self.queue, "amq.topic", key)
        channel.basic_consume(self.queue, self._take)

    def _take(self, channel: Any, method: Any, properties: pika.BasicProperties, body: bytes) -> None:
        self.got.append((body, properties))
        channel.basic_ack(method.delivery_tag)

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _ in self.got]

    async def until(self, count: int) -> list[bytes]:
        """Wait for `count` different bodies; return all, in the order in which they came."""
        try:
            async with asyncio.timeout(PATIENCE):
                while len(set(self.bodies)) < count:
                    self.channel.connection.process_data_events(0.01)
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{len(set(self.bodies))} of {count} messages came") from None
        return self.bodies
