"""Client sessions, and their consumers: who takes messages here, and what they have not acknowledged.

A session is an identity that several connections may share. Subscriptions, transfers and acknowledgements
belong to the session: any of its connections may do each. When its last connection closes, the session ends:
what it had not acknowledged is given again, and its transient queues go with all their messages.

A consumer is a session's subscription. It is given slices of entries: runs of messages of one bundle, as many
as its credit allows; a whole bundle is handed on as the opaque blob that it is. Transfer ids are counted over
all queues of the node: message i of a slice has id `first` + i.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple

from broker.core.errors import NotLoggedIn
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.unpacked import check, elapsed, messages_of
from broker.core.sessions.mail import Mail
from broker.core.sessions.masking import masked
from broker.core.sessions.producer_streams import ProducerStream
from broker.core.sessions.rights import CHANGED, FULL, Rights
from sapwood.protocol import bundles
from sapwood.protocol.session_frames import Deliver, NodeFrame

MOST_UNACKED: Final = 100_000
"""Slices that a session has and has not acknowledged before it can fetch no more."""
Totals = tuple[int, int, int, int]
"""Messages in and out, bytes in and out."""


class ConsumerDelivery(NamedTuple):
    """A slice that a consumer has since `at`: `messages` of them from `position` on, of the copy's bundle.

    `known`: its ids were given out before, to this consumer or another.
    """

    first: int
    position: int
    messages: int
    entry: QueueEntry
    consumer: "PushConsumer"
    at: float = 0.0
    known: bool = False

    @property
    def last(self) -> int:
        """The highest transfer id of the slice."""
        return self.first + self.messages - 1

    @property
    def token(self) -> str:
        """Of the session that has it; the node's own has none."""
        return self.consumer.session.token

    @property
    def weight(self) -> int:
        """Bytes of it once it is unpacked, about."""
        header = self.entry.stored.header
        return header.size * self.messages // header.count

    @property
    def bits(self) -> int:
        return ((1 << self.messages) - 1) << self.position

    def bits_of(self, first: int, last: int) -> int:
        """The mask of those messages whose transfer ids lie in [first, last]."""
        low, high = max(first, self.first), min(last, self.first + self.messages - 1)
        return ((1 << (high - low + 1)) - 1) << (self.position + low - self.first) if low <= high else 0

    def without(self, first: int, last: int) -> "list[ConsumerDelivery]":
        """What is left of it, in at most two slices, once the transfer ids of [first, last] are taken out."""
        before, after = max(first - self.first, 0), max(self.last - last, 0)
        left = [self._replace(messages=before)] if before else []
        if after:
            position = self.position + self.messages - after
            left.append(self._replace(first=last + 1, position=position, messages=after))
        return left


