"""What pika learned: numbers with a fraction, and times beyond the calendar."""

import struct
from datetime import UTC, datetime
from typing import Any

import pika.data
import pytest

from sapwood.protocol.bundles import DEEPEST


def there_and_back(value: Any) -> Any:
    pieces: list[bytes] = []
    pika.data.encode_table(pieces, {"a": value})
    return pika.data.decode_table(b"".join(pieces), 0)[0]["a"]


@pytest.mark.parametrize("value", [0.5, -1e300, 7, "x", b"\x00", True, None, [1.5, {"b": 2.5}], -(2**40)])
def test_values_come_back_as_they_were(value: Any) -> None:
    assert there_and_back(value) == value


def test_a_single_is_read() -> None:
    assert pika.data.decode_value(b"f" + struct.pack(">f", 0.5), 0) == (0.5, 5)


def test_a_time_of_the_calendar_is_one() -> None:
    found = there_and_back(datetime(2026, 1, 2, tzinfo=UTC))
    assert found.replace(tzinfo=UTC) == datetime(2026, 1, 2, tzinfo=UTC)


def test_another_time_is_a_number() -> None:
    assert pika.data.decode_value(b"T" + struct.pack(">Q", 2**60), 0) == (2**60, 9)


def nested(levels: int, kind: bytes = b"A") -> bytes:
    """A list in a list in a list; or tables, each under the name `a`."""
    value = b"t\x01"
    for _ in range(levels):
        inner = value if kind == b"A" else b"\x01a" + value
        value = kind + struct.pack(">I", len(inner)) + inner
    return value


@pytest.mark.parametrize("kind", [b"A", b"F"])
def test_what_lies_too_deep_is_left_out_and_the_rest_is_read(kind: bytes) -> None:
    deep, level = nested(5000, kind) + b"t\x01", 0
    found, end = pika.data.decode_value(deep, 0)
    while found:
        found, level = (found[0] if kind == b"A" else found["a"]), level + 1
    assert (found, level) == (None, DEEPEST)
    assert pika.data.decode_value(deep, end) == (True, len(deep))
    shallow = pika.data.decode_value(nested(DEEPEST, kind), 0)[0]
    while isinstance(shallow, (list, dict)):
        shallow = shallow[0] if kind == b"A" else shallow["a"]
    assert shallow is True
