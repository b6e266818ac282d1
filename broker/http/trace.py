"""`GET /trace/{ack_to}/{timeout}`, a verb of the link-level protocol: events, polled like transfer."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from broker.http.bindings import HttpLine
from broker.http.ports import TracingPort

Reply = Callable[[bytes], None]
"""Takes the answer, JSON."""
_json: Final = msgspec.json.Encoder()


def poll(tracing: TracingPort, line: HttpLine, last_id: int, wait: float, reply: Reply) -> None:
    """Answer with events above `last_id`: at once if there are any, else when there are, or after `wait`."""
    events = tracing.events(last_id)
    if events or not wait:
        reply(_answer(events))
    else:
        _BlockedPoll(tracing, line, last_id, wait, reply)


class _BlockedPoll:
    """A poll that waits. While its line is open it answers once."""

    def __init__(self, tracing: TracingPort, line: HttpLine, last_id: int, wait: float, reply: Reply) -> None:
        self._tracing = tracing
        self._line = line
        self._last_id = last_id
        self._reply = reply
        self._loop = asyncio.get_running_loop()
        self._looking: asyncio.Handle | None = None
        self._timer = self._loop.call_later(wait, self._end)
        tracing.wait(self._woken)
        line.watch(self._stop)

    def _woken(self) -> None:
        """Called in the middle of the switch's work: look a moment later, when more may be there."""
        self._looking = self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._looking = None
        events = self._tracing.events(self._last_id)
        if events:
            self._stop()
            self._reply(_answer(events))
        else:
            self._tracing.wait(self._woken)

    def _end(self) -> None:
        self._stop()
        self._reply(_answer([]))

    def _stop(self) -> None:
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._line.unwatch(self._stop)
        self._tracing.cancel(self._woken)


def _answer(events: list[tuple[int, dict[str, Any]]]) -> bytes:
    return _json.encode({"events": events})
