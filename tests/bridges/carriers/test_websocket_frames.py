"""Frames of a WebSocket: read however the line cuts them, written so that others read them."""

import os
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Opcode
from websockets.frames import Frame as Other
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from bridges.carriers.websocket_frames import AT_ONCE, PLAIN, FrameReader, Heard, frame
from sapwood.protocol.packets import Bytes

MOST = 400_000
MASK = b"\x01\xa0\xff\x37"
MASKS = [b"", PLAIN, MASK]
SIZES = st.sampled_from([0, 1, 125, 126, 65_535, 65_536, 300_000])
PACKETS = st.lists(st.builds(lambda size, fill: bytes([fill]) * size, SIZES, st.integers(0, 255)), max_size=6)
CUTS = st.lists(st.integers(3000, 90_000), min_size=1, max_size=5)


def filled(reader: FrameReader, line: bytes, cuts: list[int]) -> list[Heard]:
    """As a line that brings so many bytes at a time fills the reader's buffers."""
    found: list[Heard] = []
    at = turn = 0
    while at < len(line):
        buffer = reader.buffer()
        size = min(len(buffer), cuts[turn % len(cuts)], len(line) - at)
        buffer[:size] = line[at : at + size]
        found += reader.filled(size)
        at, turn = at + size, turn + 1
    return found


def fed(reader: FrameReader, line: bytes, cuts: list[int]) -> Iterator[Heard]:
    at = turn = 0
    while at < len(line):
        step = cuts[turn % len(cuts)]
        yield from reader.feed(line[at : at + step])
        at, turn = at + step, turn + 1


@given(PACKETS, CUTS, st.sampled_from(MASKS))
def test_messages_come_out_whole_however_the_line_cuts_them(
    packets: list[bytes], cuts: list[int], mask: bytes
) -> None:
    line = b"".join(part for each in packets for part in frame(Opcode.BINARY, [each[:99], each[99:]], mask))
    masked = bool(mask)
    expected = [Heard(Opcode.BINARY, each) for each in packets]
    assert filled(FrameReader(MOST, masked=masked), line, cuts) == expected
    assert list(fed(FrameReader(MOST, masked=masked), line, cuts)) == expected


def test_who_was_fed_first_goes_on_where_that_ended() -> None:
    line = b"".join(frame(Opcode.BINARY, [b"a" * 50_000], MASK)) * 2
    reader = FrameReader(MOST, masked=True)
    found = [*reader.feed(line[:20_000]), *filled(reader, line[20_000:], [7000])]
    assert found == [Heard(Opcode.BINARY, b"a" * 50_000)] * 2


@pytest.mark.parametrize("mask", MASKS)
def test_another_implementation_reads_what_is_written(mask: bytes) -> None:
    other = (
        ServerProtocol(state=State.OPEN) if mask else ClientProtocol(parse_uri("ws://a/"), state=State.OPEN)
    )
    for size in (0, 125, 126, 65_536):
        for part in frame(Opcode.BINARY, [b"x" * size, b"yz", b"!" * 3], mask):
            other.receive_data(bytes(part))
        (event,) = other.events_received()
        assert event == Other(Opcode.BINARY, b"x" * size + b"yz!!!")


@pytest.mark.parametrize("mask", [b"", PLAIN])
def test_what_no_mask_changes_is_not_copied(mask: bytes) -> None:
    data = memoryview(b"x" * 5000)
    assert frame(Opcode.BINARY, [data], mask)[1] is data


def test_a_long_frame_is_read_to_where_it_belongs() -> None:
    reader = FrameReader(MOST, masked=False)
    head, body = frame(Opcode.BINARY, [bytes(300_000)], b"")
    assert filled(reader, bytes(head) + bytes(10_000), [1 << 20]) == []
    assert len(reader.buffer()) == 290_000
    (message,) = filled(reader, bytes(body)[10_000:], [1 << 20])
    assert message.data == body


def test_it_says_how_much_a_frame_lacks_unless_that_is_very_long() -> None:
    for size, lacks in ((60_000, 59_000), (300_000, 0)):
        reader = FrameReader(MOST, masked=False)
        head, body = frame(Opcode.BINARY, [bytes(size)], b"")
        assert reader.lacks == 0
        filled(reader, bytes(head) + bytes(1000), [1 << 20])
        assert reader.lacks == lacks
        assert len(filled(reader, bytes(body)[1000:], [1 << 20])) == 1
        assert reader.lacks == 0


