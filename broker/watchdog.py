"""Ends the process with a last word when its loop, or the thread of its store, stands still.

A node that stands still holds its links, its ports and its neighbours' messages, and serves nobody. Its end
is seen at once, and whoever started it starts it again.

Law: a second counts only if this process had its turn in it: one that was stopped, or whose machine slept,
goes on where it was.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final

from broker import threads

PATIENCE: Final = 300
"""Seconds. One step may take long where a slow disk has much to give; neighbours give the node up before."""
_EVERY: Final = 1.0
_SAYS_AFTER: Final = 10
_STILL: Final = (
    f"! the node has stood still for {_SAYS_AFTER} s, and answers nobody: its disk does not answer, or it is"
    f" a mistake in Sapwood. After {PATIENCE} s its process ends\n"
).encode()


class Watchdog:
    """`moves`: whether what the loop waits for goes on; asked by the loop every second. `end`: told the end.

    `say`: told once that the loop stands.

    Raises `NoThread`.
    """

    def __init__(
        self,
        moves: Callable[[], bool],
        *,
        patience: int = PATIENCE,
        every: float = _EVERY,
        end: Callable[[bytes, int], object] = threads.end_process,
        say: Callable[[bytes], object] = threads.say,
    ) -> None:
        self._moves = moves
        self._patience = patience
        self._every = every
        self._end, self._code = end, 1
        self._say = say
        self._words = threads.last_word(
            f"it has stood still for {patience} s. Its disk does not answer, or it is a mistake in Sapwood"
        )
        self._loop = asyncio.get_running_loop()
        self._lives = self._stopped = self._turns = False
        self._still = self._silent = 0
        self._beat()
        threads.begin(self._watch, "sapwood-watchdog")

    def __repr__(self) -> str:
        return f"<Watchdog still for {self._still} of {self._patience}>"

    def stop(self) -> None:
        self._timer.cancel()
        self._stopped = True

    def hurry(self, patience: int, code: int) -> None:
        """The node has stopped: all that is left has so many seconds. `code`: of the process, then.

        Wrinkle: asyncio begins one more thread to end its others, and without memory waits for it for ever.
        uvloop waits for look-ups of names, which the system's resolver gives many seconds.
        """
        self._words = (
            threads.last_word("it has stopped, but its process did not end by itself") if code else b""
        )
        self._code = code
        self._patience, self._still, self._lives = patience, 0, True

    def _beat(self) -> None:
        self._turns = True
        if self._moves():
            self._lives = True
        self._timer = self._loop.call_later(self._every, self._beat)

    def _watch(self) -> None:
        """In a thread of its own. Nothing here needs memory, but who knows: without any it looks again."""
        while not self._stopped:
            with contextlib.suppress(MemoryError):
                time.sleep(self._every)
                self._speak()
                self._look()

    def _speak(self) -> None:
        """The loop itself would say that its disk does not answer; one that stands cannot."""
        self._silent = 0 if self._turns else self._silent + 1
        self._turns = False
        if self._silent == _SAYS_AFTER and not self._stopped:
            with contextlib.suppress(OSError):
                self._say(_STILL)

    def _look(self) -> None:
        if self._lives:
            self._lives, self._still = False, 0
            return
        self._still += 1
        if self._still >= self._patience and not self._stopped:
            self._end(self._words, self._code)
