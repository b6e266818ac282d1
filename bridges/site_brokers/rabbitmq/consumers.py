"""The consumers at a RabbitMQ: events and lists in, consumers out. Pure.

A queue that somebody consumes is `queue:NAME`. A queue that is bound to a topic exchange, and that somebody
consumes or that keeps messages for whoever comes back (it is durable, or belongs to a connection alone), is
`topic:PATTERN` for each of its bindings there. The MQTT plugin's clients are such queues.

Law: events are hints. How many consumers a queue has, the broker is asked (a passive declare does not lag,
the management API does); an event only says which queue to ask for. So it does not matter that a killed
channel may say no more than `channel.closed`, that a deleted queue says `consumer.deleted` twice, and that
events get lost in a flood.

Law: a list is as old as its making (`listing`): what happens meanwhile is taken in after it.

Law: memory is bounded. Beyond `limit` queues, or channels, nothing more is remembered of an event but that
there was one (`stale`): then everything has to be listed again.

Wrinkle: a private queue (an exclusive one) cannot be asked for, and has an owner as long as it is there.
Replies go to such queues, and to those that the broker has named: they are `queue:NAME@NODE`, of which no
other node needs to be told. So is one that was named for a reply and that nobody consumes: it is polled.
Queues that a plugin has named are reached through their bindings only.

Wrinkle: the broker answers for a stream that it has no consumers, and no event tells of one that comes: the
management API knows them, some seconds late.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from bridges.site_brokers.rabbitmq.exchanges import Binding, Exchanges
from sapwood.protocol.destinations import queue, topic
from sapwood.protocol.errors import InvalidName, PatternError
from sapwood.protocol.names import queue_name
from treeconnector.edge import BrokerConsumer

OURS: Final = "sapwood."
"""How the names of our own queues begin."""
REPLIES: Final = f"{OURS}reply."
"""How those begin that lead to a reply queue elsewhere in the tree."""
MOST_ASKED: Final = 1000
"""Names at which answers are waited for; the one that was not used for longest is forgotten."""
PLUGINS: Final = ("mqtt-subscription-", "stomp-subscription-")
_UNNAMED: Final = ("amq.", *PLUGINS)
EVENTS: Final = (
    "consumer.created",
    "consumer.deleted",
    "queue.created",
    "queue.deleted",
    "binding.created",
    "binding.deleted",
    "exchange.created",
    "channel.closed",
    "connection.created",
    "connection.closed",
)
_AMQP_1_0: Final = "{1,0}"
"""The protocol of a connection, as events have it."""


class Listed(NamedTuple):
    """A queue as a list or an event describes it. `private`: exclusive to a connection. `filled`: something
    waits in it, or the list does not say.
    """

    name: str
    durable: bool
    private: bool
    vanishing: bool = False
    stream: bool = False
    filled: bool = False


@dataclass(slots=True)
class Known:
    """The facts known of a queue. `consumers`: by the broker's last answer, without ours.

    `vanishing`: it goes with its last consumer. `keys`: its bindings to the exchanges.
    """

    durable: bool = False
    private: bool = False
    vanishing: bool = False
    stream: bool = False
    consumers: int = 0
    keys: set[Binding] = field(default_factory=set)

    @property
    def keeps(self) -> bool:
        """Does what comes into it reach somebody, now or when he is back?"""
        return self.consumers > 0 or self.durable or self.private


class QueueTable:
    """The queues of one virtual host, and their bindings to some exchanges.

    `doubtful`: queues to ask the broker for, then call `counted`. `stale`: list everything again. `arrived`:
    queues that were made. `loose`: bindings of our own queue that are no more, and of an exchange that was
    made, which has none. All four are the caller's to empty. `odd`: queues with a name or a key that has no
    spelling in the tree. `fading`: doubtful ones whose consumer may go a moment after its connection, to be
    asked for once more. `replies`: our own reply queues, when they were listed last, and whether something
    waited there.
    """

    def __init__(self, node: str, vhost: str, exchanges: Exchanges, limit: int) -> None:
        self.queues: dict[str, Known] = {}
        self.doubtful: dict[str, None] = {}
        self.arrived: dict[str, None] = {}
        self.loose: set[Binding] = set()
        self.stale = False
        self.odd: set[str] = set()
        self.replies: dict[str, bool] = {}
        self._node = node
        self.vhost = vhost
        self.exchanges = exchanges
        self._behind: set[str] = set()
        self._limit = limit
        self.fading: set[str] = set()
        self._channels: dict[str, set[str]] = {}
        self._connections: set[str] = set()
        self._strange_channel = self._fading_connection = False
        self._touched: set[str] = set()
        self._asked: OrderedDict[str, None] = OrderedDict()
        self._fresh: dict[str, set[Binding]] = {}
        self._told: dict[str, set[BrokerConsumer]] = {}
        self._since: list[tuple[str, Mapping[str, Any]]] | None = None

    def __repr__(self) -> str:
        counts = f"queues={len(self.queues)} doubtful={len(self.doubtful)} stale={self.stale}"
        return f"<QueueTable of {self.vhost} {counts}>"

    @property
    def is_full(self) -> bool:
        """Are there queues, maybe, that had no room here?"""
        return len(self.queues) >= self._limit

    # --- what the broker says

    def event(self, kind: str, headers: Mapping[str, Any]) -> None:
        """Something happened. `kind`: the event's routing key. Other virtual hosts are left aside."""
        if self._since is not None and len(self._since) <= self._limit:
            self._since.append((kind, headers))
        if kind == "channel.closed":
            self._channel_closed(str(headers.get("pid", "")))
            return
        if kind.startswith("connection."):
            self._connection(kind, str(headers.get("pid", "")), str(headers.get("protocol", "")))
            return
        if headers.get("vhost") != self.vhost:
            return
        name = headers.get("queue", headers.get("name", headers.get("destination_name")))
        if not isinstance(name, str):
            return
        if kind == "exchange.created":
            self._loosen(Binding(name, ""))
            return
        if name.startswith(OURS):
            if kind == "binding.deleted":
                self._loosen(Binding(str(headers.get("source_name")), str(headers.get("routing_key", ""))))
            return
        match kind:
            case "consumer.created":
                self._index(str(headers.get("channel", "")), name)
                self._doubt(name)
            case "consumer.deleted":
                self._doubt(name)
            case "queue.created":
                self._made(name, headers)
            case "queue.deleted":
                self._drop(name)
            case "binding.created" | "binding.deleted":
                self._bound(name, headers, kind == "binding.created")

    def _loosen(self, binding: Binding) -> None:
        if binding.exchange in self.exchanges:
            self.loose.add(binding)

    def _made(self, name: str, headers: Mapping[str, Any]) -> None:
        private = bool(headers.get("exclusive")) or bool(headers.get("owner_pid"))
        durable, vanishing = bool(headers.get("durable")), bool(headers.get("auto_delete"))
        listed = Listed(name, durable, private, vanishing, headers.get("type") == "rabbit_stream_queue")
        self._arrived(name)
        if self._describe(listed):
            self._doubt(name)

    def _arrived(self, name: str) -> None:
        if len(self.arrived) < self._limit:
            self.arrived[name] = None
        else:
            self.stale = True

    def _bound(self, name: str, headers: Mapping[str, Any], come: bool) -> None:
        exchange = headers.get("source_name")
        feeds = headers.get("destination_kind") == "exchange"
        if exchange in self._behind or (feeds and (self.exchanges.prefixes or exchange in self.exchanges)):
            self.stale = True  # an exchange feeds one of ours, or is fed by one
        if exchange not in self.exchanges or headers.get("destination_kind") != "queue":
            return
        key = Binding(str(exchange), str(headers.get("routing_key", "")))
        known = self._know(name) if come else self.queues.get(name)
        if known is None:
            return
        if come and len(known.keys) >= self._limit:
            self.stale = True
        elif come:
            known.keys.add(key)
            self._fresh.setdefault(name, set()).add(key)
        else:
            known.keys.discard(key)
            self._touched.add(name)

    def _channel_closed(self, pid: str) -> None:
        """Its consumers have gone with it. Of consumers that were here before us, we know no channels."""
        names = self._channels.pop(pid, None)
        if names is None:
            self._strange_channel = True
        for name in names or ():
            self._doubt(name)

    def _connection(self, kind: str, pid: str, protocol: str) -> None:
        """RabbitMQ 4 tells of the end of an AMQP 1.0 connection, not of its consumers at classic queues.

        Of a connection that was here before us we know no protocol.
        """
        if kind == "connection.created":
            if protocol == _AMQP_1_0 and len(self._connections) < self._limit:
                self._connections.add(pid)
        elif pid in self._connections:
            self._connections.discard(pid)
            self._fading_connection = True

    def doubt_closed(self) -> None:
        """Put in doubt all that unknown channels, and connections of AMQP 1.0, may have read.

        Once for all that have closed since the last time: it goes over all queues, and an application closes
        thousands in a moment.
        """
        if self._fading_connection:
            for name in [name for name, known in self.queues.items() if known.consumers]:
                self._doubt(name)
                self.fading.add(name)
        elif self._strange_channel:
            indexed = set().union(*self._channels.values())
            for name, known in self.queues.items():
                if known.consumers and name not in indexed:
                    self._doubt(name)
        self._strange_channel = self._fading_connection = False

    def _index(self, channel: str, name: str) -> None:
        names = self._channels.get(channel)
        if names is None:
            if len(self._channels) >= self._limit:
                self._channels.pop(next(iter(self._channels)))
            names = self._channels[channel] = set()
        if len(names) < self._limit:
            names.add(name)

    def _doubt(self, name: str) -> None:
        if name in self.doubtful or len(self.doubtful) < self._limit:
            self.doubtful[name] = None
        else:
            self.stale = True

    def _know(self, name: str) -> Known | None:
        known = self.queues.get(name)
        if known is None:
            if len(self.queues) >= self._limit:
                self.stale = True
                return None
            known = self.queues[name] = Known()
            self._doubt(name)
        return known

    def _describe(self, listed: Listed) -> Known | None:
        known = self._know(listed.name)
        if known is not None:
            known.durable, known.private, known.vanishing, known.stream = listed[1:5]
            self._touched.add(listed.name)
        return known

    def _drop(self, name: str) -> None:
        self.doubtful.pop(name, None)
        self.arrived.pop(name, None)
        self._forget(name)

    def _forget(self, name: str) -> None:
        self.queues.pop(name, None)
        self.fading.discard(name)
        self._asked.pop(name, None)
        self._touched.add(name)

    # --- what the broker answers

    def listing(self) -> None:
        """A list is being made from now on; `listed` or `doubt_all` ends that."""
        self._since = []

    def listed(
        self,
        queues: Iterable[Listed],
        bindings: Iterable[tuple[str, Binding]],
        behind: Set[str] = frozenset(),
    ) -> None:
        """A whole list: all queues, and all bindings of queues to the exchanges, directly and through those
        `behind` them. Each is doubtful now.
        """
        since, self._since = self._since or [], None
        self._behind = {*behind} - {*self.exchanges}
        keys: dict[str, set[Binding]] = {}
        for name, key in bindings:
            keys.setdefault(name, set()).add(key)
        self.stale = len(since) > self._limit
        there = {listed.name: listed for listed in queues}
        self.replies = {name: each.filled for name, each in there.items() if name.startswith(REPLIES)}
        for name in [name for name in there if name.startswith(OURS)]:
            del there[name]
        for name in [name for name in self.queues if name not in there]:
            self._drop(name)
        for name, listed in there.items():
            if (known := self._describe(listed)) is not None:
                known.keys = keys.get(name, set())
                self._doubt(name)
        for kind, headers in since:
            self.event(kind, headers)

    def doubt_all(self) -> None:
        """Nothing can be listed: ask for each queue that is known."""
        self._since = None
        for name in self.queues:
            self._doubt(name)

    def doubt_streams(self, most: int) -> bool:
        """No event tells of their consumers: ask for so many of them. Returns whether there are any."""
        found = list(islice((name for name, known in self.queues.items() if known.stream), most))
        for name in found:
            self._doubt(name)
        return bool(found)

    def counted(self, name: str, consumers: int | None, *, private: bool = False) -> None:
        """The broker's answer: `consumers` without ours; None: there is no such queue.

        What an event has put in doubt since the broker was asked stays so: the answer may be from before it.
        """
        if consumers is None:
            self._forget(name)
            return
        known = self._know(name)
        if known is not None:
            known.consumers = consumers
            known.private = known.private or private
            self._touched.add(name)

    def asked(self, name: str) -> None:
        """Somebody waits for an answer of this name: in a queue, or on his channel."""
        if name not in self._asked:
            self._touched.add(name)
        self._asked[name] = None
        self._asked.move_to_end(name)
        if len(self._asked) > MOST_ASKED:
            self._touched.add(self._asked.popitem(last=False)[0])

    # --- who there is

    def consumers(self) -> list[BrokerConsumer]:
        """All consumers: one for each queue that is read, one for each binding that keeps."""
        self.changes()
        return [consumer for found in self._told.values() for consumer in found]

    def changes(self) -> tuple[list[BrokerConsumer], list[BrokerConsumer]]:
        """The consumers that came and went since the last call."""
        came: list[BrokerConsumer] = []
        went: list[BrokerConsumer] = []
        for name, keys in self._fresh.items():
            if name not in self._touched:
                came += self._bound_anew(name, keys)
        self._fresh.clear()
        for name in self._touched:
            before, now = self._told.pop(name, set()), self._of(name)
            if now:
                self._told[name] = now
            came += now - before
            went += before - now
        self._touched.clear()
        return came, went

    def _bound_anew(self, name: str, keys: Iterable[Binding]) -> set[BrokerConsumer]:
        """The consumers that came with these bindings alone: a queue may have ten thousand others."""
        known = self.queues.get(name)
        if known is None or not known.keeps:
            return set()
        found = set(self._readers(name, known.keys.intersection(keys)))
        told = self._told.setdefault(name, set())
        found -= told
        told |= found
        return found

    def _of(self, name: str) -> set[BrokerConsumer]:
        self.odd.discard(name)
        known = self.queues.get(name) or Known()
        found: set[BrokerConsumer] = set()
        try:
            if known.private or (known.consumers > 0 and name.startswith(_UNNAMED)):
                if not name.startswith(PLUGINS):
                    found.add(BrokerConsumer(queue(queue_name(name), self._node), name))
            elif known.consumers > 0:
                found.add(BrokerConsumer(queue(queue_name(name)), name))
            elif name in self._asked:
                found.add(BrokerConsumer(queue(queue_name(name), self._node), name))
        except InvalidName:
            self.odd.add(name)
        if known.keeps:
            found.update(self._readers(name, known.keys))
        return found

    def _readers(self, name: str, keys: Iterable[Binding]) -> Iterator[BrokerConsumer]:
        """One for each key that has a spelling in the tree: an odd one takes no other with it."""
        for key in keys:
            try:
                yield BrokerConsumer(topic(self.exchanges.pattern(key)), name)
            except PatternError:
                self.odd.add(name)
