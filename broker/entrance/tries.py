"""Whoever guesses is slowed down, by address: after some wrong tries each further one waits for its second.

Law: what one address does slows down no other; right tries cost nothing. What is remembered is bounded,
however many addresses try: the oldest are forgotten first. IPv6 gives everybody 2^64 addresses, so there
the network counts.
"""

from collections.abc import Callable
from typing import Final

from broker.intake.addresses import network_of

FREE: Final = 10
"""Wrong tries that an address has at once; one comes back to it each second."""
MOST_WAITING: Final = 16
"""Tries of one address that wait; further ones are refused at once."""
LONGEST_WAIT: Final = 30.0
_MOST_ADDRESSES: Final = 4096


class Tries:
    """`clock`: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}
        self._waiting: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Tries of {len(self._until)} addresses, {sum(self._waiting.values())} waiting>"

    @property
    def slowed(self) -> int:
        """How many addresses have to wait now."""
        now = self._clock()
        return sum(until - now > FREE for until in self._until.values())

    def delay(self, host: str) -> float | None:
        """Seconds that a try of this address has to wait; None: too many wait already."""
        until = self._until.get(network_of(host))
        wait = 0.0 if until is None else max(0.0, until - self._clock() - FREE)
        if wait and self._waiting.get(network_of(host), 0) >= MOST_WAITING:
            return None
        return wait

    def waits(self, host: str) -> None:
        """A try waits; `waited` ends that."""
        self._waiting[network_of(host)] = self._waiting.get(network_of(host), 0) + 1

    def waited(self, host: str) -> None:
        left = self._waiting.pop(network_of(host), 1) - 1
        if left > 0:
            self._waiting[network_of(host)] = left

    def failed(self, host: str) -> None:
        """A try was wrong."""
        now, network = self._clock(), network_of(host)
        until = max(now, self._until.pop(network, now)) + 1
        if len(self._until) >= _MOST_ADDRESSES:
            self._forget(now)
        self._until[network] = min(until, now + FREE + LONGEST_WAIT)

    def _forget(self, now: float) -> None:
        for network in [each for each, until in self._until.items() if until <= now]:
            del self._until[network]
        while len(self._until) >= _MOST_ADDRESSES:
            del self._until[next(iter(self._until))]