class Unacked:
    """What one session has and has not acknowledged, by transfer id."""

    __slots__ = ("_firsts", "_given")

    def __init__(self) -> None:
        self._given: dict[int, ConsumerDelivery] = {}
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return len(self._given)

    def put(self, given: ConsumerDelivery) -> None:
        self._given[given.first] = given
        if self._firsts and given.first < self._firsts[-1]:
            self._firsts.insert(bisect_right(self._firsts, given.first), given.first)
        else:
            self._firsts.append(given.first)

    def within(self, first: int, last: int) -> list[ConsumerDelivery]:
        """The slices that hold any id of [first, last]."""
        exact = self._given.get(first)
        if exact is not None and exact.first + exact.messages - 1 == last:
            return [exact]
        end = bisect_right(self._firsts, last)
        numbers = dict.fromkeys(self._firsts[self._start(first) : end])
        found = (self._given[number] for number in numbers if number in self._given)
        return [given for given in found if given.first + given.messages > first]

    def above(self, transfer: int) -> list[ConsumerDelivery]:
        """The slices that hold any id above `transfer`, in order."""
        numbers = dict.fromkeys(self._firsts[self._start(transfer) :])
        found = (self._given[number] for number in numbers if number in self._given)
        return [given for given in found if given.last > transfer]

    def _start(self, transfer: int) -> int:
        """Where the slice begins that would hold this id. Slices that are gone may have begun behind it."""
        start = max(bisect_right(self._firsts, transfer) - 1, 0)
        while start > 0 and self._firsts[start] not in self._given:
            start -= 1
        return start

    def has(self, given: ConsumerDelivery) -> bool:
        return self._given.get(given.first) is given

    def remove(self, given: ConsumerDelivery) -> None:
        del self._given[given.first]
        if len(self._firsts) > 2 * len(self._given) + 64:
            self._firsts = sorted(self._given)

    def split(self, given: ConsumerDelivery, first: int, last: int) -> None:
        """Take the transfer ids of [first, last] out of a slice, and those that are dealt with already."""
        self.remove(given)
        for part in given.without(first, last):
            if part.bits & ~part.entry.done:
                self.put(part)

    def all(self) -> Iterator[ConsumerDelivery]:
        """All slices, the oldest first; to be read at once."""
        return iter(self._given.values())

    def of(self, consumer: "PushConsumer | None") -> list[ConsumerDelivery]:
        """All slices of one consumer, or of all."""
        return [given for given in self._given.values() if consumer is None or given.consumer is consumer]


class Window:
    """How many messages one connection may have unacknowledged over all its consumers. `taken`: so many."""

    __slots__ = ("limit", "taken")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def __repr__(self) -> str:
        return f"<Window {self.taken} of {self.limit}>"

    @property
    def room(self) -> int:
        return self.limit - self.taken


@dataclass(slots=True, eq=False, repr=False)
class Connection:
    """One connection of a client. `send` takes frames for it, buffered, and never blocks.

    `kind`: 'stream' (which takes bundles as they are), 'mqtt' or 'http'. `heard`: running time of the last
    request. `messages_in`: that it sent, `messages_out`: that it was given; bytes likewise. `answered`: what
    the latest transfer told of below its `ack_to`; told again if it was not read. `rights`: None until
    whoever is at its other end has proved who it is. `end`: ends it, and says why. `window`: of its further
    consumers; None = each has its credit alone. `plain`: a stream that takes no compressed body. `behind`: it
    has much unread. `told`: the last rejected send that its Welcome told of. `replaced`: by another one.
    """

    send: Callable[[NodeFrame], None]
    address: str
    kind: str = "stream"
    rights: Rights | None = FULL
    end: Callable[[str], None] = lambda why: None
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    session: "Session | None" = None
    stream: ProducerStream | None = None
    told: int = 0
    window: "Window | None" = None
    plain: bool = False
    behind: bool = False
    replaced: bool = False
    heard: float = 0.0
    answered: "dict[int, ConsumerDelivery]" = field(default_factory=dict)

    @property
    def proven_rights(self) -> Rights:
        """Raises `NotLoggedIn` where there are none, or none any more."""
        if self.rights is None:
            raise NotLoggedIn("this connection has not proved whose it is")
        if self.rights.ended:
            raise NotLoggedIn(CHANGED)
        return self.rights

    @property
    def consumers(self) -> "list[PushConsumer]":
        """Those whose messages are pushed to it."""
        there = self.session.consumers if self.session is not None else []
        return [consumer for consumer in there if consumer.connection is self]

    @property
    def totals(self) -> Totals:
        return self.messages_in, self.messages_out, self.bytes_in, self.bytes_out

    def __repr__(self) -> str:
        return f"<Connection {self.address} of {self.session!r}>"


