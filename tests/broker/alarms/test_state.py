"""When a figure raises an alarm, and when the alarm ends."""

import math

import pytest

from broker.alarms.state import AlarmChange, AlarmState, condition, figure
from config.alarms import BUILTIN, AlarmRule

BACKLOG = AlarmRule(name="backlog", metric="waiting", above=100.0, lasting=60.0)


def course(
    state: AlarmState, *values: float, step: float = 20.0, start: float = 0.0
) -> list[AlarmChange | None]:
    return [state.look(value, start + step * place) for place, value in enumerate(values)]


def test_it_is_raised_once_the_figure_was_above_for_so_long() -> None:
    state = AlarmState(BACKLOG)
    assert course(state, 100.0, 101.0, 500.0, 101.0) == [None] * 4
    assert state.pending
    assert state.look(101.0, 80.0) is AlarmChange.RAISED
    assert state.look(900.0, 10_000.0) is None
    assert (state.raised, state.pending, state.value) == (True, False, 900.0)


def test_a_figure_that_was_well_in_between_begins_anew() -> None:
    state = AlarmState(BACKLOG)
    assert course(state, 101.0, 101.0, 99.0, 101.0, 101.0, 101.0) == [None] * 6
    assert state.look(101.0, 120.0) is AlarmChange.RAISED


def test_it_ends_once_the_figure_was_well_for_as_long() -> None:
    state = AlarmState(BACKLOG, raised=True)
    assert course(state, 0.0, 101.0, 0.0, 0.0, 0.0) == [None] * 5
    assert state.look(0.0, 100.0) is AlarmChange.ENDED
    assert not state.raised


def test_what_comes_again_and_again_is_raised_once_where_its_rule_says_when_it_ends() -> None:
    """A dead letter now and then is no alarm, and none, each time."""
    (letters,) = (rule for rule in BUILTIN if rule.name == "dead-letters")
    state = AlarmState(letters)
    assert course(state, 0.1, *[0.0, 0.0, 0.0, 0.0, 0.1] * 20) == [AlarmChange.RAISED, *[None] * 100]
    assert course(state, 0.0, 0.0, start=10_000.0, step=599.0) == [None, None]
    assert state.look(0.0, 10_600.0) is AlarmChange.ENDED


def test_an_unknown_figure_changes_nothing() -> None:
    state = AlarmState(BACKLOG)
    assert course(state, 101.0, math.nan, math.nan, math.nan) == [None] * 4
    assert state.value == 101.0
    assert state.look(101.0, 60.0) is AlarmChange.RAISED


def test_below_and_at_once() -> None:
    state = AlarmState(AlarmRule(name="disk", metric="disk_free", below=1000.0, lasting=0.0))
    assert course(state, 1000.0, 999.0, 999.0, 1000.0) == [None, AlarmChange.RAISED, None, AlarmChange.ENDED]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (BACKLOG, "waiting above 100 for 1m"),
        (AlarmRule(name="a", metric="died", above=0.0, lasting=0.0), "died above 0"),
        (
            AlarmRule(name="a", metric="oldest", below=2.5, queue="sales", lasting=90.0),
            "oldest of queue sales below 2s500ms for 1m30s",
        ),
        (
            AlarmRule(name="a", metric="disk_free", below=2.0**30, lasting=300.0),
            "disk_free below 1GiB for 5m",
        ),
        (AlarmRule(name="a", metric="waiting", above=1_234_567.0, lasting=0.0), "waiting above 1234567"),
    ],
)
def test_its_condition_in_words(rule: AlarmRule, words: str) -> None:
    assert condition(rule) == words


def test_a_figure_has_its_unit() -> None:
    told = (
        ("disk_free", 626_348_032.0),
        ("store", 68.0),
        ("oldest", 1834.6),
        ("commit", 1.2345),
        ("commit", 0.00149),
        ("died", 0.0999),
    )
    assert [figure(*each) for each in told] == ["597.3MiB", "68B", "30m35s", "1s234ms", "1.49ms", "0.1"]
    assert figure("waiting", 12_345_678.0) == "12345678"
