"""Shares of the event loop: no neighbour and no client takes more of it than its part.

Law: work on what one of them sent stops after `SLICE` seconds, whatever of it is left, and all others have
several turns before it goes on: a sibling's message needs several to get through. What took much longer than
a slice at one go (a bundle that is small on the line and large unpacked) is paid for: nothing of whoever sent
it is worked on for `PAYS` times as long. That account is one for the whole node, so that many who send such
things take no more together than one does.

Wrinkle: slices are seconds that passed; what is paid for is time of the processor, so that nobody pays for a
machine that is busy with other things.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

SLICE: Final = 0.003
TURNS: Final = 4
PAYS: Final = 3.0
MOST: Final = 1.0


class Shares:
    """Of one node. `paid_until`: what was taken too much is paid for then (time of the loop's clock)."""

    def __init__(self, used: Callable[[], float] = time.thread_time) -> None:
        self.used = used
        self.paid_until = 0.0

    def __repr__(self) -> str:
        return f"<Shares paid_until={self.paid_until:.3f}>"

    def owe(self, seconds: float, now: float) -> float:
        """So much was taken too much, by anybody. Returns how long whoever took it rests, `MOST` at most."""
        self.paid_until = min(max(self.paid_until, now) + PAYS * seconds, now + MOST)
        return self.paid_until - now


class LoopShare:
    """Of one neighbour or client, while it is worked for. `begin` where that begins."""

    __slots__ = ("_ends", "_shares", "_used")

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self.begin()

    def __repr__(self) -> str:
        return f"<LoopShare {'over' if self.is_over else 'goes on'}>"

    def begin(self) -> None:
        self._used = self._shares.used()
        self._ends = time.perf_counter() + SLICE

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._ends

    def owed(self) -> float:
        """Seconds of the processor that were taken beyond a slice, and another one that nobody counts."""
        return max(self._shares.used() - self._used - 2 * SLICE, 0.0)

    async def give_way(self) -> None:
        """Let all others have their turns, and pay for what was too much; then a new slice begins."""
        owed = self.owed()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        if owed:
            await asyncio.sleep(self._shares.owe(owed, asyncio.get_running_loop().time()))
        self.begin()

    def give_way_and(self, go_on: Callable[[], None]) -> None:
        """As `give_way`, for whoever is called back: `go_on` is called then, and begins the slice."""
        loop, owed = asyncio.get_running_loop(), self.owed()

        def turn(left: int) -> None:
            if left:
                loop.call_soon(turn, left - 1)
            elif owed:
                loop.call_later(self._shares.owe(owed, loop.time()), go_on)
            else:
                go_on()

        turn(TURNS)
