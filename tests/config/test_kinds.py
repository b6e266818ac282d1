import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.kinds import Boolean, Choice, Duration, Fault, FilePath, Share, Size, Text, Whole, shown
from config.values import NAME


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10.0),
        ("500ms", 0.5),
        ("7d", 604_800.0),
        ("2h30m", 9000.0),
        ("1w1d1h1m1s1ms", 694_861.001),
        ("1.5h", 5400.0),
        ("10", 10.0),
        ("0.25", 0.25),
        ("0", 0.0),
    ],
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    assert Duration().parse(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "-1", "1x", "s", "1 s", "1m1h", "1s1s", "0.0001", "0.5ms", "4000d", "1e3", "٣s", "1s\n"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(Fault):
        Duration().parse(text)


@given(st.integers(0, 10**11))
def test_a_duration_is_read_back_as_it_was_written(milliseconds: int) -> None:
    assert Duration().parse(Duration().text(milliseconds / 1000)) == milliseconds / 1000


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64KiB", 65_536),
        ("10MB", 10_000_000),
        ("4096", 4096),
        ("1B", 1),
        ("2GiB", 2**31),
        ("1TB", 10**12),
        ("0", 0),
    ],
)
def test_a_size_is_bytes(text: str, size: int) -> None:
    assert Size().parse(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5MiB", "1 KiB", "1kb", "KiB", "9007199254740993", "1iB", "1K"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Fault):
        Size().parse(text)


@given(st.integers(0, 2**53 - 1))
def test_a_size_is_read_back_as_it_was_written(size: int) -> None:
    assert Size().parse(Size().text(size)) == size


def test_bounds_are_allowed_and_what_lies_beyond_is_not() -> None:
    assert [Whole(1, 3).parse(text) for text in "13"] == [1, 3]
    for text in ("0", "4", "01", "+1", "1.0", "٣", "9" * 5000):
        with pytest.raises(Fault, match="a whole number from 1 to 3"):
            Whole(1, 3).parse(text)


def test_a_choice_gives_the_hint_for_a_known_mistake() -> None:
    kind = Choice(("a", "b", "c"), {"d": "take c"})
    assert kind.expected == "a, b or c"
    with pytest.raises(Fault, match="expected a, b or c, found 'd'; take c"):
        kind.parse("d")


def test_text_that_xml_cannot_carry_is_refused() -> None:
    for text in ("a\x00", "\x85", "\ud800", "\ufeff", "a\u2028"):
        with pytest.raises(Fault):
            FilePath().parse(text)
        with pytest.raises(Fault):
            Text("anything", "[^q]*").parse(text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Whole(1, 3), 4),
        (Whole(1, 3), "x"),
        (Duration(), -1.0),
        (Duration(), 1e-5),
        (Duration(), None),
        (Duration(), float("nan")),
        (Boolean(), "true"),
        (FilePath(), "text"),
        (Choice(("a",)), "b"),
        (Size(), 1.5),
    ],
)
def test_a_value_made_by_a_program_is_checked_alike(kind: object, value: object) -> None:
    assert kind.check(value)  # type: ignore[attr-defined]


def test_a_password_in_a_uri_is_never_shown() -> None:
    assert "hunter2" not in shown("amqp://guest:hunter2@host")
    assert "hunter2" not in shown("amqp://guest:" + "hunter2" * 20 + "@host")
    assert len(shown("x" * 1000)) < 70


@given(st.integers(0, 1000))
def test_a_share_is_read_back_as_it_was_written(thousandths: int) -> None:
    share = thousandths / 1000
    assert Share().parse(Share().text(share)) == share
    assert Share().native(share) == share


@pytest.mark.parametrize("text", ["", "-0.1", "1.001", "2", ".5", "0.0001", "1e-2", "50%", "٠", "0.5\n"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(Fault):
        Share().parse(text)


@pytest.mark.parametrize("text", ["local", "LOCAL", "Local", "lOcAl"])
def test_no_node_is_called_local_in_whatever_case(text: str) -> None:
    with pytest.raises(Fault, match="not 'local'"):
        NAME.parse(text)
    assert NAME.parse(f"{text}-1") == f"{text}-1"
    assert re.search(NAME.json()["not"]["pattern"], text)
    assert not re.search(NAME.json()["not"]["pattern"], f"{text}-1")
