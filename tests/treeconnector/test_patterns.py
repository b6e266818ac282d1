import random
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sapwood.protocol.errors import PatternError
from treeconnector.patterns import (
    MANY,
    MAX_LENGTH,
    MAX_LEVELS,
    check_pattern,
    check_topic,
    from_amqp,
    from_mqtt,
    has_wildcard,
    matches,
    name_from_mqtt,
    name_to_mqtt,
    to_amqp,
    to_mqtt,
    topic_from_amqp,
    topic_from_mqtt,
)

PIECES = [
    "a",
    "b",
    "$",
    "/",
    ".",
    "+",
    "#",
    "*",
    "%",
    "25",
    "2F",
    "2B",
    "23",
    "2E",
    "2A",
    "%2F",
    "%252E",
    "é",
    " ",
]
TEXTS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join)
LEVELS = st.lists(st.sampled_from(["a", "b", "", "$x", "+", "#"]), min_size=1, max_size=7)


def simply_matches(pattern: list[str], topic: list[str]) -> bool:
    """The definition, word by word; exponential."""
    if not pattern:
        return not topic
    if pattern[0] == "#":
        return any(simply_matches(pattern[1:], topic[taken:]) for taken in range(len(topic) + 1))
    return bool(topic) and pattern[0] in ("+", topic[0]) and simply_matches(pattern[1:], topic[1:])


@given(TEXTS)
def test_what_amqp_wrote_comes_back_to_amqp_unchanged(text: str) -> None:
    canonical = from_amqp(text)
    assert to_amqp(canonical) == text
    assert from_amqp(to_amqp(canonical)) == canonical


@given(TEXTS)
def test_what_mqtt_wrote_comes_back_to_mqtt_unchanged_and_goes_through_amqp(text: str) -> None:
    try:
        canonical = from_mqtt(text)
    except PatternError:
        assume(False)
    assert to_mqtt(canonical) == text
    assert from_amqp(to_amqp(canonical)) == canonical


@given(TEXTS, TEXTS)
def test_different_amqp_texts_stay_different(one: str, other: str) -> None:
    assert (from_amqp(one) == from_amqp(other)) == (one == other)


@given(TEXTS)
def test_topic_names_come_back_as_well(text: str) -> None:
    try:
        canonical = topic_from_amqp(text)
    except PatternError:
        assert {"*", "#"} & set(text.split("."))
        return
    assert to_amqp(canonical) == text
    assert topic_from_mqtt(canonical) == canonical


@pytest.mark.parametrize(
    ("amqp", "canonical"),
    [
        ("prices.uk.*", "prices/uk/+"),
        ("prices.#", "prices/#"),
        ("#.error.#", "#/error/#"),
        ("price.1/2", "price/1%2F2"),
        ("c#.c+", "c%23/c%2B"),
        ("+", "%2B"),
        ("%2A", "*"),
        ("%23", "%23"),
        ("v1%2E2.x", "v1.2/x"),
        ("v1%252E2", "v1%2E2"),
        ("100%.a", "100%/a"),
        ("a/%2Fb", "a%2F%252Fb"),
        ("a..b", "a//b"),
        (".", "/"),
        ("a*b", "a*b"),
    ],
)
def test_spellings(amqp: str, canonical: str) -> None:
    assert from_amqp(amqp) == canonical
    assert to_amqp(canonical) == amqp


@given(LEVELS, LEVELS)
def test_matches_is_the_definition(pattern: list[str], topic: list[str]) -> None:
    topic = [level for level in topic if level not in ("+", "#")]
    assume("/".join(topic) and "/".join(pattern))
    forbidden = topic[0].startswith("$") and pattern[0] in ("+", "#")
    assert matches("/".join(pattern), "/".join(topic)) == (simply_matches(pattern, topic) and not forbidden)


@given(LEVELS, LEVELS)
def test_widening_for_mqtt_matches_more_and_never_less(levels: list[str], topic: list[str]) -> None:
    pattern, name = "/".join(levels), "/".join(level for level in topic if level not in ("+", "#"))
    assume(pattern and name)
    widened = to_mqtt(pattern)
    assert from_mqtt(widened) == widened
    assert (MANY not in pattern[:-1]) == (widened == pattern)
    assert matches(widened, name) >= matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "topic", "expected"),
    [
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/+", "a", False),
        ("a/+", "a/", True),
        ("+", "/", False),
        ("+/+", "/", True),
        ("#", "$SYS/broker", False),
        ("+/broker", "$SYS/broker", False),
        ("$SYS/#", "$SYS/broker", True),
        ("a/+", "a/$b", True),
        ("#/b", "b", True),
        ("a/#/b", "a/b", True),
        ("a/#/b", "a/x/b/y", False),
        ("a/#/b/#", "a/x/b/y", True),
    ],
)
def test_examples(pattern: str, topic: str, expected: bool) -> None:
    assert matches(pattern, topic) is expected


def test_many_wildcards_do_not_take_exponential_time() -> None:
    assert not matches("/".join(["#", "a"] * 40 + ["b"]), "/".join(["a"] * 120))


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (check_pattern, "", "expected 1 to 4096"),
        (check_pattern, "x" * (MAX_LENGTH + 1), "a pattern of 4097 characters: expected 1 to 4096"),
        (check_pattern, "/" * MAX_LEVELS, "a pattern of 129 levels: expected 128 at most"),
        (check_pattern, "a/b+", "expected '+' and '#' to be whole levels, not part of 'b+'"),
        (check_pattern, "a\0", "expected no NUL"),
        (check_pattern, "é\0", "expected text without NUL"),
        (check_pattern, "\ud800", "lone surrogates"),
        (check_topic, "a/+", "expected no wildcard"),
        (from_mqtt, "a/#/b", "expected '#' as the last level only"),
        (topic_from_mqtt, "#", "'#' is no topic"),
        (from_amqp, "", "expected at least one character"),
        (topic_from_amqp, "a.*", "expected no wildcard"),
        (to_amqp, "x" * 256, "expected 255 at most"),
        (to_amqp, "é" * 128, "256 bytes as a routing key"),
    ],
)
def test_errors_say_what_is_expected(read, text: str, expected: str) -> None:
    with pytest.raises(PatternError, match=re.escape(expected)):
        read(text)


def test_the_limits_themselves_are_allowed() -> None:
    assert check_pattern("x" * MAX_LENGTH)
    assert check_topic("/" * (MAX_LEVELS - 1))
    assert check_pattern("a/b", length=3, levels=2) == "a/b"
    assert to_amqp("é" * 127) == "é" * 127


def test_has_wildcard() -> None:
    rng = random.Random(1)
    for _ in range(50):
        levels = [rng.choice(["a", "c%23", "%2B", "*", "+", "#"]) for _ in range(3)]
        assert has_wildcard("/".join(levels)) == bool({"+", "#"} & set(levels))


@given(TEXTS)
def test_a_queues_name_in_an_mqtt_topic_holds_no_wildcard_and_reads_back(name: str) -> None:
    spelled = name_to_mqtt(name)
    assert not has_wildcard(spelled)
    assert name_from_mqtt(spelled) == name
