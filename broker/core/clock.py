"""The clock of a pure core: the present as it was told last, and what is to happen later."""

import heapq
from collections.abc import Callable
from itertools import count


class Clock:
    """`now`: seconds of running time, going on over restarts. Never a wall clock."""

    __slots__ = ("_numbers", "_timers", "now")

    def __init__(self, now: float) -> None:
        self.now = now
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def __repr__(self) -> str:
        return f"<Clock now={self.now:.3f} timers={len(self._timers)}>"

    def after(self, delay: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + delay, next(self._numbers), call))

    @property
    def next(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def run_due(self) -> None:
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()
