"""Time on a link: is the peer alive, and does it send too much. Times are seconds on any monotonic clock."""

from typing import Final

MAX_PAUSE: Final = 1.0
_BURST: Final = 1.0


class KeepAlive:
    """Asks after `keep_alive` seconds without a packet; `dead_after` seconds more without one mean dead."""

    __slots__ = ("_asked", "_dead_after", "_heard", "_keep_alive")

    def __init__(self, keep_alive: float, dead_after: float, now: float) -> None:
        self._keep_alive = keep_alive
        self._dead_after = dead_after
        self._heard = now
        self._asked: float | None = None

    def __repr__(self) -> str:
        return f"<KeepAlive heard={self._heard} asked={self._asked}>"

    def heard(self, now: float) -> None:
        self._heard = now
        self._asked = None

    def asked(self, now: float) -> None:
        """A question is on its way; one that is open already keeps its time."""
        if self._asked is None:
            self._asked = now

    @property
    def deadline(self) -> float:
        return self._heard + self._keep_alive if self._asked is None else self._asked + self._dead_after

    def must_ask(self, now: float) -> bool:
        return self._asked is None and now >= self.deadline

    def is_dead(self, now: float) -> bool:
        return self._asked is not None and now >= self.deadline


class Pace:
    """A bucket that holds one second's worth of control frames and refills at `rate` a second."""

    __slots__ = ("_full_at", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._full_at = now

    def __repr__(self) -> str:
        return f"<Pace {self._rate}/s used up until {self._full_at}>"

    def charge(self, count: int, now: float) -> float | None:
        """Count frames. Returns None, or the time until which nothing should be read; at most a second."""
        self._full_at = min(max(self._full_at, now) + count / self._rate, now + _BURST + MAX_PAUSE)
        until = self._full_at - _BURST
        return until if until > now else None
