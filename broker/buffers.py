"""Buffers: the bytes that a node keeps in memory for connections, of all of them together.

They are of what the other end has not read, of what it has sent a part of, and of what it has sent that is
not on disk yet.

Law: who has `share` unread is given nothing more until it reads, and what waits for it stays on disk; who has
so much under way is read no further. A share is a part of what is left, so that however many do not read, all
together stay below `most`. Where more comes all the same, connections are cut off: those that have been still
for longest, of these the largest.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

MOST: Final = 256 * 1024 * 1024
"""Of a node, unless its memory is limited: then an eighth of that, and `FEWEST` at least."""
FEWEST: Final = 32 * 1024 * 1024
LOOKS: Final = 64 * 1024
"""A connection with less is not looked at, and each may have so much."""
_PART: Final = 8
_AGAIN: Final = 0.25
_STILL: Final = 5.0
_SOON: Final = 0.01
_LATE: Final = 1.0


def most_within(memory: float) -> int:
    """Of a node that may have so many bytes in all; infinite: as many as there are."""
    return int(min(MOST, max(FEWEST, memory / _PART)))


class Holder(Protocol):
    """One connection. `held`: bytes. `cut_off` makes an end of it, and is called once."""

    @property
    def held(self) -> int: ...
    def cut_off(self) -> None: ...


class _Count:
    """Of one connection: bytes, and since when there have been so many."""

    __slots__ = ("bytes", "since")

    def __init__(self) -> None:
        self.bytes, self.since = 0, 0.0


class Buffers:
    """Of one node. `closed`: called for each connection that is cut off."""

    def __init__(
        self,
        most: int = MOST,
        closed: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._closed = closed
        self._clock = clock
        self._of: dict[Holder, _Count] = {}
        self.total = 0
        self._counted = 0.0

    def __repr__(self) -> str:
        return f"<Buffers {self.total} of at most {self._most} of {len(self._of)} connections>"

    @property
    def share(self) -> int:
        """Bytes that one connection may leave unread, or have under way, before it has to wait."""
        return max((self._most - self.total) // _PART, LOOKS)

    def look(self, holder: Holder) -> None:
        """More is kept for this one, or less."""
        now = self._clock()
        self._count(holder, self._of.setdefault(holder, _Count()), now)
        if self.total > self._most or (2 * self.total > self._most and now - self._counted > _AGAIN):
            self._count_again(now)

    def gone(self, holder: Holder) -> None:
        """Calling it again does nothing."""
        if (count := self._of.pop(holder, None)) is not None:
            self.total -= count.bytes

    def _count(self, holder: Holder, count: _Count, now: float) -> None:
        held = holder.held
        if held != count.bytes:
            self.total += held - count.bytes
            count.bytes, count.since = held, now

    def _count_again(self, now: float) -> None:
        """Many may have read since they were looked at."""
        self._counted = now
        for holder, count in self._of.items():
            self._count(holder, count, now)
        if self.total > self._most:
            self._relieve(now)

    def _relieve(self, now: float) -> None:
        enough = self._most - self._most // _PART

        def turn(holder: Holder) -> tuple[int, int]:
            count = self._of[holder]
            return int((now - count.since) / _STILL), count.bytes

        for holder in sorted(self._of, key=turn, reverse=True):
            if self.total <= enough:
                return
            if holder in self._of and self._of[holder].bytes >= LOOKS:
                self.gone(holder)
                self._closed()
                holder.cut_off()


class Behind:
    """Looks after one connection that was given more than its share, until it has read. `unread`: bytes;
    `go_on` is called when they are few again.
    """

    def __init__(self, buffers: Buffers, unread: Callable[[], int], go_on: Callable[[], None]) -> None:
        self._buffers = buffers
        self._unread = unread
        self._go_on = go_on
        self._pause = _SOON
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Behind {'waits' if self._timer else 'no more'}>"

    def is_now(self) -> bool:
        """Is there so much unread that nothing more is to be given? `go_on` is called later then."""
        if self._timer is None and self._unread() > self._buffers.share:
            self._pause = _SOON
            self._later()
        return self._timer is not None

    def _later(self) -> None:
        """Rarely where it takes long: very many may be behind."""
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._look)
        self._pause = min(2 * self._pause, _LATE)

    def _look(self) -> None:
        if self._unread() > self._buffers.share // 2:
            self._later()
            return
        self._timer = None
        self._go_on()

    def close(self) -> None:
        """Calling it again does nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._unread, self._go_on = int, _nothing


def _nothing() -> None:
    """Nobody is left to go on."""
