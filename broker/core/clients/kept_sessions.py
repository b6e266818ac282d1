"""Sessions that outlive their connections: what a client's protocol has to know of it when it comes back.

A kept session has values by name, each a row on disk. Values whose names begin with `READS` are of the
durable subscription of that name. With the session all of them end, and what waits for its subscriptions.
A will is published once its delay is over, or the session is.

Law: a value is in the transaction of whatever was done with it. A session is kept for `expires_in` seconds of
running time after its last connection, and for `subscription_retention` at most; a crash ends connections.
One that is over ends a part at a time: it may have ten thousand subscriptions.
"""

from itertools import islice
from typing import Final, NamedTuple

import msgspec

from broker.core.clients.producers import Producers
from broker.core.clock import PART
from broker.core.context import Context
from broker.core.errors import Busy
from broker.core.policy import Policy
from broker.core.routing.subscriptions import Subscription, space_of
from broker.core.routing.topics import Topics
from broker.core.rows import ClientRow
from sapwood.protocol import bundles
from sapwood.protocol.destinations import parse
from sapwood.protocol.errors import SapwoodError

READS: Final = "reads "
SHARES: Final = "shares "
"""Begins the names of values of shared subscriptions; behind it whose they are, a line's end, their name."""
_WILL: Final = "will"
NEVER: Final = 0xFFFF_FFFF
"""As `expires_in`: no end of its own."""
AT_ONCE: Final = PART // 5
"""Values of sessions that are over, which end at one go."""
MOST: Final = 100_000
MOST_OF_ONE: Final = 10_000
MOST_VALUES: Final = 1_000_000
MOST_VALUES_OF_ONE: Final = 100_000
MOST_BYTES: Final = 256 * 1024 * 1024
MOST_BYTES_OF_ONE: Final = 32 * 1024 * 1024
"""Of values and their names; `…_OF_ONE`: of all sessions of one account or certificate."""


class LaterWill(NamedTuple):
    """A message that is published if its client does not come back by `due`, in ms of running time.

    `message`: encoded; `destination` and `flags` as those of a bundle. `deaf`: names of its session's
    subscriptions that are not given it; a start knows of none that it is deaf to its own session.
    """

    due: int
    destination: str
    message: bytes
    flags: int
    deaf: tuple[str, ...] = ()


class _Use:
    """Sessions, and what their values and the names of these take."""

    __slots__ = ("count", "sessions", "size")

    def __init__(self) -> None:
        self.count = self.size = self.sessions = 0

    def check(self, count: int, size: int, most: int, most_bytes: int, whose: str) -> None:
        """Before so much more is kept. Raises `Busy`."""
        if count > 0 and self.count + count > most:
            raise Busy(f"{most} values are kept of {whose}, and no more: end some sessions")
        if size > 0 and self.size + size > most_bytes:
            raise Busy(f"{most_bytes} bytes are kept of {whose}, and no more: end some sessions")

    def add(self, count: int, size: int) -> None:
        self.count += count
        self.size += size


