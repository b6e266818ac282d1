"""What is said in the log of whoever is refused: of one address and reason once a minute, and not too much
in all.

Law: what is remembered is bounded, and so are the lines, however many addresses try.
"""

import logging
from collections.abc import Callable
from typing import Final

from treeconnector.wording import counted

_log = logging.getLogger("sapwood.entrance")
_AGAIN: Final = 60.0
_MOST: Final = 1000
_LINES: Final = 60
"""That may come at once; one more each second."""


class Complaints:
    """`clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next: dict[tuple[str, str], float] = {}
        self._silent = 0
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<Complaints of {len(self._next)} kinds, {self._silent} not told>"

    def __call__(self, host: str, address: str, text: str) -> None:
        """`host`: of one kind are those with the same host and text. `address`: as it is shown."""
        now, kind = self._clock(), (host, text)
        if now < self._next.get(kind, 0.0) or self._until - now > _LINES:
            self._silent += 1
            return
        self._until = max(now, self._until) + 1
        self._next.pop(kind, None)
        while len(self._next) >= _MOST:
            del self._next[next(iter(self._next))]
        self._next[kind] = now + _AGAIN
        more = f" (and {counted(self._silent, 'further refusal')} of late)" if self._silent else ""
        self._silent = 0
        _log.warning("! %s: %s%s", address, text, more, extra={"address": address, "reason": text})
