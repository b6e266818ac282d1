"""Packets of streams are written without a copy, and are those that everybody reads."""

from hypothesis import given
from hypothesis import strategies as st

from sapwood.protocol.packets import packet
from treeconnector import frames
from treeconnector.incoming import decode_packet
from treeconnector.stream_packets import packet_in_parts

SIZES = st.sampled_from([1, 255, 256, 1023, 1024, 1025, 65_535, 65_536, 300_000])
DATA = st.builds(lambda number, size: frames.StreamData(number, bytes(size)), st.integers(1, 1 << 40), SIZES)
SOME = st.lists(st.one_of(DATA, st.builds(frames.StreamEnd, st.integers(1, 300))), min_size=1, max_size=40)


@given(SOME)
def test_the_parts_together_are_a_packet_of_the_same_frames(some: list[frames.Frame]) -> None:
    assert decode_packet(b"".join(packet_in_parts(some)), 1 << 30) == some


def test_large_data_is_a_part_as_it_came_and_small_ones_are_together() -> None:
    large, small = memoryview(bytes(5000)), frames.StreamData(2, b"small")
    parts = packet_in_parts([small, frames.StreamData(1, large), small, frames.StreamEnd(1)])
    assert len(parts) == 3
    assert parts[1] is large


def test_small_frames_are_the_packet_that_others_make_of_them() -> None:
    some = [frames.StreamData(2, b"small"), frames.StreamEnd(1)]
    assert packet_in_parts(some) == [packet([frames.encode(each) for each in some])]