SMALL = {"pings": b"\x89\0", "empty messages": b"\x82\0", "parts of one message": b"\x00\x01a"}


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("give", [filled, fed])
def test_of_very_many_small_frames_so_many_are_read_at_one_go(
    kind: str, give: Callable[[FrameReader, bytes, list[int]], Iterable[Heard]]
) -> None:
    count, last = 2 * AT_ONCE + 7, b"".join(frame(Opcode.BINARY, [b"last" * 30_000], b""))
    begin, end = (b"\x02\x01a", b"\x80\0") if kind == "parts of one message" else (b"", b"")
    reader, first = FrameReader(MOST, masked=False), begin + SMALL[kind] * count + end
    found = [*give(reader, first + last[:100_000], [1 << 20])]
    assert len(found) <= AT_ONCE
    for _ in range(2):
        assert reader.is_behind
        found += reader.go_on()
    assert not reader.is_behind
    found += give(reader, last[100_000:], [1 << 20])
    assert found.pop() == Heard(Opcode.BINARY, b"last" * 30_000)
    if begin:
        assert found == [Heard(Opcode.BINARY, b"a" * (count + 1))]
    else:
        assert len(found) == count


def test_no_more_is_set_aside_for_a_frame_than_twice_what_has_come_of_it() -> None:
    reader = FrameReader(16 << 20, masked=False)
    head, body = frame(Opcode.BINARY, [bytes(16 << 20)], b"")
    filled(reader, bytes(head), [1 << 20])
    assert len(reader.buffer()) == 512 * 1024
    assert filled(reader, bytes(body)[: 600 * 1024], [1 << 20]) == []
    assert len(reader.buffer()) == (1024 - 600) * 1024
    (message,) = filled(reader, bytes(body)[600 * 1024 :], [1 << 20])
    assert message.data == body


def test_a_long_frame_is_read_to_where_one_was_that_nobody_sees_any_more() -> None:
    def read(fill: bytes) -> Bytes:
        parts = frame(Opcode.BINARY, [fill * 300_000], b"")
        (message,) = filled(FrameReader(MOST, masked=False), b"".join(parts), [1 << 20])
        return message.data

    first, second = read(b"a"), read(b"b")
    assert isinstance(first, memoryview)
    assert isinstance(second, memoryview)
    assert first.obj is not second.obj
    room = id(first.obj)
    del first
    third = read(b"c")
    assert isinstance(third, memoryview)
    assert id(third.obj) == room
    assert (second, third) == (b"b" * 300_000, b"c" * 300_000)


def test_nothing_is_kept_when_the_connection_has_gone() -> None:
    reader = FrameReader(MOST, masked=False)
    filled(reader, b"\x82\x7f" + (300_000).to_bytes(8, "big") + bytes(200_000), [1 << 20])
    reader.forget()
    assert len(reader.buffer()) <= 256 * 1024
    assert reader.feed(b"\x82\x01a") == [Heard(Opcode.BINARY, b"a")]


WRONG = {
    "masked by a server": (frame(Opcode.BINARY, [b"a"], MASK), CloseCode.PROTOCOL_ERROR),
    "reserved bits": ([b"\xc2\x01a"], CloseCode.PROTOCOL_ERROR),
    "an opcode that is none": ([b"\x83\x01a"], CloseCode.PROTOCOL_ERROR),
    "a long ping": ([b"\x89\x7e\x00\x7e"], CloseCode.PROTOCOL_ERROR),
    "a ping in parts": ([b"\x09\x01a"], CloseCode.PROTOCOL_ERROR),
    "a part of nothing": ([b"\x80\x01a"], CloseCode.PROTOCOL_ERROR),
    "another message between parts": ([b"\x02\x01a\x82\x01b"], CloseCode.PROTOCOL_ERROR),
    "too large": ([b"\x82\x7f" + (MOST + 1).to_bytes(8, "big")], CloseCode.MESSAGE_TOO_BIG),
    "too large with its parts": (
        [b"\x02\x01a\x80\x7f" + MOST.to_bytes(8, "big")],
        CloseCode.MESSAGE_TOO_BIG,
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("step", [1, 1 << 20])
def test_what_breaks_the_rules_is_known_by_its_head_after_all_before_it(wrong: str, step: int) -> None:
    parts, code = WRONG[wrong]
    reader = FrameReader(MOST, masked=False)
    good = b"".join(frame(Opcode.BINARY, [b"good"], b""))
    assert filled(reader, good + b"".join(parts) + good, [step]) == [Heard(Opcode.BINARY, b"good")]
    assert reader.fault is not None
    assert reader.fault.code == code
    assert reader.feed(good) == []


def test_a_message_in_parts_is_one_and_a_ping_may_come_between() -> None:
    reader = FrameReader(MOST, masked=False)
    assert reader.feed(b"\x02\x01a\x89\x01p\x00\x01b\x80\x01c") == [
        Heard(Opcode.PING, b"p"),
        Heard(Opcode.BINARY, b"abc"),
    ]


def test_a_fork_reads_into_memory_of_its_own() -> None:
    buffer = FrameReader(100, masked=False).buffer()
    buffer[0] = 1
    if not (fork := os.fork()):
        buffer[0] = 2
        os._exit(0)
    os.waitpid(fork, 0)
    assert buffer[0] == 1
