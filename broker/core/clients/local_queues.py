"""The queues that this node has: made by its applications, and by nobody else.

Law: what nobody has made cannot be read; sending to it is another matter. A persistent queue is on disk; a
transient one is its session's, and goes with it. Both are bounded in number, and names in length.
"""

from base64 import urlsafe_b64encode
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator
from heapq import merge
from typing import Final

from broker.core.custody.custody import Custody
from broker.core.errors import BadRequest, NotFound, SwitchError
from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import TRANSIENT, is_internal
from broker.core.routing.subscriptions import space_of
from broker.core.rows import QueueRow
from broker.core.sessions.sessions import Session
from broker.core.settings import CoreSettings
from sapwood.protocol import destinations
from sapwood.protocol.names import queue_name

_FRESH_BYTES: Final = 12
MOST_QUEUES: Final = 100_000
MOST_QUEUES_OF_ONE: Final = 10_000
"""Made by one account or certificate."""
MOST_NAMES: Final = 10_000
MOST_TRANSIENT: Final = 100_000
"""Of one session."""
MOST_TRANSIENT_OF_ONE: Final = 10_000
"""Of all sessions of one account or certificate."""
MOST_TRANSIENT_OF_ALL: Final = 200_000
_RUN: Final = 1000
_ALL: Final = ""