class KeptSession:
    """One session. `left`: since when it has no connection, in running time; 0.0 = it has one."""

    __slots__ = ("_context", "_space", "_topics", "_total", "expires_in", "left", "token", "values")

    def __init__(self, token: str, context: Context, total: _Use, space: _Use, topics: Topics) -> None:
        self._topics = topics
        self.token = token
        self.expires_in = NEVER
        self.left = 0.0
        self.values: dict[str, bytes] = {}
        self._context = context
        self._total = total
        self._space = space

    def __repr__(self) -> str:
        return f"<KeptSession values={len(self.values)} expires_in={self.expires_in} left={self.left:.0f}>"

    def put(self, name: str, value: bytes) -> None:
        """Keep a value. Raises `Busy` where there is no room for it, of its account's or of all sessions."""
        count, size = self._growth(name, value)
        self._space.check(count, size, MOST_VALUES_OF_ONE, MOST_BYTES_OF_ONE, "sessions of one account")
        self._total.check(count, size, MOST_VALUES, MOST_BYTES, "clients' sessions")
        self.restore(name, value)
        self._context.custody.transaction.put(ClientRow(self.token, name, value))

    def restore(self, name: str, value: bytes) -> None:
        """A value that is on disk already."""
        growth = self._growth(name, value)
        if name not in self.values and (shared := self._shared(name)) is not None:
            shared.holders += 1
        self._use(*growth)
        self.values[name] = value

    def _growth(self, name: str, value: bytes) -> tuple[int, int]:
        """So many values and bytes more there are with it."""
        before = self.values.get(name)
        return (1, _size(name, value)) if before is None else (0, len(value) - len(before))

    def _use(self, count: int, size: int) -> None:
        self._total.add(count, size)
        self._space.add(count, size)

    def drop(self, name: str) -> None:
        """A value is needed no more; no error if it is not there."""
        value = self.values.pop(name, None)
        if value is not None:
            self._use(-1, -_size(name, value))
            self._context.custody.transaction.delete(ClientRow, (self.token, name))
            if (shared := self._shared(name)) is not None:
                shared.holders = max(shared.holders - 1, 0)
                if not (shared.attached or shared.lasts):
                    self._context.policies.tell(Policy.subscription_ended, shared.id)

    def _shared(self, name: str) -> Subscription | None:
        """The shared subscription of which a value is."""
        if not name.startswith(SHARES):
            return None
        owner, _, durable = name.removeprefix(SHARES).partition("\n")
        return self._topics.durable(owner, durable)

    def record(self) -> None:
        """Keep on disk how long it is kept, and since when."""
        value = msgspec.msgpack.encode((self.expires_in, int(self.left * 1000)))
        self._context.custody.transaction.put(ClientRow(self.token, "", value))


