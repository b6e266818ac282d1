"""Which message a broker ends the connection for, instead of refusing it.

A Mosquitto closes the connection on some messages (too large, for one) without naming them. Each that
was unanswered at the end of a connection is suspected and given one by one; one that is alone unanswered when
connections end, `_TIMES` times, is guilty.
"""

from collections.abc import Sequence
from typing import Final

_TIMES: Final = 3


class PoisonMessages:
    """By the ids of deliveries, over connections. `reason`: what the log said when the last one ended."""

    def __init__(self) -> None:
        self._times: dict[int, int] = {}
        self.reason = ""

    def __repr__(self) -> str:
        return f"<PoisonMessages {len(self._times)}>"

    @property
    def any(self) -> bool:
        return bool(self._times)

    def lost(self, unanswered: Sequence[int]) -> None:
        """A connection has ended; these were unanswered."""
        alone = len(unanswered) == 1
        self._times = {each: self._times.get(each, 0) + alone for each in unanswered} | {
            each: times for each, times in self._times.items() if each not in unanswered
        }

    def cleared(self, id: int) -> None:
        """The broker has answered it."""
        self._times.pop(id, None)

    def guilty(self, id: int) -> bool:
        """Forgotten by asking."""
        if self._times.get(id, 0) < _TIMES:
            return False
        del self._times[id]
        return True
