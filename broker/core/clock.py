"""The clock of a pure core: the present as it was told last, and what is to happen later.

Law: whoever goes over something long takes `PART` rows of it, and lets `go_on` call him for the next ones.
All such work together has one turn in each `PAUSE`. The rest waits in the store as it did, so a start finds
it; between two turns anything may happen, so each looks again whether it is still to be done.
"""

import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Final

PART: Final = 500
"""Rows that one turn of long work goes over: some milliseconds."""
PAUSE: Final = 0.001


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