class Session:
    """A client's identity at this node, while it has a connection.

    `ready`: queues that it fetches from, where messages wait that it did not ask for when they came.
    Law: a request costs the same however many subscriptions its session has.
    """

    def __init__(self, token: str, rights: Rights = FULL, unacked: Unacked | None = None) -> None:
        self.token = token
        self.rights = rights
        self.connections: dict[Connection, None] = {}
        self.consumers: dict[PushConsumer, None] = {}
        self.ready: OrderedDict[Queue, None] = OrderedDict()
        self._numbered: dict[tuple[Connection | None, int], PushConsumer] = {}
        self._fetched: dict[str, PushConsumer] = {}
        self._numbers = count(1)
        self.unacked = Unacked() if unacked is None else unacked
        self.mail: Mail[ConsumerDelivery] = Mail()
        self.pulling = False
        self.transient: set[str] = set()
        self._past: Totals = (0, 0, 0, 0)

    def __repr__(self) -> str:
        counts = (
            f"connections={len(self.connections)} readers={len(self.consumers)} unacked={len(self.unacked)}"
        )
        return f"<Session {masked(self.token)} {counts}>"

    def consumer(self, connection: Connection | None, number: int) -> "PushConsumer | None":
        return self._numbered.get((connection, number))

    def fetching(self, queue: Queue) -> "PushConsumer | None":
        """Its consumer of this queue by transfer, if it has one."""
        return self._fetched.get(queue.name)

    def next_number(self) -> int:
        """For a subscription that no connection has numbered."""
        return next(self._numbers)

    def add(self, consumer: "PushConsumer") -> None:
        self.consumers[consumer] = None
        self._numbered[consumer.connection, consumer.number] = consumer
        if isinstance(consumer, PullConsumer):
            self._fetched[consumer.queues[0].name] = consumer

    def remove(self, consumer: "PushConsumer") -> None:
        if self.consumers.pop(consumer, consumer) is consumer:
            return  # it was removed before
        del self._numbered[consumer.connection, consumer.number]
        if isinstance(consumer, PullConsumer):
            del self._fetched[consumer.queues[0].name]
            for queue in consumer.queues:
                self.ready.pop(queue, None)

    @property
    def totals(self) -> Totals:
        """Of all its connections so far, those that have gone included."""
        return _sum([self._past, *(line.totals for line in self.connections)])

    def leave(self, connection: Connection) -> None:
        """A connection of it has gone; what went over it still counts."""
        if connection in self.connections:
            self._past = _sum([self._past, connection.totals])
            self.connections.pop(connection)

    # --- what is fetched

    @property
    def asks(self) -> bool:
        """Does it want messages now?"""
        return self.mail.has_room and not self.is_full and (self.pulling or bool(self.mail.waiters))

    @property
    def is_full(self) -> bool:
        """Has it so much unacknowledged that it can fetch no more?"""
        return len(self.unacked) >= MOST_UNACKED

    @property
    def at_once(self) -> int:
        """How many messages one slice for it has at most: several blocked transfers are each woken."""
        return 1 if len(self.mail.waiters) > 1 and not self.pulling else self.mail.room

    def wake_again(self, lost: Connection) -> None:
        """A connection has gone, and perhaps with it an answer that nobody read, or a transfer just woken."""
        unread = [given for given in lost.answered.values() if self.unacked.has(given)]
        self.mail.wake_again(
            unread, [given for given in self.mail.untold.values() if self.unacked.has(given)]
        )


