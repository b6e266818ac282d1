"""The bridge between a node and RabbitMQ: the port `bridges.site_brokers.base.Bridge`.

Two connections to the site's virtual host: on one it publishes, on the other it consumes and asks. A third,
where the site's virtual host is not `/`, hears the event exchange, which lies there.

Law: whatever ends one of them ends them all; the desk starts anew.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pika import BasicProperties

from bridges.amqp.connection import Connection
from bridges.amqp.errors import AmqpError, AmqpLost, AmqpRefused, AmqpUnreachable
from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import (
    BrokerConsumer,
    BrokerDelivery,
    Desk,
    Finding,
    NotTaken,
    Setup,
    SiteBrokerError,
    SiteBrokerRefused,
    Taken,
    unanswerable,
)
from bridges.site_brokers.rabbitmq.bindings import TOPICS
from bridges.site_brokers.rabbitmq.connection import exchanges_of, management_of, server_of
from bridges.site_brokers.rabbitmq.consumers import OURS, PLUGINS, REPLIES, QueueTable
from bridges.site_brokers.rabbitmq.discovery import EVENTS_VHOST, EventDiscovery, Prober
from bridges.site_brokers.rabbitmq.inspection import all_lines, inspect
from bridges.site_brokers.rabbitmq.management import Management
from bridges.site_brokers.rabbitmq.messages import (
    TOPIC,
    address_of,
    giver_of,
    properties_of,
    taken_astray,
    taken_for,
    taken_from_queue,
    taken_from_stream,
    taken_from_topic,
)
from bridges.site_brokers.rabbitmq.ownership import claim
from bridges.site_brokers.rabbitmq.publishing import NO_QUEUE, Outgoing, Publisher, Refused
from bridges.site_brokers.rabbitmq.replies import ARGUMENTS, DIRECT, Replies, destination_of
from bridges.site_brokers.rabbitmq.streams import offset_of
from bridges.site_brokers.rabbitmq.taking import PREFETCH, Taker
from bridges.site_brokers.rabbitmq.taps import Read
from sapwood.protocol.destinations import Destination, Kind, queue
from sapwood.protocol.errors import PatternError

_log = logging.getLogger("sapwood.site")
_SHOWN: Final = 100


class RabbitBridge:
    """One RabbitMQ. See `bridges.site_brokers.base.Bridge` for what its methods promise."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._server = server_of(setup)
        self._wanted: frozenset[Destination] = frozenset()
        self._visit: Visit | None = None

    def __repr__(self) -> str:
        return f"<RabbitBridge {self._server.uri} {self._visit!r}>"

    async def run(self, desk: Desk) -> None:
        opened: list[Connection] = []
        self._server = server_of(self._setup)
        management = management_of(self._setup, self._server)
        try:
            giving = await self._open(opened, f"sapwood {self._setup.node}, giving", self._server.vhost)
            taking = await self._open(opened, f"sapwood {self._setup.node}, taking", self._server.vhost)
            await claim(taking, giving, self._setup.tree, self._setup.node, self._setup.store)
            visit = self._visit = Visit(self._setup, management, giving, taking, desk)
            visit.want(self._wanted)
            hearing = taking
            if self._server.vhost != EVENTS_VHOST:
                hearing = await self._hear(opened) or taking
            await visit.run(hearing)
        except SiteBrokerError:
            raise
        except AmqpRefused as error:
            raise SiteBrokerRefused(str(error)) from None
        except AmqpError as error:
            raise SiteBrokerError(str(error)) from None
        finally:
            self._visit = None
            await asyncio.gather(*(connection.close() for connection in opened))

    async def _open(self, opened: list[Connection], name: str, vhost: str) -> Connection:
        server = replace(self._server, name=name).at(vhost)
        connection = await Connection.open(server)
        opened.append(connection)
        return connection

    async def _hear(self, opened: list[Connection]) -> Connection | None:
        try:
            return await self._open(opened, f"sapwood {self._setup.node}, hearing", EVENTS_VHOST)
        except AmqpUnreachable:
            return None

    def want(self, wanted: frozenset[Destination]) -> None:
        self._wanted = wanted
        if self._visit is not None:
            self._visit.want(wanted)

    def deliver(self, batch: Sequence[BrokerDelivery]) -> None:
        if self._visit is not None:
            self._visit.deliver(batch)

    def greets(self, consumer: BrokerConsumer) -> bool:
        """Not those of plugins, which would take the name of the queue for the message's topic."""
        return consumer.destination.kind == Kind.TOPIC and not consumer.id.startswith(PLUGINS)

    @property
    def retains(self) -> bool:
        return False

    def review(self, pattern: str) -> None:
        """Not so: RabbitMQ retains nothing."""

    async def leave(self) -> None:
        visit = self._visit
        if visit is None:
            raise SiteBrokerError(f"the broker at {self._server.uri} is not there")
        try:
            await visit.leave()
        except AmqpError as error:
            raise SiteBrokerError(str(error)) from None

    def farewell(self) -> list[str]:
        return [f"rabbitmqctl delete_queue -p {self._server.vhost} {TOPICS}"]

    def status(self) -> dict[str, Any]:
        return self._visit.status() if self._visit is not None else {"discovery": "none: not connected"}

    async def inspect(self) -> list[Finding]:
        try:
            return await inspect(self._setup, self._server, management_of(self._setup, self._server))
        except AmqpRefused as error:
            return [Finding(True, str(error), all_lines(self._setup, self._server))]
        except AmqpError as error:
            raise SiteBrokerError(str(error)) from None


