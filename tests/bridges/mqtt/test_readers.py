"""Packets that come in a row are read together, and are the same as if each had come alone."""

from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from one_by_one import one_by_one

from bridges.mqtt import packets, readers
from bridges.mqtt.fields import PacketError
from bridges.mqtt.packets import Publish
from bridges.mqtt.readers import Acknowledged, Alike, PacketReader, ServerReader

_ROW = b"\x32\x07\x00\x01t\x00\x05hi"
_OTHER_TOPIC = b"\x32\x07\x00\x01u\x00\x06hi"
_LONG = packets.publish(b"t", b"x" * 300, 1, 7, retain=False, again=False)
_LARGE = packets.publish(b"t", b"x" * 20_000, 1, 8, retain=False, again=False)
_PIECES = [
    _ROW,
    _OTHER_TOPIC,
    _LONG,
    packets.publish(b"t", b"x" * 500, 1, 9, retain=False, again=False),  # longer than is taken
    _LARGE,
    _ROW.replace(b"\x05", b"\x00"),  # the identifier is 0
    b"\x32\x04\x00\x01t\x00",  # it ends in its identifier
    b"\x32\x02\x00\x01",  # it ends in its topic
    b"\x32\x87\x80\x00\x00\x01t\x00\x05hi",  # its length is longer than it need be
    b"\x3a" + _ROW[1:],
    b"\x33" + _ROW[1:],
    b"\x34" + _ROW[1:],
    b"\x30\x05\x00\x01thi",
    b"\x30\x03\x00\x01t",
    b"\x30\x03\x00\x02t",  # it ends in its topic
    b"\x30\x04\x00\x00hi",
    b"\x32\x08\x00\x01t\x00\x05\x00hi",  # 5, without properties
    b"\x32\x08\x00\x01t\x01\x00\x00hi",
    b"\x32\x0a\x00\x01t\x00\x05\x02\x01\x01hi",  # 5, with one
    b"\x32\x0a\x00\x01t\x00\x06\x02\x0b\x05hi",  # 5, as a server says of which filter it is
    b"\x32\x0a\x00\x01t\x00\x06\x02\x0b\x06hi",
    b"\x32\x1d\x00\x01t\x00\x06\x15\x26\x00\x02ab\x00\x0ecdefghijklmnophi",  # 5, with a long one
    b"\x40\x02\x00\x05",
    b"\x40\x02\x01\x02",
    b"\x40\x02\x00\x00",
    b"\x40\x03\x00\x05\x10",
    b"\x50\x02\x00\x05",
    b"\xc0\x00",
]


def read(stream: bytes, level: int, part: int = 1 << 20, *, of_server: bool) -> tuple[list[Any], str]:
    """Packet by packet, whatever came in a row, and why no more was read."""
    reader, found = ServerReader(400, level) if of_server else PacketReader(400), list[Any]()
    reader.level, reader.cuts = level, level == 4 and not of_server
    try:
        for start in range(0, len(stream), part):
            for packet in one_by_one(reader, stream[start : start + part]):
                found.append(packet)
    except PacketError as error:
        return found, str(error)
    return found, ""


@pytest.mark.parametrize("of_server", [False, True])
@pytest.mark.parametrize("level", [4, 5])
def test_packets_in_a_row_are_the_same_as_each_alone(level: int, of_server: bool) -> None:
    """Byte by byte no row ever stands there."""
    for first, other in product(_PIECES, repeat=2):
        stream = first + other + other + first
        assert read(stream, level, of_server=of_server) == read(stream, level, 1, of_server=of_server)


@given(
    st.lists(st.sampled_from(_PIECES), max_size=20).map(b"".join),
    st.sampled_from([4, 5]),
    st.integers(1, 99),
    st.booleans(),
)
@example(_ROW * 200, 4, 1 << 20, False)
@example(_LONG * 300, 4, 1 << 20, False)
def test_it_does_not_matter_how_a_row_comes(stream: bytes, level: int, part: int, of_server: bool) -> None:
    assert read(stream, level, part, of_server=of_server) == read(stream, level, 1, of_server=of_server)


def test_a_row_is_read_together_and_is_short() -> None:
    rows = [
        len(packet.publishes) if isinstance(packet, Alike) else 1
        for packet in PacketReader(1000).feed(_ROW * 100)
    ]
    assert rows == [1, readers.MOST, 1, 100 - readers.MOST - 2]
    of_5 = PacketReader(1000)
    of_5.level = 5
    assert [type(packet) for packet in of_5.feed(b"\x32\x06\x00\x01t\x00\x05\x00" * 9)] == [Publish, Alike]
    acks = [packets.answer(packets.PUBACK, number) for number in range(1, 101)]
    assert list(PacketReader(1000).feed(b"".join(acks))) == [
        Acknowledged(tuple(range(1, readers.MOST + 1))),
        Acknowledged(tuple(range(readers.MOST + 1, 101))),
    ]


def test_what_a_server_says_is_read_in_rows_with_the_properties_that_are_the_same() -> None:
    row = [b"\x32\x0a\x00\x01t\x00" + bytes((number,)) + b"\x02\x0b\x05hi" for number in range(1, 10)]
    first, others = ServerReader(1000, 5).feed(b"".join(row))
    assert isinstance(first, Publish)
    assert isinstance(others, Alike)
    assert [each.packet_id for each in others.publishes] == [*range(2, 10)]
    assert all(each.properties == first.properties for each in others.publishes)


def test_a_row_is_acknowledged_as_each_alone() -> None:
    numbers = [1, 255, 256, 65_535]
    assert packets.acknowledged(numbers) == b"".join(
        packets.answer(packets.PUBACK, number) for number in numbers
    )


def test_a_row_is_written_as_each_packet_alone() -> None:
    payloads, numbers = [b"", b"one", b"two", b"x" * 200, b"y" * 20_000], range(65_531, 65_536)
    for said, retain, again in (
        (b"", False, False),
        (b"\x03\x23\x00\x01", True, False),
        (b"\x00", False, True),
    ):
        alone = [
            packets.publish(b"t/u", payload, 1, number, retain=retain, again=again, said=said)
            for payload, number in zip(payloads, numbers, strict=True)
        ]
        row = packets.publish_row(b"t/u", payloads, numbers, retain=retain, again=again, said=said)
        assert row == b"".join(alone)
