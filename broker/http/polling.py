"""Verbs that wait: answered at once if there is something, else when there is, or when their time is over."""

import asyncio
from collections.abc import Callable
from typing import Any

from broker.http.bindings import HttpLine

Look = Callable[[Any, bool], Callable[[], object] | None]
"""With what the poll waits by, None before it waits, and whether its time is over: what answers it now, None:
nothing yet.
"""
Wait = Callable[[Callable[[], None]], Any]
"""Calls its argument, once, when there may be something; returns what ends that."""


def poll(line: HttpLine, seconds: float, look: Look, wait: Wait, cancel: Callable[[Any], None]) -> None:
    """Answer once, while the line is open."""
    answer = look(None, not seconds)
    if answer is not None:
        answer()
    else:
        Poll(line, seconds, look, wait, cancel)


class Poll:
    """One that waits. What wakes it concerns nobody else, however many wait."""

    def __init__(
        self, line: HttpLine, seconds: float, look: Look, wait: Wait, cancel: Callable[[Any], None]
    ) -> None:
        self._line = line
        self._look_for = look
        self._wait = wait
        self._cancel = cancel
        self._loop = asyncio.get_running_loop()
        self._looking: asyncio.Handle | None = None
        self._timer = self._loop.call_later(seconds, self._look, True)
        self._waiter = wait(self._woken)
        line.watch(self._stop)

    def _woken(self) -> None:
        """Called in the middle of the switch's work: look a moment later, when more may be there."""
        self._looking = self._loop.call_soon(self._look, False)

    def _look(self, is_over: bool) -> None:
        answer = self._look_for(self._waiter, is_over)
        if answer is None:
            self._waiter = self._wait(self._woken)
        else:
            self._stop()
            answer()

    def _stop(self) -> None:
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._line.unwatch(self._stop)
        self._cancel(self._waiter)
