"""Client sessions: an identity that several connections may share, with its readers and its producers.

Subscriptions, transfers and acknowledgements belong to the session: any of its connections may do each.
When its last connection closes, the session ends: what it had not acknowledged is given again, and its
transient queues go with all their messages.
"""

from collections.abc import Callable

from broker.core.readers import Desk, Given, Reader
from treeconnector.session_frames import NodeFrame

Totals = tuple[int, int, int, int]
"""Messages in and out, bytes in and out."""


class Connection:
    """One connection of a client. `send` takes frames for it, buffered, and never blocks.

    `kind`: 'stream' or 'http'. `heard`: running time of the last request. `messages_in`: that it sent,
    `messages_out`: that it was given; bytes likewise.
    """

    __slots__ = (
        "address",
        "bytes_in",
        "bytes_out",
        "heard",
        "kind",
        "messages_in",
        "messages_out",
        "send",
        "session",
        "stream",
    )

    def __init__(self, send: Callable[[NodeFrame], None], address: str, kind: str = "stream") -> None:
        self.send = send
        self.address = address
        self.kind = kind
        self.messages_in = self.messages_out = 0
        self.bytes_in = self.bytes_out = 0
        self.session: Session | None = None
        self.stream: Stream | None = None
        self.heard = 0.0

    @property
    def totals(self) -> Totals:
        return self.messages_in, self.messages_out, self.bytes_in, self.bytes_out

    def __repr__(self) -> str:
        return f"<Connection {self.address} of {self.session!r}>"


class Stream:
    """A producer's numbered sends. `taken`: highest number that entered; `committed`: that is on disk."""

    __slots__ = ("committed", "name", "seen", "taken")

    def __init__(self, name: str, committed: int, seen: float) -> None:
        self.name = name
        self.seen = seen
        self.taken = committed
        self.committed = committed

    def __repr__(self) -> str:
        return f"<Stream {self.name} taken={self.taken} committed={self.committed}>"


class Waiter:
    """A blocked transfer. `ready` is called once, when there is something to give."""

    __slots__ = ("ack_to", "ready", "session")

    def __init__(self, session: "Session", ack_to: int, ready: Callable[[], None]) -> None:
        self.session = session
        self.ack_to = ack_to
        self.ready = ready


class Session:
    """A client's identity at this node, while it has a connection."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.connections: set[Connection] = set()
        self.readers: list[Reader] = []
        self.desk = Desk()
        self.mail: list[Given] = []
        self.waiters: list[Waiter] = []
        self.transient: set[str] = set()
        self._past: Totals = (0, 0, 0, 0)

    def __repr__(self) -> str:
        counts = (
            f"connections={len(self.connections)} readers={len(self.readers)} unacknowledged={len(self.desk)}"
        )
        return f"<Session {self.token[:4]}… {counts}>"

    def reader(self, connection: Connection | None, number: int) -> Reader | None:
        for reader in self.readers:
            if reader.connection is connection and reader.number == number:
                return reader
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

    def wake(self) -> None:
        """Tell one blocked transfer that there is mail."""
        if self.waiters:
            self.waiters.pop(0).ready()


def _sum(lines: list[Totals]) -> Totals:
    messages_in, messages_out, bytes_in, bytes_out = map(sum, zip(*lines, strict=True))
    return messages_in, messages_out, bytes_in, bytes_out
