"""The clock of a pure core: the present as it was told last, and what is to happen later.

Law: whoever goes over something long takes `PART` rows of it, and lets `go_on` call him for the next ones.
All such work together has one turn in each `PAUSE`. The rest waits in the store as it did, so a start finds
it; between two turns anything may happen, so each looks again whether it is still to be done.
"""

import heapq
from collections.abc import Callable, Hashable, Iterable
from itertools import count
from typing import Any, Final, Generic, TypeVar

Item = TypeVar("Item")

PART: Final = 500
"""Rows that one turn of long work goes over: some milliseconds."""
PAUSE: Final = 0.001
_NONE: Final[list[Any]] = []


class Clock:
    """`now`: seconds of running time, going on over restarts. Never a wall clock."""

    __slots__ = ("_numbers", "_parts", "_timers", "now")

    def __init__(self, now: float) -> None:
        self.now = now
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._parts: dict[Hashable, Callable[[], object]] = {}

    def __repr__(self) -> str:
        return f"<Clock now={self.now:.3f} timers={len(self._timers)}>"

    def read(self) -> float:
        return self.now

    def after(self, delay: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + delay, next(self._numbers), call))

    def go_on(self, key: Hashable, part: Callable[[], object]) -> None:
        """Call the next part of long work in its turn: once, however often this is asked for before."""
        if not self._parts:
            self.after(PAUSE, self._take_turn)
        self._parts.setdefault(key, part)

    def _take_turn(self) -> None:
        part = self._parts.pop(next(iter(self._parts)))
        if self._parts:
            self.after(PAUSE, self._take_turn)
        part()

    @property
    def next(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def run_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()


class Parts(Generic[Item]):
    """Looks at each of many things once: at a part at once, at the others a part in each turn.

    `look` returns how many rows it went over; None is one. Law: an item may be gone, or be as it was, when
    its turn comes, so `look` asks what is so then. One that is added again before that is looked at once.
    """

    __slots__ = ("_clock", "_due", "_look")

    def __init__(self, clock: Clock, look: Callable[[Item], int | None]) -> None:
        self._clock, self._look = clock, look
        self._due: dict[Item, None] = {}

    def __repr__(self) -> str:
        return f"<Parts due={len(self._due)}>"

    def __bool__(self) -> bool:
        """Is anything left to be looked at?"""
        return bool(self._due)

    def add(self, items: Iterable[Item]) -> None:
        """Few things have their turn now, whatever else is due."""
        if due := dict.fromkeys(items):  # an update with nothing takes memory too
            self._due.update(due)
        self._look_at_part()

    def _look_at_part(self) -> None:
        left = PART
        while left > 0 and self._due:
            left -= self._look(self._due.popitem()[0]) or 1
        if self._due:
            self._clock.go_on(self._look_at_part, self._look_at_part)


class Round(Generic[Item]):
    """Looks at each of many things in turn, again and again, so that none waits for it longer than `seconds`.

    `items`: those that there are when a round begins; one may be gone when its turn comes.
    """

    __slots__ = ("_clock", "_coming", "_items", "_left", "_look", "_seconds", "_share")

    def __init__(
        self,
        clock: Clock,
        items: Callable[[], Iterable[Item]],
        look: Callable[[Item], object],
        seconds: int = 1,
    ) -> None:
        self._clock, self._items, self._look, self._seconds = clock, items, look, seconds
        self._coming = _NONE
        self._share = self._left = 0

    def __repr__(self) -> str:
        return f"<Round left={self._left} coming={len(self._coming)}>"

    def second_passed(self, *, all_now: bool = False) -> None:
        """Look at a share of them, `PART` at least, a part in each turn. `all_now`: at all of them."""
        if all_now or not self._coming:
            found = list(self._items())
            if len(found) <= PART:
                self._left, self._coming = 0, _NONE
                for item in found:
                    self._look(item)
                return
            found.reverse()
            self._coming = found
            self._share = max(-(-len(found) // self._seconds), PART)
        self._left = max(self._left, len(self._coming) if all_now else self._share)
        self._clock.go_on(self._look_at_part, self._look_at_part)

    def _look_at_part(self) -> None:
        for _ in range(min(PART, self._left, len(self._coming))):
            self._left -= 1
            self._look(self._coming.pop())
        if not self._coming:
            self._left, self._coming = 0, _NONE
        elif self._left:
            self._clock.go_on(self._look_at_part, self._look_at_part)