class PushConsumer:
    """One subscription, whose messages are pushed to its connection.

    `alone`: it gets nothing for now; `tried`: what it was given alone; `gathers`: it need not answer one by
    one (see `poison_messages`).
    """

    __slots__ = (
        "alone", "connection", "credit", "gathers", "number", "outstanding", "queues", "session", "tried",
        "window",
    )  # fmt: skip
    can_fail = True

    def __init__(
        self,
        session: Session,
        connection: Connection | None,
        number: int,
        credit: int,
        queues: list[Queue],
    ) -> None:
        self.session = session
        self.connection = connection
        self.number = number
        self.credit = credit
        self.outstanding = 0
        self.window = connection.window if connection is not None else None
        self.queues = queues
        self.alone = self.gathers = False
        self.tried: ConsumerDelivery | None = None

    def __repr__(self) -> str:
        counts = f"outstanding={self.outstanding}/{self.credit}"
        return f"<{type(self).__name__} {self.number} of {masked(self.session.token)} {counts}>"

    @property
    def room(self) -> int:
        if self.alone or (self.connection is not None and self.connection.behind):
            return 0
        room = self.credit - self.outstanding
        return room if self.window is None else min(room, self.window.room)

    def took(self, messages: int) -> None:
        """It has so many more to answer; fewer, where that is negative."""
        self.outstanding += messages
        if self.window is not None:
            self.window.taken += messages

    @property
    def room_ahead(self) -> int:
        """For how many messages transfer ids are to be on disk before it is given them."""
        return self.room if self.connection is not None else 0

    def passed_over(self, queue: Queue) -> None:
        """Messages wait there, and no consumer has room."""

    def unpacks(self, entry: QueueEntry, count: int) -> bool:
        """Is a bundle unpacked here for so many of its messages to be given? Else it is handed on whole."""
        line = self.connection
        return line is None or line.kind != "stream" or line.plain or count != entry.stored.header.count

    def give(self, given: ConsumerDelivery, body: bytes) -> None:
        """Hand a slice over. `body`: the whole bundle's, as stored. Raises `FrameError` if it is none."""
        assert self.connection is not None
        self.connection.send(deliver_frame(given, self.number, body, plain=self.connection.plain))
        self.connection.messages_out += given.messages
        self.took(given.messages)
        self.session.unacked.put(given)


class PullConsumer(PushConsumer):
    """One subscription, whose messages the session fetches by transfer, over any of its connections.

    It has room only while the session asks: nothing is set aside for who is busy.
    """

    __slots__ = ()

    def __init__(self, session: Session, credit: int, queues: list[Queue]) -> None:
        super().__init__(session, None, session.next_number(), credit, queues)

    def passed_over(self, queue: Queue) -> None:
        self.session.ready[queue] = None

    @property
    def room(self) -> int:
        if self.alone or not self.session.asks:
            return 0
        return min(self.credit - self.outstanding, self.session.at_once)

    @property
    def room_ahead(self) -> int:
        """For what it will ask for next, so that an answer need not wait for a commit of its own."""
        return int(self.outstanding < self.credit and not self.session.is_full)

    def unpacks(self, entry: QueueEntry, count: int) -> bool:
        """Its answers are what unpacks, each of some megabytes; one may not say that nothing waits."""
        return False

    def give(self, given: ConsumerDelivery, body: bytes) -> None:
        check(given.entry.stored, body)
        self.outstanding += given.messages
        self.session.unacked.put(given)
        self.session.mail.put(given)


def deliver_frame(given: ConsumerDelivery, subscription: int, body: bytes, *, plain: bool = False) -> Deliver:
    """The frame for a slice: the blob itself where it is the whole bundle, else the slice encoded anew."""
    header, entry, whole = given.entry.stored.header, given.entry, body
    flags, size = header.flags, header.size
    if given.messages != header.count:
        body = bundles.encode_messages(slice_of(given, body))
        flags, size = flags & ~bundles.Flag.COMPRESSED, len(body)
    elif plain and flags & bundles.Flag.COMPRESSED:
        body, flags = bundles.plain_body(header, body), flags & ~bundles.Flag.COMPRESSED
    return Deliver(
        subscription,
        header.destination,
        given.first,
        given.messages,
        header.id,
        given.position,
        int(flags),
        size,
        body,
        b"",
        entry.deliveries > 0,
        header.origin,
        elapsed=int(elapsed(entry.stored, whole, given.at)) if header.expires_first else 0,
    )


def slice_of(given: ConsumerDelivery, body: bytes) -> list[bundles.Message]:
    """Its messages. Raises `FrameError` if they cannot be read."""
    return messages_of(given.entry.stored, body)[given.position : given.position + given.messages]


def _sum(lines: list[Totals]) -> Totals:
    messages_in, messages_out, bytes_in, bytes_out = map(sum, zip(*lines, strict=True))
    return messages_in, messages_out, bytes_in, bytes_out
