"""Client sessions: an identity that several connections may share, with its consumers and its producers.

Subscriptions, transfers and acknowledgements belong to the session: any of its connections may do each.
When its last connection closes, the session ends: what it had not acknowledged is given again, and its
transient queues go with all their messages.
"""

from collections.abc import Callable
from typing import Final

from broker.core.clients.masking import masked
from broker.core.clients.rejections import Rejections
from broker.core.delivery.consumers import ConsumerDelivery, PushConsumer, Unacked
from broker.core.policies.rights import FULL, Rights
from treeconnector.session_frames import NodeFrame

_MAIL_BYTES: Final = 8 * 1024 * 1024
Totals = tuple[int, int, int, int]
"""Messages in and out, bytes in and out."""


class Connection:
    """One connection of a client. `send` takes frames for it, buffered, and never blocks.

    `kind`: 'stream' (which takes bundles as they are), 'mqtt' or 'http'. `heard`: running time of the last
    request. `messages_in`: that it sent, `messages_out`: that it was given; bytes likewise.
    `answered`: what the latest transfer told of below its `ack_to`; told again if it was not read.
    `rights`: None until whoever is at its other end has proved who it is. `end`: ends it, and says why.
    """

    __slots__ = (
        "address",
        "answered",
        "bytes_in",
        "bytes_out",
        "end",
        "heard",
        "kind",
        "messages_in",
        "messages_out",
        "rights",
        "send",
        "session",
        "stream",
    )

    def __init__(
        self,
        send: Callable[[NodeFrame], None],
        address: str,
        kind: str = "stream",
        rights: Rights | None = FULL,
        end: Callable[[str], None] = lambda why: None,
    ) -> None:
        self.send = send
        self.rights = rights
        self.end = end
        self.address = address
        self.kind = kind
        self.messages_in = self.messages_out = 0
        self.bytes_in = self.bytes_out = 0
        self.session: Session | None = None
        self.stream: ProducerStream | None = None
        self.heard = 0.0
        self.answered: dict[int, ConsumerDelivery] = {}

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


class ProducerStream:
    """A producer's numbered sends. `taken`: highest number that entered; `committed`: that is on disk.

    `rejections`: None for a stream that ends with its connection.
    """

    __slots__ = ("committed", "name", "rejections", "seen", "taken")

    def __init__(self, name: str, committed: int, seen: float, rejections: Rejections | None = None) -> None:
        self.name = name
        self.seen = seen
        self.rejections = rejections
        self.taken = committed
        self.committed = committed

    def __repr__(self) -> str:
        return f"<ProducerStream {masked(self.name)} taken={self.taken} committed={self.committed}>"


class Waiter:
    """A blocked transfer. `ready` is called once, when there is something to give."""

    __slots__ = ("ack_to", "ready", "session")

    def __init__(self, session: "Session", ack_to: int, ready: Callable[[], None]) -> None:
        self.session = session
        self.ack_to = ack_to
        self.ready = ready


class Session:
    """A client's identity at this node, while it has a connection."""

    def __init__(self, token: str, rights: Rights = FULL) -> None:
        self.token = token
        self.rights = rights
        self.connections: set[Connection] = set()
        self.consumers: list[PushConsumer] = []
        self.desk = Unacked()
        self.mail: dict[int, ConsumerDelivery] = {}
        self._unread: set[int] = set()
        self.waiters: dict[Waiter, None] = {}
        self.pulling = False
        self._mail_bytes = 0
        self.transient: set[str] = set()
        self._past: Totals = (0, 0, 0, 0)

    def __repr__(self) -> str:
        counts = f"connections={len(self.connections)} readers={len(self.consumers)} unacked={len(self.desk)}"
        return f"<Session {masked(self.token)} {counts}>"

    def consumer(self, connection: Connection | None, number: int) -> PushConsumer | None:
        for consumer in self.consumers:
            if consumer.connection is connection and consumer.number == number:
                return consumer
        return None

    @property
    def totals(self) -> Totals:
        """Of all its connections so far, those that have gone included."""
        return _sum([self._past, *(line.totals for line in self.connections)])

    def leave(self, connection: Connection) -> None:
        """A connection of it has gone; what went over it still counts."""
        if connection in self.connections:
            self._past = _sum([self._past, connection.totals])
            self.connections.discard(connection)

    # --- what is fetched

    @property
    def asks(self) -> bool:
        """Does it want messages now?"""
        return (self.pulling or bool(self.waiters)) and self._mail_bytes < _MAIL_BYTES

    def put_mail(self, given: ConsumerDelivery) -> None:
        """It was given this, and no answer has told it yet: one blocked transfer that it is for is woken."""
        self.mail[given.first] = given
        self._mail_bytes += given.weight
        for waiter in self.waiters:
            if given.known or given.last > waiter.ack_to:
                del self.waiters[waiter]
                waiter.ready()
                return

    def take_mail(self, given: ConsumerDelivery) -> bool:
        """An answer tells of it. False: an earlier one has."""
        if self.mail.pop(given.first, None) is None:
            return False
        self._unread.discard(given.first)
        self._mail_bytes -= given.weight
        return True

    def was_told(self, given: ConsumerDelivery) -> bool:
        """Has an answer told of it before, which may have been read?"""
        return given.first not in self.mail or given.first in self._unread

    def wake_again(self, lost: Connection) -> None:
        """A connection has gone, and perhaps with it an answer that nobody read, or a transfer just woken."""
        unread = [given for given in lost.answered.values() if self.desk.has(given)]
        untold = [given for given in self.mail.values() if self.desk.has(given)]
        for given in {given.first: given for given in unread + untold}.values():
            self.take_mail(given)
            self.put_mail(given)
        self._unread.update(given.first for given in unread)


def _sum(lines: list[Totals]) -> Totals:
    messages_in, messages_out, bytes_in, bytes_out = map(sum, zip(*lines, strict=True))
    return messages_in, messages_out, bytes_in, bytes_out