class KeptSessions(Policy):
    """Of one node, by token."""

    __slots__ = (
        *("_context", "_ending", "_producers", "_sessions", "_spaces", "_spent", "_topics"),
        *("_total", "_unseen"),
    )

    def __init__(self, context: Context, topics: Topics, producers: Producers) -> None:
        self._context = context
        self._topics = topics
        self._producers = producers
        self._sessions: dict[str, KeptSession] = {}
        self._total = _Use()
        self._spaces: dict[str, _Use] = {}
        self._unseen: list[str] = []
        self._ending: dict[str, KeptSession] = {}
        self._spent = (0.0, 0)

    def __repr__(self) -> str:
        return f"<KeptSessions {len(self)} with {self._total.count} values of {self._total.size} bytes>"

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, token: str) -> KeptSession | None:
        return self._sessions.get(token)

    def keep(self, token: str, expires_in: int) -> KeptSession:
        """The session of a client that is here now. Raises `Busy` where no other can be kept."""
        while self.is_ending(token):
            self.end_some(token, AT_ONCE)
        session = self._sessions.get(token)
        if session is not None:
            session.drop(_WILL)
        if session is None:
            use = self._spaces.get(space_of(token))
            if len(self) >= MOST or (use is not None and use.sessions >= MOST_OF_ONE):
                raise Busy("so many sessions are kept here already: end some, or ask for one that ends")
            session = self._sessions[token] = self._made(token)
        elif session.expires_in == expires_in and not session.left:
            return session
        session.expires_in, session.left = expires_in, 0.0
        session.record()
        return session

    def _made(self, token: str) -> KeptSession:
        space = space_of(token)
        use = self._spaces.setdefault(space, _Use()) if space else _Use()
        use.sessions += 1
        return KeptSession(token, self._context, self._total, use, self._topics)

    def restore_row(self, row: ClientRow) -> None:
        """At a start: of a session its own row comes first. One without it is over, and had not ended."""
        if not row.name:
            session = self._sessions[row.session] = self._made(row.session)
            session.expires_in, left = msgspec.msgpack.decode(row.value, type=tuple[int, int])
            session.left = left / 1000 or max(self._context.clock.now, 0.001)
        else:
            known = self._sessions.get(row.session) or self._ending.get(row.session)
            if known is None:
                known = self._ending[row.session] = self._made(row.session)
            known.restore(row.name, row.value)

    def keep_will(self, token: str, will: LaterWill) -> None:
        """Publish it when it is due, unless its client comes back. Raises `Busy`."""
        will = will._replace(deaf=self._topics.deaf_to(token, parse(will.destination).name))
        self._sessions[token].put(_WILL, msgspec.msgpack.encode(will))

    def _publish_will(self, session: KeptSession) -> None:
        value = session.values.get(_WILL)
        if value is None:
            return
        will = msgspec.msgpack.decode(value, type=LaterWill)
        for found in filter(None, (self._topics.durable(session.token, name) for name in will.deaf)):
            found.deaf = True
        (message,) = bundles.decode_messages(will.message, 1)
        try:
            self._producers.for_absent(session.token, parse(will.destination), message, will.flags)
        except SapwoodError:
            counters = self._context.counters
            counters["wills_refused"] = counters.get("wills_refused", 0) + 1
        session.drop(_WILL)

    def leave(self, token: str) -> None:
        """Its last connection has gone: it is kept for as long as it asked for."""
        session = self._sessions.get(token)
        if session is None:
            return
        if not session.expires_in:
            self.end(token)
            return
        session.left = max(self._context.clock.now, 0.001)
        session.record()

    def end(self, token: str) -> None:
        """It is over, and ends now if little is kept of it (`is_ending`); no error if nothing is."""
        session = self._sessions.pop(token, None)
        if session is None:
            return
        self._publish_will(session)
        self._context.custody.transaction.delete(ClientRow, (token, ""))
        self._ending[token] = session
        self._end_part()

    def is_ending(self, token: str) -> bool:
        """Is it over, and has not ended yet?"""
        return token in self._ending

    def _end_part(self) -> None:
        at, spent = self._spent
        left = AT_ONCE - (spent if at == self._context.clock.now else 0)
        while self._ending and left > 0:
            left -= self.end_some(next(iter(self._ending)), left)
        self._spent = self._context.clock.now, AT_ONCE - left
        if self._ending:
            self._context.clock.go_on(self._end_part, self._end_part)

    def end_some(self, token: str, most: int) -> int:
        """End so many values of a session that is over. Returns how many, and one more for its end."""
        session = self._ending[token]
        names = list(islice(session.values, most))
        for name in names:
            session.drop(name)
            found = self._topics.durable(token, name.removeprefix(READS)) if name.startswith(READS) else None
            if found is not None:
                self._context.policies.tell(Policy.subscription_ended, found.id)
        if not session.values:
            del self._ending[token]
            self._leave_space(space_of(token))
        return len(names) + (not session.values)

    def _leave_space(self, space: str) -> None:
        if space:
            self._spaces[space].sessions -= 1
            if not self._spaces[space].sessions:
                del self._spaces[space]

    def second_passed(self) -> None:
        """Look at so many each second, in turn; and go on with what a start found."""
        self._end_part()
        if not self._unseen:
            self._unseen = list(self._sessions)
        part = self._unseen[-PART:]
        del self._unseen[-PART:]
        now, longest = self._context.clock.now, self._context.settings.subscription_retention
        for session in [self._sessions[token] for token in part if token in self._sessions]:
            due = session.values.get(_WILL)
            if due is not None and msgspec.msgpack.decode(due, type=LaterWill).due <= now * 1000:
                self._publish_will(session)
            if session.left and now - session.left > min(session.expires_in, longest):
                self.end(session.token)


def _size(name: str, value: bytes) -> int:
    return len(name.encode()) + len(value)
