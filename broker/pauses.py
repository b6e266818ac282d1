"""How long a node waits before it tries again: twice as long after each failure, up to the longest pause.

Law: half of each pause is drawn. Thousands of nodes lose their parent at one moment, and each fails as often
as the others; with a fixed pause they would all come back at one moment too.

Law: a broker that does not run is dialled again within a second, however long it has been away: to find it so
costs nobody anything, and all that its links carry waits for it. Pauses grow anew once it is there, and only
whoever should answer behind it is not: for the first few he is on his way, within a second too.
"""

import random
from collections.abc import Callable

from tenacity import AsyncRetrying, RetryCallState
from tenacity.retry import retry_base
from tenacity.wait import wait_base

from bridges.carriers.base import CarrierAbsent
from config.behaviour import Link

_DOUBLED_AT_MOST = 64
ABSENT = 1.0
"""Seconds: the longest pause while a broker does not run."""
_ON_ITS_WAY = 6
"""Pauses of `ABSENT` at most once it runs: a parent dials it as we do, and may come two seconds later."""


class Growing(wait_base):
    """Pauses of at least half, and at most all, of a time that doubles. `initial`, `longest`: seconds."""

    def __init__(self, initial: float, longest: float) -> None:
        self.initial = initial
        self.longest = longest
        self._grown_from = 1
        self._is_absent = False

    def __repr__(self) -> str:
        return f"<Growing from {self.initial:g} to {self.longest:g} s>"

    def __call__(self, retry_state: RetryCallState) -> float:
        number, longest = retry_state.attempt_number, self.longest
        if retry_state.outcome is not None and isinstance(retry_state.outcome.exception(), CarrierAbsent):
            longest = min(longest, ABSENT)
            self._is_absent = True
        elif self._is_absent:
            self._is_absent, self._grown_from = False, number
        grown = max(number - self._grown_from, 0)
        if self._grown_from > 1 and not self._is_absent:
            if grown < _ON_ITS_WAY:
                longest = min(longest, ABSENT)
            else:
                grown -= _ON_ITS_WAY // 2
        doubled = min(grown, _DOUBLED_AT_MOST)
        pause = min(self.initial * 2.0**doubled, longest)
        return random.uniform(pause / 2, pause)


def retrying(link: Link, retry: retry_base, failed: Callable[[RetryCallState], None]) -> AsyncRetrying:
    """Calls a function until it returns, with the pauses that a site's file asks for."""
    pauses = Growing(link.backoff_initial, link.backoff_max)
    return AsyncRetrying(wait=pauses, retry=retry, before_sleep=failed)
