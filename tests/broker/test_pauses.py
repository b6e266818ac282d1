"""Pauses grow, end at the longest, and do not bring thousands back at one moment."""

import random
from collections import Counter

import pytest
from tenacity import RetryCallState, retry_if_exception_type

from broker.pauses import Growing, retrying
from config.behaviour import Link


@pytest.fixture(autouse=True)
def _same_chance() -> None:
    random.seed(46)


def pause(pauses: Growing, attempt: int) -> float:
    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = attempt
    return pauses(state)


def test_a_pause_is_at_least_half_and_at_most_all_of_a_time_that_doubles() -> None:
    pauses = Growing(0.25, 10.0)
    for attempt, whole in enumerate((0.25, 0.5, 1, 2, 4, 8, 10, 10), 1):
        drawn = [pause(pauses, attempt) for _ in range(200)]
        assert whole / 2 <= min(drawn) < max(drawn) <= whole
    assert pause(pauses, 100_000) <= 10.0


def test_nobody_waits_long_by_default_and_two_thousand_stores_do_not_come_at_one_moment() -> None:
    pauses = retrying(Link(), retry_if_exception_type(OSError), print).wait
    assert isinstance(pauses, Growing)
    assert pauses.longest == 10.0
    stores = [0.0] * 2000
    for attempt in range(1, 9):  # their parent is away for half a minute
        stores = [at + pause(pauses, attempt) for at in stores]
    dialled = Counter(int(at) for at in stores)
    assert max(dialled.values()) < 500


def test_repr() -> None:
    assert repr(Growing(0.25, 10.0)) == "<Growing from 0.25 to 10 s>"