class Visit:
    """One stay at the broker, on connections of its own."""

    def __init__(
        self,
        setup: Setup,
        management: Management | None,
        giving: Connection,
        taking: Connection,
        desk: Desk,
    ) -> None:
        self._setup = setup
        self._exchanges = exchanges_of(setup)
        self._giving = giving
        self._taking = taking
        self._desk = desk
        self._census = QueueTable(setup.node, giving.server.vhost, self._exchanges, setup.max_consumers)
        self._prober = Prober(taking)
        self._publisher = Publisher(giving, setup.node)
        self._taker = Taker(
            taking,
            self._prober,
            self._exchanges,
            setup.directory,
            self._take,
            self._read_queue,
            self._read_topic,
            self._may_take,
        )
        self._replies = self._taker.replies = Replies(setup.node, self._taker.want_replies, self._asked)
        self._other_ways = NotTaken(_SHOWN, "comes another way than the tree's, too")
        giving.on_blocked = _say_blocked
        self._checks: set[asyncio.Task[None]] = set()
        self._discovery = EventDiscovery(
            self._census,
            self._prober,
            management,
            self._taker.ours,
            self._taker.look,
            self._tell,
            self._complete,
        )
        self._discovery.on_loose = self._taker.unbound

    def __repr__(self) -> str:
        return f"<Visit {self._publisher!r} {self._taker!r} {self._discovery!r}>"

    async def run(self, hearing: Connection) -> None:
        """Until a connection is lost, which raises `AmqpError`."""
        await self._taker.changeover.begin(self._taking)
        if self._setup.settings.discovery == "automatic":
            await self._discovery.listen(hearing)
            await self._discovery.begin()
        self._desk.connected(f"RabbitMQ {self._giving.version}")
        work: list[Coroutine[Any, Any, None]] = [
            self._publisher.run(),
            self._taker.run(),
            self._taker.bind(),
            _until_lost(self._giving),
            _until_lost(self._taking),
        ]
        if self._setup.settings.discovery == "automatic":
            work += [self._discovery.run(), self._discovery.until_deaf()]
        await _first_to_fail(work)

    # --- consumers

    def _tell(self, came: Iterable[BrokerConsumer], went: Iterable[BrokerConsumer]) -> None:
        for consumer in came:
            self._desk.came(consumer)
        for consumer in went:
            self._desk.went(consumer)

    def _complete(self, consumers: Iterable[BrokerConsumer]) -> None:
        if self._discovery.lists:
            self._replies.listed(self._census.replies)
        self._desk.complete(consumers)

    def _asked(self, name: str) -> None:
        self._census.asked(name)
        self._tell(*self._census.changes())

    # --- from the broker

    def want(self, wanted: frozenset[Destination]) -> None:
        self._taker.want(wanted)

    async def leave(self) -> None:
        await self._taker.leave()

    def _may_take(self, name: str) -> bool:
        """Where all queues are known one that is not there is not asked for: RabbitMQ would write an error
        into its log each time, and most that are read elsewhere are at no other site.

        A queue for which the node has no room is better left alone: RabbitMQ gives the same again after each
        `consumer_timeout`, and a quorum queue drops what it has given more often than its `delivery-limit`.
        That of topics may be one, and is left alone where the node has no room for anything.
        """
        known, is_ours = self._census.queues.get(name), name.startswith(OURS)
        if known.vanishing if known is not None else not is_ours and self._discovery.knows_all:
            return False
        is_for_anything = is_ours and name != TOPICS
        if is_for_anything or self._desk.has_room(queue(name)):
            return True
        self._taker.not_taken.note(f"queue:{name}", "the node has no room for it now")
        return False

    def _take(self, batch: list[Taken], done: Any) -> None:
        self._desk.take(batch, done)

    def _read_queue(self, name: str) -> Read:
        where = destination_of(name.removeprefix(REPLIES)) if name.startswith(REPLIES) else None
        if where is not None:
            return lambda message: taken_for(where, message, self._replies.read)
        return partial(self._read_one, name)

    def _read_one(self, name: str, message: Incoming) -> Taken | None:
        self._look_whence(f"queue:{name}", message)
        offset, streams = offset_of(message), self._taker.streams
        if offset is None or name not in streams:
            return taken_from_queue(name, message, self._replies.read)
        doubtful = streams.is_doubtful(name, offset, PREFETCH)
        return taken_from_stream(name, message, offset, self._replies.read, doubtful=doubtful)

    def _look_whence(self, name: str, message: Incoming) -> None:
        """A message that another node gave to its own broker came here by a shovel, by federation, or by an
        application that sends it on as it is.
        """
        giver = giver_of(message)
        if giver and giver != self._setup.node:
            self._other_ways.note(
                name,
                f"here are messages that node {giver[:80]!r} gave to its own broker, so they come twice, or"
                " go round while nobody here reads them: end the shovel or federation, or leave this out of"
                " the tree (rules)",
            )

    def _read_topic(self, message: Incoming) -> Taken | None:
        self._look_whence(f"exchange {message.exchange}", message)
        fed = self._discovery.crossing.get(message.exchange, "")
        if fed and message.exchange not in self._exchanges:
            return taken_astray(message, fed, self._replies.read)
        return taken_from_topic(message, self._taker.changeover.exchanges_of(message), self._replies.read)

    # --- to the broker

    def deliver(self, batch: Sequence[BrokerDelivery]) -> None:
        for delivery in batch:
            self._deliver(delivery)

    def _deliver(self, delivery: BrokerDelivery) -> None:
        try:
            exchange, key = address_of(delivery, self._exchanges)
        except PatternError as error:
            self._desk.refuse(delivery.id, f"DESTINATION: {error}")
            return
        properties = properties_of(delivery, self._replies.spell)
        first, asked = properties.reply_to or "", delivery.message.properties.reply_to
        if asked and not first:
            self._desk.refuse(delivery.id, unanswerable(asked))
            return
        if delivery.alone is not None:
            self._greet(delivery, delivery.alone.id, key, properties)
            return

        def done(refused: Refused | None) -> None:
            if refused is None:
                self._desk.confirm((delivery.id,))
            elif refused.reason == NO_QUEUE:
                self._vanished(delivery, refused)
            else:
                self._desk.refuse(delivery.id, str(refused))

        is_queue, is_direct = delivery.destination.kind == Kind.QUEUE, key.startswith(DIRECT)
        outgoing = Outgoing(
            exchange,
            key,
            delivery.message.payload,
            properties,
            is_queue and not is_direct,
            done,
            first if first.startswith(REPLIES) else "",
            ARGUMENTS,
        )
        if not is_queue or not is_direct:
            self._publisher.give(outgoing)
            return
        check = asyncio.ensure_future(self._answer(outgoing))
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)

    async def _answer(self, outgoing: Outgoing) -> None:
        """Give an answer to whoever waits on his channel. RabbitMQ would not say that he has gone."""
        with contextlib.suppress(AmqpError):  # the visit ends with the connection
            there, _ = await self._prober.count(outgoing.key)
            if there is not None:
                self._publisher.give(outgoing)
            else:
                outgoing.done(Refused(NO_QUEUE, "whoever asked has closed his channel"))

    def _vanished(self, delivery: BrokerDelivery, refused: Refused) -> None:
        """A queue has gone before the broker said so: another may have what is for those who read it.

        Not so one that is declared, which is read whatever the broker tells, nor that of an answer.
        """
        name = delivery.destination.name
        if str(queue(name)) in self._setup.settings.consumers:
            self._desk.refuse(delivery.id, str(refused))
            return
        self._census.counted(name, None)
        came, went = self._census.changes()
        if not any(consumer.destination == queue(name) for consumer in went):
            self._desk.refuse(delivery.id, str(refused))
        self._tell(came, went)

    def _greet(self, delivery: BrokerDelivery, name: str, key: str, properties: BasicProperties) -> None:
        """Into the queue of the consumer. One that is full has had what there is room for."""
        properties.headers = {**(properties.headers or {}), TOPIC: key}

        def done(refused: Refused | None) -> None:
            if refused is not None and refused.reason == NO_QUEUE and name in self._census.queues:
                self._census.counted(name, None)
                self._tell(*self._census.changes())
            self._desk.confirm((delivery.id,))

        self._publisher.give(Outgoing("", name, delivery.message.payload, properties, True, done))

    # --- for people

    def status(self) -> dict[str, Any]:
        static = self._setup.settings.discovery == "static"
        return {
            "discovery": "static" if static else self._discovery.how,
            "lacks": dict(self._discovery.lacks),
            "queues_known": len(self._census.queues),
            "taking_queues": self._taker.taking[:_SHOWN],
            "reply_queues": len(self._replies.queues),
            "troubles": dict(list(self._taker.not_taken.reasons.items())[:_SHOWN]),
            "other_ways": dict(self._other_ways.reasons),
            "unspeakable": sorted(self._census.odd)[:_SHOWN],
            "blocked": self._giving.blocked,
            "confirmed": self._publisher.confirmed,
            "refused": self._publisher.refused,
            "published_again": self._publisher.repeated,
        }


def _say_blocked(why: str) -> None:
    if why:
        _log.warning("! the site's broker takes no messages now: %s", why, extra={"reason": why})
    else:
        _log.info("= the site's broker takes messages again")


async def _until_lost(connection: Connection) -> None:
    raise await asyncio.shield(connection.ended)


async def _first_to_fail(work: list[Coroutine[Any, Any, None]]) -> None:
    """Run all until one fails; end the others, and raise what it raised."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in finished:
            task.result()
        raise AmqpLost("the work at the broker ended")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
