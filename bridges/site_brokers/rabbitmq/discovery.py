"""Discovery: feeds the census with what a RabbitMQ tells, and tells the desk who came and who went.

Three sources, of which each may be missing: the event exchange says at once that something happened; the
management API lists what there is; a passive declare counts the consumers of one queue, without lag. First
the event exchange is listened to, then all is listed, then listed again after a few seconds, and then every
minute. Where there are no events, lists come every few seconds; where there are no lists either, only queues
that are wanted or configured are known, and asked for one by one.

Law: who has heard events and hears them no more says so: the whole visit ends, and the next one begins with a
list.

Wrinkle: the event exchange lies in one virtual host, usually `/`, and tells of all of them.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Set
from typing import Final

from bridges.amqp.connection import Channel, Connection
from bridges.amqp.errors import (
    NOT_FOUND,
    RESOURCE_LOCKED,
    ChannelLost,
    ManagementError,
)
from bridges.amqp.frames import Incoming
from bridges.site_brokers.rabbitmq.consumers import EVENTS, OURS, QueueTable
from bridges.site_brokers.rabbitmq.exchanges import Binding
from bridges.site_brokers.rabbitmq.management import Management
from treeconnector.edge import BrokerConsumer

EXCHANGE: Final = "amq.rabbitmq.event"
EVENTS_VHOST: Final = "/"
AGAIN_AFTER: Final = 6.0
EVERY: Final = 60.0
WITHOUT_EVENTS: Final = 5.0
_EVENT_QUEUE: Final = 10_000
_SETTLE: Final = 0.02
_UNSURE: Final = 0.1
_MOST_STREAMS: Final = 100
_SHOWN: Final = 10

_log = logging.getLogger("sapwood.site")


class Prober:
    """Asks for queues one by one, on a channel of its own, which the broker closes with each bad news."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._channel: Channel | None = None
        self._lock = asyncio.Lock()

    async def count(self, queue: str) -> tuple[int | None, bool]:
        """How many consumers, ours included, or None if there is no such queue; and whether it is private.

        Raises `AmqpError` when the connection is lost.
        """
        async with self._lock:
            channel = self._channel
            if channel is None or not channel.is_open:
                channel = self._channel = await self._connection.channel()
            try:
                return (await channel.declare(queue, passive=True)).consumers, False
            except ChannelLost as error:
                if error.code == RESOURCE_LOCKED:
                    return 1, True
                if error.code == NOT_FOUND:
                    return None, False
                raise


class Events:
    """The event exchange, heard through an exclusive queue of bounded length."""

    def __init__(self, connection: Connection, census: QueueTable, news: asyncio.Event) -> None:
        self._connection = connection
        self._census = census
        self._news = news
        self._channel: Channel | None = None
        self._queue = f"{OURS}events.{secrets.token_hex(8)}"

    async def bind(self) -> None:
        """From here on every event reaches the census. Raises `ChannelLost` if there is no event exchange."""
        channel = await self._connection.channel()
        await channel.check_exchange(EXCHANGE)
        queue = self._queue
        await channel.declare(queue, exclusive=True, arguments={"x-max-length": _EVENT_QUEUE})
        await self._bind_to(channel)
        await channel.prefetch(_EVENT_QUEUE)
        lost = ChannelLost(0, "the queue through which events of the broker were heard is deleted")
        channel.on_cancelled = lambda tag: channel.end(lost)
        await channel.consume(queue, self._heard, acknowledged=False, tag=f"{OURS}events")
        self._channel = channel

    async def bind_again(self) -> None:
        """The queue stays where the exchange is deleted, or was and is back, and would hear nothing.

        Raises `ChannelLost` if there is no event exchange any more.
        """
        assert self._channel is not None
        await self._bind_to(self._channel)

    async def _bind_to(self, channel: Channel) -> None:
        for event in EVENTS:
            await channel.bind(self._queue, EXCHANGE, event)

    async def until_lost(self) -> None:
        """Until nothing is heard any more, which raises `ChannelLost`."""
        assert self._channel is not None
        raise await asyncio.shield(self._channel.ended)

    def _heard(self, message: Incoming) -> None:
        self._census.event(message.key, message.properties.headers or {})
        self._news.set()


