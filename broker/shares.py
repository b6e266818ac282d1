"""Shares of the event loop: no neighbour and no client takes more of it than its part.

Law: work on what one of them sent stops after `SLICE` seconds, whatever of it is left, and all others have
several turns before it goes on: a sibling's message needs several to get through. What took much longer than
a slice at one go (a bundle that is small on the line and large unpacked) is paid for: nothing of whoever sent
it is worked on for `PAYS` times as long. That account is one for the whole node, so that many who send such
things take no more together than one does.

Law: what came together is committed together, unless all who give way took more than `GATHERS` seconds since
the node last saw whether to commit, or somebody else waits for a commit. One at each slice would make several
times as many. Whoever gives way asks for a commit at the end of its work and before it rests, so what nobody
waits for may wait for that (`under_way`).

Wrinkle: slices are seconds that passed; what is paid for, and gathered, is time of the processor, so that
nobody pays for a machine that is busy with other things.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

SLICE: Final = 0.003
TURNS: Final = 4
GATHERS: Final = 0.02
PAYS: Final = 3.0
MOST: Final = 1.0


class Shares:
    """Of one node. `paid_until`: what was taken too much is paid for then (time of the loop's clock).

    `under_way`: how many work on something that goes on after the others' turns, and ask for a commit then.
    `gathered`: seconds that such work took since the node last saw whether to commit (`looked_at`).
    """

    def __init__(self, used: Callable[[], float] = time.thread_time) -> None:
        self.used = used
        self.paid_until = 0.0
        self.under_way = 0
        self.gathered = 0.0

    def __repr__(self) -> str:
        return f"<Shares paid_until={self.paid_until:.3f} under_way={self.under_way}>"

    def looked_at(self) -> None:
        """All that was done so far is committed now, or nobody waits for it."""
        self.gathered = 0.0

    def owe(self, seconds: float, now: float) -> float:
        """So much was taken too much, by anybody. Returns how long whoever took it rests, `MOST` at most."""
        self.paid_until = min(max(self.paid_until, now) + PAYS * seconds, now + MOST)
        return self.paid_until - now


class LoopShare:
    """Of one neighbour or client, while it is worked for. `begin` where that begins.

    `wake`: asks for a commit of what was done so far, unless whoever works does so at each step.
    """

    __slots__ = ("_ends", "_shares", "_used", "_wake")

    def __init__(self, shares: Shares, wake: Callable[[], None] = lambda: None) -> None:
        self._shares = shares
        self._wake = wake
        self.begin()

    def __repr__(self) -> str:
        return f"<LoopShare {'over' if self.is_over else 'goes on'}>"

    def begin(self) -> None:
        self._used = self._shares.used()
        self._ends = time.perf_counter() + SLICE

    @property
    def is_over(self) -> bool:
        return time.perf_counter() >= self._ends

    def _stop(self) -> float:
        """A slice is over. Returns what is to be paid for: of what was taken a slice is free, and another one
        that nobody counts.
        """
        taken = self._shares.used() - self._used
        self._shares.gathered += taken
        if self._shares.gathered >= GATHERS:
            self._wake()
        return max(taken - 2 * SLICE, 0.0)

    async def give_way(self) -> None:
        """Let all others have their turns, and pay for what was too much; then a new slice begins."""
        owed = self._stop()
        self._shares.under_way += 1
        try:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        finally:
            self._shares.under_way -= 1
        if owed:
            self._wake()  # nothing waits for the end of a rest, neither this work nor what counts on its end
            await asyncio.sleep(self._shares.owe(owed, asyncio.get_running_loop().time()))
        self.begin()

    def give_way_and(self, go_on: Callable[[], None]) -> None:
        """As `give_way`, for whoever is called back: `go_on` is called then, and begins the slice."""
        loop, owed = asyncio.get_running_loop(), self._stop()

        def turn(left: int) -> None:
            if left:
                loop.call_soon(turn, left - 1)
            elif owed:
                self._wake()
                loop.call_later(self._shares.owe(owed, loop.time()), go_on)
            else:
                go_on()

        turn(TURNS)
