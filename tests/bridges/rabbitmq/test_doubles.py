"""What pika learned: numbers with a fraction, and times beyond the calendar."""

import struct
from datetime import UTC, datetime
from typing import Any

import pika.data
import pytest

import bridges.rabbitmq.doubles  # noqa: F401 - it is its import that counts


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