class EventDiscovery:
    """One for each connection. `ours(queue)`: how many consumers of a queue are ours; None: it changes now.

    `on_arrived`: called with queues that were made. `tell(came, went)`: what changed; `complete(all)`.
    `crossing`: see `Exchanges.crossing`. `on_loose`: called with bindings of our own queue that are no more.
    """

    def __init__(
        self,
        census: QueueTable,
        prober: Prober,
        management: Management | None,
        ours: Callable[[str], int | None],
        on_arrived: Callable[[Iterable[str]], None],
        tell: Callable[[list[BrokerConsumer], list[BrokerConsumer]], None],
        complete: Callable[[list[BrokerConsumer]], None],
    ) -> None:
        self._census = census
        self._prober = prober
        self._management = management
        self._ours = ours
        self._on_arrived = on_arrived
        self._tell = tell
        self._complete = complete
        self.news = asyncio.Event()
        self.events: Events | None = None
        self.lists = False
        self.lacks: dict[str, str] = {}
        self.crossing: dict[str, str] = {}
        self.on_loose: Callable[[Set[Binding]], None] = lambda bindings: None
        self._listed_at = 0.0
        self._streams_due = 0.0
        self._has_streams = False
        self._unsure: set[str] = set()

    def __repr__(self) -> str:
        return f"<EventDiscovery {self.how} {self._census!r}>"

    @property
    def how(self) -> str:
        """How consumers are learned."""
        return {
            (True, True): "events and lists",
            (True, False): "events, without a list of what was there before",
            (False, True): f"lists, every {WITHOUT_EVENTS:g} s",
            (False, False): "queues that are wanted or configured, one by one",
        }[self.events is not None, self.lists]

    @property
    def knows_all(self) -> bool:
        """Is a queue that is not known not there? One that was made is known by its event or a list."""
        return self.lists and not self._census.is_full

    async def listen(self, connection: Connection) -> None:
        """Hear events over `connection`, which is one to the virtual host of the event exchange."""
        events = Events(connection, self._census, self.news)
        try:
            await events.bind()
        except ChannelLost as error:
            if error.code == 0:
                raise
            self._lack("events", f"no events: {error.text}")
            return
        self.events = events
        self.lacks.pop("events", None)

    async def until_deaf(self) -> None:
        """Until events are heard no more, which raises `AmqpError`; returns where none ever were."""
        if self.events is not None:
            await self.events.until_lost()

    def _lack(self, what: str, text: str) -> None:
        if self.lacks.get(what) != text:
            _log.warning("! the site's broker lacks something: %s", text, extra={"reason": text})
        self.lacks[what] = text

    async def begin(self) -> None:
        """List what there is, and tell it as complete. Raises `AmqpError` when the connection is lost."""
        is_first, had_all = not self._listed_at, self.lists
        if self.events is not None:
            await self.events.bind_again()
        await self._list()
        await self._ask()
        # Whoever came since is told by itself, as it is greeted then. In a first list are those of long ago.
        if not is_first and had_all >= self.lists:
            came, _ = self._census.changes()
            self._tell(came, [])
        self._complete(self._census.consumers())

    async def run(self) -> None:
        """Follow what happens, for ever. Raises `AmqpError` when the connection is lost."""
        pause = AGAIN_AFTER
        while True:
            due = self._listed_at + pause
            if self._census.stale:
                due = min(due, self._listed_at + AGAIN_AFTER)
            if await self._until(due):
                await self.begin()
                pause = EVERY if self.events is not None else WITHOUT_EVENTS
            else:
                await self._ask()
                self._tell(*self._census.changes())
            self._arrived()

    async def _until(self, due: float) -> bool:
        """Wait for news, or until `due`; whether it is due."""
        loop = asyncio.get_running_loop()
        soon = _UNSURE if self._unsure else max(due - loop.time(), 0)
        if self._management is not None:
            if loop.time() >= self._streams_due:
                self._streams_due = loop.time() + WITHOUT_EVENTS
                self._has_streams = self._census.doubt_streams(_MOST_STREAMS)
                if self._has_streams:
                    self.news.set()
            if self._has_streams:
                soon = min(soon, self._streams_due - loop.time())
        try:
            async with asyncio.timeout(min(soon, max(due - loop.time(), 0))):
                await self.news.wait()
            await asyncio.sleep(_SETTLE)
        except TimeoutError:
            pass
        self.news.clear()
        for name in self._unsure:
            self._census.doubtful[name] = None
        self._unsure.clear()
        return loop.time() >= due

    def _arrived(self) -> None:
        if self._census.arrived:
            arrived = list(self._census.arrived)
            self._census.arrived.clear()
            self._on_arrived(arrived)
        if self._census.loose:
            loose, self._census.loose = self._census.loose, set()
            self.on_loose(loose)

    async def _list(self) -> None:
        census, management = self._census, self._management
        self._listed_at = asyncio.get_running_loop().time()
        census.stale = False
        self.lists = False
        if management is not None:
            census.listing()
            try:
                queues = await management.queues(census.vhost)
                bindings: list[tuple[str, Binding]] = []
                behind = set[str]()
                for exchange in census.exchanges:
                    bound, others = await management.bindings(census.vhost, exchange)
                    bindings += ((name, Binding(exchange, key)) for name, key in bound)
                    behind |= others
                await self._look_for_crossing(management)
                await self._look_for_harm(management)
            except ManagementError as error:
                self._lack("lists", f"no lists: {error}")
            else:
                census.listed(queues, bindings, behind)
                self.lists = True
                self.lacks.pop("lists", None)
        if not self.lists:
            census.doubt_all()

    async def _look_for_crossing(self, management: Management) -> None:
        """Where exchanges have topics of their own: does one feed another? Raises `ManagementError`."""
        exchanges, vhost = self._census.exchanges, self._census.vhost
        if not exchanges.prefixes:
            return
        feeding = {name: await management.sources(vhost, name) for name in exchanges}
        self.crossing = exchanges.crossing(feeding)
        if not self.crossing:
            self.lacks.pop("exchanges", None)
            return
        bound = ", ".join(
            f"{name!r} to {source!r}" for source, name in sorted(self.crossing.items())[:_SHOWN]
        )
        self._lack("exchanges", f"bound to an exchange of other topics is {bound}: see sapwood node check")

    async def _look_for_harm(self, management: Management) -> None:
        """Does a policy throw away what waits for the node? Raises `ManagementError`."""
        harm = await management.harm(self._census.vhost)
        if harm is None:
            self.lacks.pop("policies", None)
        else:
            self._lack("policies", f"{harm.text}: see sapwood node check")

    async def _ask(self) -> None:
        """Count the consumers of each queue that is in doubt."""
        census = self._census
        census.doubt_closed()
        for name in list(census.doubtful):
            census.doubtful.pop(name, None)
            fading = name in census.fading
            census.fading.discard(name)
            known = census.queues.get(name)
            if known is not None and known.private:
                continue
            if known is not None and known.stream and self._management is not None:
                await self._ask_of_stream(self._management, name)
                continue
            before = self._ours(name)
            consumers, private = await self._prober.count(name)
            ours = self._ours(name)
            if consumers is None:
                census.counted(name, None)
            elif private:
                census.counted(name, 0, private=True)
            elif ours is None or ours != before:
                self._unsure.add(name)
            else:
                census.counted(name, max(consumers - ours, 0))
                if fading and consumers > ours:
                    self._unsure.add(name)
        if census.doubtful:
            self.news.set()

    async def _ask_of_stream(self, management: Management, name: str) -> None:
        """Count the consumers of a stream, ours left out by their tags."""
        census = self._census
        try:
            tags = await management.readers(census.vhost, name)
        except ManagementError:
            return  # what was known stands until it answers again
        census.counted(name, None if tags is None else sum(not tag.startswith(OURS) for tag in tags))
