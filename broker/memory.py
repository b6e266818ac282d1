"""The node's memory: what was freed goes back to the system, and the end of it is the end of the process.

Law: a node that has found no memory is not trusted to be whole: it says so in one line, is `ready` no more,
and stops with exit code 1. Nothing that was acknowledged is lost, since that is on disk.
"""

import asyncio
import ctypes
import gc
import logging
import mmap
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from broker.threads import end_process, last_word

_log = logging.getLogger("sapwood.node")
_COLLECT: Final = (2_000, 5, 10_000)
"""Thresholds of the collector. It looks at few new objects at a time: 50,000 of them held the node for twenty
milliseconds, and one message in a hundred as long. It hardly ever looks at all: little waits for that, since
buffers go with their connections."""
_TRIM_THRESHOLD: Final = (-1, 4 * 1024 * 1024)
_MMAP_THRESHOLD: Final = (-3, 1024 * 1024)
_ARENAS: Final = (-8, 2)
_TRIM_EVERY: Final = 5.0
_RESERVE: Final = 4 * 1024 * 1024
"""Bytes. Wrinkle: memory ends for a node where a limit on its addresses does (`ulimit -v`). A map that nobody
has written to counts there, and takes nothing of the machine's."""
_LAST_WORDS: Final = 10.0
_USED: Final = Path("/proc/self/statm")
OUT_OF_MEMORY: Final = (
    "it is out of memory. Nothing that was acknowledged is lost: give the process more memory, or lower its"
    " limits, and start it again"
)


def set_up() -> None:
    """Once, before the node starts.

    Wrinkle: glibc takes the size of what was freed last as a sign of what comes again, and from then on keeps
    blocks of up to 32 MiB in its heap, which ends where its last block does. With a fixed threshold large
    buffers are maps of their own, which go back at once. See `mallopt(3)`.
    """
    gc.set_threshold(*_COLLECT)
    mallopt = _of_glibc("mallopt")
    for parameter, value in (_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENAS):
        mallopt(parameter, value)


def _of_glibc(name: str) -> Callable[..., object]:
    """A function of it; one that does nothing where there is another C library."""
    try:
        return ctypes.CDLL(None)[name]
    except (OSError, AttributeError):
        return lambda *_: None


class Leftovers:
    """Gives back what connections that have gone, and the start, leave in the middle of the heap.

    Wrinkle: a large packet comes in pieces that are smaller than the threshold for maps. Small objects that
    live on lie between them, so glibc keeps the pages until it is asked for them.
    """

    def __init__(self, trim: Callable[[int], object] | None = None) -> None:
        self._trim = trim or _of_glibc("malloc_trim")
        self._gone, self._next = -1, -1.0

    def __repr__(self) -> str:
        return f"<Leftovers of {max(self._gone, 0)} connections given back>"

    def give_back(self, gone: int, now: float) -> None:
        """`gone`: how many connections have ever gone. `now`: seconds, monotonic."""
        if self._next < 0:  # the start leaves something too, once it is over
            self._next = now + _TRIM_EVERY
        if gone != self._gone and now >= self._next:
            self._gone, self._next = gone, now + _TRIM_EVERY
            self._trim(0)


class Watch:
    """Hears of each `MemoryError` that nobody caught, on the loop and in handlers; `stop` is called once."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._reserve = mmap.mmap(-1, _RESERVE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._words = last_word("it is out of memory, and cannot close its files")
        self._is_over = False

    def __repr__(self) -> str:
        return f"<Watch of memory{', which is out' if self._is_over else ''}>"

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        loop.set_exception_handler(self._heard)

    def _heard(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), MemoryError):
            self.out()
        else:
            loop.default_exception_handler(context)

    def out(self) -> None:
        """There is no memory. What was kept aside for it lets the node say so and close its files."""
        if self._is_over:
            return
        self._is_over = True
        self._reserve.close()
        try:
            self._loop.call_later(_LAST_WORDS, end_process, self._words)
            self._stop()
        except MemoryError:  # others have taken what was kept
            end_process(self._words)


def resident() -> int | None:
    """Bytes that the process has in use; None where the system does not tell."""
    try:
        return int(_USED.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None
