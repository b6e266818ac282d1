"""Properties in bytes: as pika says and reads them."""

import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import BasicProperties
from pika.exceptions import AMQPError, ShortStringTooLong

from bridges.amqp.errors import NotAmqp
from bridges.amqp.tables import read_properties, said_properties

NAMES = st.text(max_size=40)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))
SINGLE = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.integers(-(1 << 31) - 1, 1 << 31)
    | st.floats(allow_nan=False)
    | st.text(max_size=300)
    | st.binary(max_size=300)
    | st.decimals(-20_000, 20_000, places=4, allow_nan=False)
    | TIMES.map(lambda time: time.replace(microsecond=0))
)
VALUES = st.recursive(
    SINGLE, lambda each: st.lists(each, max_size=3) | st.dictionaries(NAMES, each, max_size=3)
)
DEATHS = st.lists(
    st.fixed_dictionaries(
        {
            "count": st.integers(1, 9),
            "reason": st.sampled_from(["expired", "maxlen", "rejected"]),
            "queue": NAMES,
            "time": TIMES.map(lambda time: time.replace(microsecond=0)),
            "exchange": NAMES,
            "routing-keys": st.lists(NAMES, max_size=2),
        }
    ),
    max_size=2,
)
HEADERS = st.dictionaries(NAMES, VALUES, max_size=5) | st.fixed_dictionaries({"x-death": DEATHS})
SHORT = st.none() | NAMES | st.binary(max_size=40)
PROPERTIES = st.builds(
    BasicProperties,
    content_type=SHORT,
    content_encoding=SHORT,
    headers=st.none() | HEADERS,
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    correlation_id=SHORT,
    reply_to=SHORT,
    expiration=st.none() | st.integers(0, 1 << 32).map(str),
    message_id=SHORT,
    timestamp=st.none() | st.integers(0, (1 << 64) - 1),
    type=SHORT,
    user_id=SHORT,
    app_id=SHORT,
    cluster_id=SHORT,
)


def of_pika(properties: BasicProperties) -> bytes:
    return b"".join(properties.encode())


def shown(properties: BasicProperties) -> list[tuple[str, str]]:
    """The fields with the types of their values, which `==` does not tell apart."""
    return [(name, f"{type(value)} {value!r}") for name, value in vars(properties).items()]


def read(data: bytes) -> BasicProperties:
    return read_properties(b"before" + data + b"behind", 6, 6 + len(data))


@given(PROPERTIES)
def test_all_properties_are_said_and_read_as_pika_does(properties: BasicProperties) -> None:
    data = of_pika(properties)
    assert said_properties(properties) == data
    assert shown(read(data)) == shown(BasicProperties().decode(data))


@pytest.mark.parametrize(
    "field",
    [
        b"b\xff",
        b"B\xff",
        b"U\xff\xfe",
        b"u\xff\xfe",
        b"s\xff\xfe",
        b"I\xff\xff\xff\xfe",
        b"i\xff\xff\xff\xfe",
        b"L" + b"\xfe" * 8,
        b"l" + b"\xfe" * 8,
        b"f\x3f\x80\x00\x00",
        b"d" + struct.pack(">d", 0.1),
        b"D\x02\x00\x00\x00\x7b",
        b"S\x00\x00\x00\x02\xff\xfe",
        b"S\x00\x00\x00\x02\xc3\xa9",
        b"x\x00\x00\x00\x02\xc3\xa9",
        b"A\x00\x00\x00\x04t\x01t\x00",
        b"T" + b"\xff" * 8,
        b"T" + bytes(8),
        b"F\x00\x00\x00\x03\x01aV",
        b"t\x02",
        b"V",
    ],
    ids=repr,
)
def test_every_type_of_field_is_read_as_pika_does(field: bytes) -> None:
    table = b"\x01a" + field + b"\x01bt\x01"
    data = b"\x30\x00" + struct.pack(">I", len(table)) + table + b"\x02"
    assert shown(read(data)) == shown(BasicProperties().decode(data))
    assert read(data).headers["b"] is True


def test_tables_below_the_deepest_are_left_out() -> None:
    headers: dict[str, Any] = {}
    for _ in range(40):
        headers = {"a": headers}
    data = of_pika(BasicProperties(headers=headers))
    assert said_properties(BasicProperties(headers=headers)) == data
    assert shown(read(data)) == shown(BasicProperties().decode(data))


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        (BasicProperties(message_id="x" * 256), ShortStringTooLong),
        (BasicProperties(headers={"x" * 256: 1}), ShortStringTooLong),
        (BasicProperties(headers={"a": object()}), AMQPError),
        (BasicProperties(headers={"a": 1 << 63}), struct.error),
        (BasicProperties(headers={"a": Decimal("1e99")}), struct.error),
        (BasicProperties(priority=256), struct.error),
        (BasicProperties(timestamp=-1), struct.error),
        (BasicProperties(type=7), TypeError),
    ],
)
def test_what_amqp_has_no_room_for_is_not_said(properties: BasicProperties, error: type[Exception]) -> None:
    with pytest.raises(error):
        said_properties(properties)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x10\x01\x02", "flags"),
        (b"\x20\x00\x00\x00\x00\x05\x01aI\x00\x00\x00\x01", "not as long as its fields"),
        (b"\x20\x00\x00\x00\x00\x09\x01aS\x00\x00\x00\x09b", "not as long as its fields"),
        (b"\x20\x00\x00\x00\x00\x03\x01at", "not as long as its fields"),
        (b"\x80\x00\x09text", "longer than their frame"),
    ],
    ids=repr,
)
def test_what_is_not_as_long_as_it_says_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(NotAmqp, match=why):
        read(data)
