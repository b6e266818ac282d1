"""Frames of messages, byte by byte as pika has them, and bytes that are no AMQP."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pika import BasicProperties, spec
from pika.frame import Body, Header, Heartbeat, Method, decode_frame

from bridges.amqp import frames
from bridges.amqp.errors import NotAmqp
from bridges.amqp.frames import Confirmed, ContentReader, Delivered, Incoming
from bridges.amqp.tables import said_properties

LARGEST = 4096
PLAIN = BasicProperties(delivery_mode=2)
TOLD = BasicProperties(headers={"a": 1, "b": "two"}, message_id="m")
Found = Delivered | Confirmed | bytes


def delivery(
    channel: int, tag: int, body: bytes, properties: BasicProperties = PLAIN, most: int = 4088
) -> bytes:
    return b"".join(
        [
            Method(channel, spec.Basic.Deliver("reader", tag, True, "prices", "a.b")).marshal(),
            Header(channel, len(body), properties).marshal(),
            *(Body(channel, body[at : at + most]).marshal() for at in range(0, len(body), most)),
        ]
    )


def delivered(channel: int, tag: int, body: bytes, properties: BasicProperties = PLAIN) -> Delivered:
    return Delivered(channel, "reader", Incoming(tag, "prices", "a.b", True, properties, body))


def read(*chunks: bytes) -> list[Found]:
    reader = ContentReader(LARGEST)
    return [found for chunk in chunks for found in reader.feed(chunk)]


OTHER = (
    Method(1, spec.Basic.CancelOk("reader")).marshal(),
    Heartbeat().marshal(),
    Method(2, spec.Basic.Return(312, "NO_ROUTE", "", "nobody")).marshal(),
    Header(2, 1, PLAIN).marshal(),
    Body(2, b"r").marshal(),
)
TALK = b"".join(
    [
        delivery(1, 1, b"one"),
        delivery(1, 2, b"", TOLD),
        *OTHER[:2],
        Method(3, spec.Basic.Ack(7, True)).marshal(),
        Method(3, spec.Basic.Nack(8, False)).marshal(),
        *OTHER[2:],
        delivery(65_535, 1 << 63, bytes(10_000)),
    ]
)
SAID: list[Found] = [
    delivered(1, 1, b"one"),
    delivered(1, 2, b"", TOLD),
    *OTHER[:2],
    Confirmed(3, 7, True, True),
    Confirmed(3, 8, False, False),
    *OTHER[2:],
    delivered(65_535, 1 << 63, bytes(10_000)),
]


def test_messages_confirms_and_other_frames_are_read_in_their_order() -> None:
    assert read(TALK) == SAID


@given(st.lists(st.integers(0, len(TALK)), max_size=30))
def test_it_does_not_matter_where_what_comes_is_cut(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(TALK)]
    assert read(*(TALK[at:end] for at, end in pairwise(ends))) == SAID


def test_it_may_come_byte_by_byte() -> None:
    assert read(*(TALK[at : at + 1] for at in range(len(TALK)))) == SAID


def test_bodies_of_two_channels_may_come_between_one_another() -> None:
    one, two = delivery(1, 1, b"abcd", most=2), delivery(2, 1, b"efgh", most=2)
    cut = len(Body(1, b"cd").marshal())
    assert read(one[:-cut] + two + one[-cut:]) == [delivered(2, 1, b"efgh"), delivered(1, 1, b"abcd")]


def test_the_same_properties_are_read_once() -> None:
    first, second, third = read(
        delivery(1, 1, b"a", TOLD) + delivery(1, 2, b"b", TOLD) + delivery(1, 3, b"c")
    )
    assert isinstance(first, Delivered)
    assert isinstance(second, Delivered)
    assert isinstance(third, Delivered)
    assert first.message.properties is second.message.properties
    assert third.message.properties == PLAIN


def test_names_that_are_no_utf_8_stay_bytes() -> None:
    odd = delivery(1, 1, b"x").replace(b"a.b", b"a\xff\xfe")
    (found,) = read(odd)
    assert isinstance(found, Delivered)
    assert found.message[2] == b"a\xff\xfe"


METHOD = Method(1, spec.Basic.Deliver("reader", 1, False, "", "k")).marshal()
HEADER = Header(1, 2, PLAIN).marshal()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (METHOD[:-1] + b"\0", "without its end"),
        (METHOD[:3] + b"\0\0\xff\xff", "were agreed"),
        (METHOD[:3] + b"\xff\xff\xff\xff", "were agreed"),
        (HEADER[:3] + b"\xff\xff\xff\xff", "were agreed"),
        (METHOD + METHOD, "in the middle of a message"),
        (METHOD + Method(1, spec.Basic.Ack(1)).marshal(), "in the middle of a message"),
        (METHOD + HEADER + HEADER, "belongs to no message"),
        (METHOD + HEADER[:8] + b"\x3d" + HEADER[9:], "belongs to no message"),
        (METHOD + Header(1, frames.LARGEST + 1, PLAIN).marshal(), "a message of"),
        (METHOD + Body(1, b"ab").marshal(), "more bytes than its header said"),
        (METHOD + HEADER + Body(1, b"abc").marshal(), "more bytes than its header said"),
        (METHOD + HEADER + Body(1, b"a").marshal() + Body(1, b"bc").marshal(), "more bytes than"),
        (METHOD[:6] + bytes([METHOD[6] - 1]) + METHOD[7:-2] + b"\xce", "not as long as its fields"),
        (METHOD[:6] + bytes([METHOD[6] + 1]) + METHOD[7:-1] + b"k\xce", "not as long as its fields"),
        (b"\x01\x00\x01\x00\x00\x00\x05\x00\x3c\x00\x3c\xff\xce", "middle of a field"),
        (b"\x01\x00\x01\x00\x00\x00\x02\x00\x3c\xce", "middle of a field"),
        (b"\x01\x00\x01\x00\x00\x00\x05\x00\x3c\x00\x50\x01\xce", "a confirm that is not as long"),
        (METHOD + b"\x02\x00\x01\x00\x00\x00\x02\x00\x3c\xce", "middle of a field"),
        (METHOD + Header(1, 2, TOLD).marshal().replace(b"\x01aI", b"\x01aZ"), "cannot be read"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_no_amqp_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(NotAmqp, match=why):
        read(data)


def test_properties_larger_than_a_frame_are_read() -> None:
    large = BasicProperties(headers={"a": "x" * 100_000})
    assert read(delivery(1, 1, b"x", large)) == [delivered(1, 1, b"x", large)]


@given(
    st.integers(1, 65_535),
    st.text(max_size=60),
    st.text(max_size=60),
    st.binary(max_size=300),
    st.booleans(),
    st.integers(9, 200),
)
def test_a_message_is_said_as_pika_says_it(
    channel: int, exchange: str, key: str, body: bytes, mandatory: bool, largest: int
) -> None:
    most = largest - 8
    said = b"".join(
        [
            Method(channel, spec.Basic.Publish(0, exchange, key, mandatory)).marshal(),
            Header(channel, len(body), TOLD).marshal(),
            *(Body(channel, body[at : at + most]).marshal() for at in range(0, len(body), most)),
        ]
    )
    assert frames.publish(channel, exchange, key, said_properties(TOLD), body, mandatory, largest) == said


@pytest.mark.parametrize("multiple", [False, True])
def test_an_acknowledgement_is_said_as_pika_says_it(multiple: bool) -> None:
    assert frames.ack(7, 1 << 40, multiple) == Method(7, spec.Basic.Ack(1 << 40, multiple)).marshal()


def test_other_frames_are_as_pika_reads_them() -> None:
    assert [decode_frame(frame)[0] for frame in OTHER] == [len(frame) for frame in OTHER]
