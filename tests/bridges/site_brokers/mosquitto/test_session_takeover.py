"""What a node leaves at its broker for the machine that takes its place; whatever stands there is read."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.site_brokers.mosquitto.session_takeover import read, written

NAMES = st.sampled_from(["#", "a", "a/+/b", "queue/orders", "node/+/#", "käse/#", "/"])
FILTERS = st.dictionaries(NAMES, st.integers(1, (1 << 28) - 1), max_size=20)


@given(FILTERS)
def test_what_was_written_is_read(filters: dict[str, int]) -> None:
    assert read(written(filters)) == filters


@given(st.binary(max_size=200))
def test_bytes_of_anybody_are_nothing(payload: bytes) -> None:
    assert read(payload) == {}


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, "7", '"a"', '{"a": 0, "b": "1", "c": true, "d": 1e9}'])
def test_what_is_not_as_we_write_it_is_nothing(text: str) -> None:
    assert read(zlib.compress(text.encode())) == {}


def test_what_is_good_of_it_is_taken() -> None:
    assert read(zlib.compress(json.dumps({"a": 3, "b": -1, "c": None}).encode())) == {"a": 3}


@pytest.mark.parametrize("text", ["", "a#", "#/a", "a\x01b", "a\0b", "\ud800", "x" * 70_000])
def test_no_filter_upon_which_the_broker_would_end_the_connection_is_taken_from_anybody(text: str) -> None:
    assert read(zlib.compress(json.dumps({text: 1, "a": 2}).encode())) == {"a": 2}
