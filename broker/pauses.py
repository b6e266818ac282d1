"""How long a node waits before it tries again: twice as long after each failure, up to the longest pause.

Law: half of each pause is drawn. Thousands of nodes lose their parent at one moment, and each fails as often
as the others; with a fixed pause they would all come back at one moment too.
"""

import random
from collections.abc import Callable

from tenacity import AsyncRetrying, RetryCallState
from tenacity.retry import retry_base
from tenacity.wait import wait_base

from config.behaviour import Link

_DOUBLED_AT_MOST = 64


class Growing(wait_base):
    """Pauses of at least half, and at most all, of a time that doubles. `initial`, `longest`: seconds."""

    def __init__(self, initial: float, longest: float) -> None:
        self.initial = initial
        self.longest = longest

    def __repr__(self) -> str:
        return f"<Growing from {self.initial:g} to {self.longest:g} s>"

    def __call__(self, retry_state: RetryCallState) -> float:
        doubled = min(retry_state.attempt_number - 1, _DOUBLED_AT_MOST)
        pause = min(self.initial * 2.0**doubled, self.longest)
        return random.uniform(pause / 2, pause)


def retrying(link: Link, retry: retry_base, failed: Callable[[RetryCallState], None]) -> AsyncRetrying:
    """Calls a function until it returns, with the pauses that a site's file asks for."""
    pauses = Growing(link.backoff_initial, link.backoff_max)
    return AsyncRetrying(wait=pauses, retry=retry, before_sleep=failed)
