"""Pauses grow, end at the longest, and do not bring thousands back at one moment."""

import random
from collections import Counter

import pytest
from tenacity import RetryCallState, retry_if_exception_type

from bridges.carriers.base import CarrierAbsent, CarrierBroken
from broker.pauses import Growing, retrying
from config.behaviour import Link


@pytest.fixture(autouse=True)
def _same_chance() -> None:
    random.seed(46)


def pause(pauses: Growing, attempt: int, error: Exception | None = None) -> float:
    state = RetryCallState(None, None, (), {})  # type: ignore[arg-type]
    state.attempt_number = attempt
    if error is not None:
        state.set_exception((type(error), error, None))
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


def test_a_broker_that_does_not_run_is_dialled_within_a_second_and_pauses_grow_anew_once_it_does() -> None:
    pauses = Growing(0.25, 10.0)
    absent, silent = CarrierAbsent("refused"), CarrierBroken("nobody listens behind it")
    assert min(pause(pauses, attempt, silent) for attempt in (7, 8)) >= 5.0
    for attempt in range(9, 99):
        assert 0.5 <= pause(pauses, attempt, absent) <= 1.0
    for attempt, whole in enumerate((0.25, 0.5, 1, 1, 1, 1, 2, 4, 8, 10), 99):
        drawn = pause(pauses, attempt, silent)
        assert whole / 2 <= drawn <= whole, "who answers behind it may come two seconds later than it"
    assert pause(pauses, 109, absent) <= 1.0
    assert pause(Growing(0.01, 0.02), 9, absent) <= 0.02


def test_repr() -> None:
    assert repr(Growing(0.25, 10.0)) == "<Growing from 0.25 to 10 s>"
