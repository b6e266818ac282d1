"""Inclusion, overlap and look-up against the plain meaning: every topic of a small alphabet, one by one."""

from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treeconnector import permit_patterns
from treeconnector.patterns import matches
from treeconnector.permit_patterns import PatternSet, glob

NAMES = frozenset(("ab", "b"))
TEXTS = ("a", "ab", "b", "$s", "☃")
LONGEST = 4
TOPICS = ["/".join(texts) for count in range(1, LONGEST + 1) for texts in product(TEXTS, repeat=count)]

levels = st.sampled_from(("a", "b", "ab", "$s", "+", "+", "#", "#"))
permit_levels = st.sampled_from(("a", "b", "ab", "$s", "+", "#", "a*", "*b", "{name}", "a{name}"))
filters = st.lists(levels, min_size=1, max_size=3).map("/".join)
permits = st.lists(st.lists(permit_levels, min_size=1, max_size=3).map("/".join), min_size=1, max_size=4)

MEANINGS = {
    "a*": ("a", "ab"),
    "*b": ("ab", "b"),
    "{name}": ("ab", "b"),
    "a{name}": ("ab",),
}


@cache
def topics_in(filter_: str) -> frozenset[str]:
    return frozenset(topic for topic in TOPICS if matches(filter_, topic))


@cache
def spelled_out(pattern: str) -> frozenset[str]:
    """The topics in the plain patterns that mean the same over `TEXTS`."""
    choices = [MEANINGS.get(level, (level,)) for level in pattern.split("/")]
    return frozenset().union(*(topics_in("/".join(levels)) for levels in product(*choices)))


def made(*patterns: str) -> PatternSet:
    found = PatternSet()
    for pattern in patterns:
        found.add(pattern.split("/"), NAMES, pattern)
    return found


def plainly(patterns: list[str], topic: str) -> bool:
    return any(topic in spelled_out(pattern) for pattern in patterns)


@settings(deadline=None, max_examples=150)
@given(permits)
def test_a_topic_is_in_as_its_patterns_say(patterns: list[str]) -> None:
    found = made(*patterns)
    for topic in TOPICS:
        rule = found.rule_of(topic.split("/"))
        assert bool(rule) == plainly(patterns, topic), topic
        assert not rule or rule in patterns


@settings(deadline=None, max_examples=400)
@given(permits, filters)
def test_a_filter_is_covered_if_all_its_topics_are_in(patterns: list[str], wanted: str) -> None:
    inside = all(plainly(patterns, topic) for topic in topics_in(wanted))
    assert made(*patterns).covers(wanted.split("/")) == inside


@settings(deadline=None, max_examples=400)
@given(permits, filters)
def test_a_filter_is_touched_if_any_of_its_topics_is_in(patterns: list[str], wanted: str) -> None:
    inside = any(plainly(patterns, topic) for topic in topics_in(wanted))
    assert made(*patterns).touches(wanted.split("/")) == inside


@pytest.mark.parametrize(
    ("patterns", "wanted", "inside"),
    [
        (("prices/#",), "prices", True),
        (("prices/#",), "prices/uk/+", True),
        (("prices/#",), "#", False),
        (("prices/+",), "prices/#", False),
        (("+/#",), "#", True),
        (("+", "+/+/#"), "#", True),
        (("+", "+/+/+/#"), "#", False),
        (("#",), "$SYS/#", False),
        (("$SYS/#",), "$SYS/broker/+", True),
        (("a/#", "+/b"), "+/b", True),
        (("a/+", "+/b"), "+/+", False),
        (("store/{name}/#",), "store/ab/till", True),
        (("store/{name}/#",), "store/a/till", False),
        (("store/{name}/#",), "store/+/till", False),
        (("#/x/#",), "a/#/x", True),
        (("#/x/#",), "a/#/y", False),
        (("a", "#/b"), "#/b", True),
    ],
)
def test_examples_of_inclusion(patterns: tuple[str, ...], wanted: str, inside: bool) -> None:
    assert made(*patterns).covers(wanted.split("/")) is inside


def test_nothing_is_in_an_empty_set() -> None:
    nothing = PatternSet()
    assert not nothing.covers(["a"])
    assert not nothing.touches(["#"])
    assert nothing.rule_of(["a"]) == ""


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("store-*", ["store-", "store-1"], ["store", "a-store-1"]),
        ("*-1", ["-1", "a-1"], ["1", "a-12"]),
        ("a*b*c", ["abc", "axbxc"], ["ac", "acb"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("*x*", ["x", "axb"], ["ab", ""]),
    ],
)
def test_a_star_is_any_text_within_a_level(pattern: str, taken: list[str], left: list[str]) -> None:
    assert all(glob(pattern)(text) for text in taken)
    assert not any(glob(pattern)(text) for text in left)


def test_a_filter_that_is_made_to_be_hard_is_refused_and_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = made(*(f"#/a/{'/'.join('+' * count)}/#" for count in range(1, 14)))
    steps = 0
    counted = PatternSet._step

    def step(*arguments: object) -> object:
        nonlocal steps
        steps += 1
        return counted(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(PatternSet, "_step", step)
    assert not hard.covers(["#", *("a", "#") * 25, "b"])
    assert steps < 3 * permit_patterns.MOST_STEPS


def test_repr_says_how_many() -> None:
    assert repr(made("a", "b/#")) == "<PatternSet of 2>"