class LocalQueues:
    """Makes and finds them. Calls are synchronous and pure."""

    __slots__ = ("_custody", "_made", "_made_by", "_makers", "_node", "_owned", "_random_bytes", "_settings")

    def __init__(
        self,
        node: str,
        settings: CoreSettings,
        custody: Custody,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._node = node
        self._settings = settings
        self._custody = custody
        self._random_bytes = random_bytes
        self._made: list[str] = []
        self._makers: dict[str, str] = {}
        self._made_by: Counter[str] = Counter()
        self._owned: Counter[str] = Counter()

    def __repr__(self) -> str:
        return f"<LocalQueues of {self._node}>"

    def create(self, session: Session, name: str, home: bool) -> str:
        """Make a queue, or find it made; '' makes a transient one. Returns the name to send to."""
        if not name:
            name = TRANSIENT + urlsafe_b64encode(self._random_bytes(_FRESH_BYTES)).decode()
            self.own(session, name)
            return f"{name}@{self._node}"
        return self.make(self.local_name(name), home, space_of(session.token))

    def make(self, name: str, home: bool, maker: str = "") -> str:
        """Make a queue, or find it made. `maker`: whose share of all queues it takes, '' = nobody's."""
        self._check_room(name, maker)
        queue = self._custody.queue_for(destinations.queue(name))
        if queue.owner:
            return f"{name}@{self._node}"
        if not queue.created:
            queue.created, queue.ways = True, -1
            self._note(name, maker)
            queue.home = home or self._settings.policy(destinations.queue(name)).home
            self._custody.transaction.put(QueueRow(name, int(queue.home), maker))
        return name

    def _check_room(self, name: str, maker: str) -> None:
        """Raises `BadRequest` if it would be one more queue than a node has, or than its part of them."""
        if not self.has(name):
            self.check_room(1, maker)

    def check_room(self, more: int, maker: str = "") -> None:
        """The same of so many new ones."""
        if maker and self._made_by[maker] + more > MOST_QUEUES_OF_ONE:
            most, whose = MOST_QUEUES_OF_ONE, f"made by sessions called {maker[:40]}…"
        elif len(self._made) + more > MOST_QUEUES:
            most, whose = MOST_QUEUES, "made by applications"
        else:
            return
        raise BadRequest(
            f"this node has {most} queues {whose}, and takes no more: delete some (sapwood queue delete NAME)"
        )

    def _note(self, name: str, maker: str) -> None:
        insort(self._made, name)
        if maker:
            self._makers[name] = maker
            self._made_by[maker] += 1

    def forget(self, name: str) -> None:
        """Somebody has made an end of it."""
        maker = self._makers.pop(name, "")
        if maker:
            self._made_by[maker] -= 1
            if not self._made_by[maker]:
                del self._made_by[maker]
        at = bisect_left(self._made, name)
        if self._made[at : at + 1] == [name]:
            del self._made[at]

    def own(self, session: Session, name: str) -> None:
        """Make a transient queue of this name for the session, where there is none."""
        if len(session.transient) >= MOST_TRANSIENT and name not in session.transient:
            raise BadRequest(
                f"this session has {MOST_TRANSIENT} transient queues already: use these, or another session"
            )
        if not self.has(name):
            self._check_share(space_of(session.token))
        queue = self._custody.queue_for(destinations.queue(name))
        if not queue.created:
            self._count(session.token, 1)
            queue.owner, queue.created, queue.home = session.token, True, True
            session.transient.add(name)
        elif queue.owner == session.token:  # a session of that name before is about to end, and left it
            session.transient.add(name)

    def disowned(self, owner: str) -> None:
        """A transient queue of this session has gone."""
        self._count(owner, -1)

    def _count(self, owner: str, more: int) -> None:
        for whose in {_ALL, space_of(owner)}:
            self._owned[whose] += more
            if not self._owned[whose]:
                del self._owned[whose]

    def _check_share(self, space: str) -> None:
        """Raises `BadRequest` if it would be one more transient queue than there may be."""
        if space and self._owned[space] >= MOST_TRANSIENT_OF_ONE:
            most, whose = MOST_TRANSIENT_OF_ONE, f"sessions called {space[:40]}… have"
        elif self._owned[_ALL] >= MOST_TRANSIENT_OF_ALL:
            most, whose = MOST_TRANSIENT_OF_ALL, "sessions of this node have"
        else:
            return
        raise BadRequest(
            f"{whose} {most} transient queues already: use these, or end sessions that have some"
        )

    def restore(self, row: QueueRow) -> None:
        queue = self._custody.queue_for(destinations.queue(row.name))
        queue.created, queue.home = True, bool(row.home)
        self._note(row.name, row.maker)

    def deletable(self, session: Session, name: str) -> str:
        """Whoever has made a queue, or may read it, may delete it with all in it; a transient one its own
        session alone.
        """
        name = self.local_name(name)
        if self.existing(name).owner not in ("", session.token):
            raise SwitchError(f"REFUSED: the queue {name!r} is another session's")
        maker = self._makers.get(name)
        if name not in session.transient and not (maker and maker == space_of(session.token)):
            session.rights.check_consume(destinations.queue(name))
        return name

    def names(self, session: Session, prefix: str, *, read: bool) -> Iterator[str]:
        """Names that begin so, in order, at most `MOST_NAMES`: of queues that the session may make itself.

        Gives '' at a step that found none, so that whoever asks can stop between steps.
        """
        made = self._made[bisect_left(self._made, prefix) :]
        fresh, runs, found = list(session.transient), [made], 0
        for start in range(0, len(fresh), _RUN):
            runs.append(sorted(fresh[start : start + _RUN]))
            yield ""
        for name in merge(*runs):
            if not name.startswith(prefix):
                if name > prefix:
                    return
            elif not (read and not self._custody.consumers.get(name)) and self._may_make(session, name):
                yield name
                found += 1
                if found == MOST_NAMES:
                    return
                continue
            yield ""

    @staticmethod
    def _may_make(session: Session, name: str) -> bool:
        if not session.rights.limited:
            return True
        try:
            session.rights.check_make(name)
        except SwitchError:
            return name in session.transient
        return True

    def has(self, name: str) -> bool:
        """Has somebody made it here?"""
        queue = self._custody.queues.get(f"queue:{name}")
        return queue is not None and queue.created

    def existing(self, name: str) -> Queue:
        """Raises `NotFound` for what nobody has made here."""
        queue = self._custody.queues.get(f"queue:{name}")
        if queue is None or not queue.created:
            raise NotFound(f"this node has no queue {name!r}: create it first")
        return queue

    def local_name(self, name: str) -> str:
        """A queue of this node: `NAME` or `NAME@this-node`."""
        plain, at, node = name.partition("@")
        if at and node != self._node:
            raise NotFound(
                f"queue {name!r} is on node {node!r}: here only queues of {self._node!r} can be read"
            )
        if is_internal(destinations.queue(plain)):
            raise SwitchError(f"REFUSED: the queue {plain!r} is the node's own: choose another name")
        return queue_name(plain)
