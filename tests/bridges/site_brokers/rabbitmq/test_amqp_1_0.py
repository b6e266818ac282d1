"""Messages of AMQP 1.0 as RabbitMQ 4.0.5 hands those of qpid-proton to an application of AMQP 0-9-1."""

import pika
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.site_brokers.rabbitmq.amqp_1_0 import TYPE, plain

PROPERTIES = b"\x00Ss\xc0\x16\r@@@@\xa1\x07answers@@@@@@@@"
APPLICATION = b"\x00St\xc1\x06\x02\xa1\x01aU\x02"


@pytest.mark.parametrize(
    ("body", "payload", "content_type"),
    [
        (b"\x00Sw\xa0\x05topic", b"topic", None),
        (b"\x00Sw\xa1\x09text body", b"text body", "text/plain"),
        (b"\x00Sw\xb0\x00\x00\x01\x00" + b"x" * 256, b"x" * 256, None),
        (b"\x00Sw\xb1\x00\x00\x00\x02\xc3\x9f", b"\xc3\x9f", "text/plain"),
        (b"\x00\x80\x00\x00\x00\x00\x00\x00\x00w\xa0\x01x", b"x", None),
        (b"\x00Sw\xa1\x00", b"", "text/plain"),
    ],
)
def test_a_text_or_bytes_become_the_payload(body: bytes, payload: bytes, content_type: str | None) -> None:
    said, found = plain(pika.BasicProperties(type=TYPE, message_id="m1", priority=3), body)
    assert found == payload
    assert (said.type, said.content_type, said.message_id, said.priority) == (None, content_type, "m1", 3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00Sw",
        b"\x00Sw\xa1",
        b"\x00Sw\xa1\x09short",
        b"\x00Sw\xa1\x01long",
        b"\x00Sw\xb1\x00\x00",
        b"\x00Sw\x54\x07",
        b"\x00Sw\xc0\x03\x01\xa1\x00",
        b"\x00Su\xa0\x01x",
        b"plain",
    ],
)
def test_every_other_value_goes_on_as_it_came(body: bytes) -> None:
    given = pika.BasicProperties(type=TYPE, headers={"x-amqp-1.0-properties": PROPERTIES})
    assert plain(given, body) == (given, body)


def test_no_other_message_is_looked_into() -> None:
    given = pika.BasicProperties(type="order")
    assert plain(given, b"\x00Sw\xa0\x05topic") == (given, b"\x00Sw\xa0\x05topic")


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_left(data: bytes) -> None:
    _, found = plain(pika.BasicProperties(type=TYPE), b"\x00Sw" + data)
    assert found in (b"\x00Sw" + data, data[2:], data[5:])


def test_sections_in_headers_go_where_plain_ones_say_the_same() -> None:
    """RabbitMQ 3 has no plain ones, and says an application's properties in the section alone."""
    sections = {"x-amqp-1.0-properties": PROPERTIES, "x-amqp-1.0-app-properties": APPLICATION}
    newer, _ = plain(pika.BasicProperties(type=TYPE, headers={"a": 2, **sections}), b"\x00Sw\xa0\x01x")
    assert newer.headers == {"a": 2}
    older, _ = plain(pika.BasicProperties(type=TYPE, headers=sections), b"\x00Sw\xa0\x01x")
    assert older.headers == {"x-amqp-1.0-app-properties": APPLICATION}
