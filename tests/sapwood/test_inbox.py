"""Acknowledgements as ranges, and what is remembered of what was handed out."""

from itertools import pairwise

import zstandard
from hypothesis import given
from hypothesis import strategies as st

from sapwood.inbox import LARGEST, Acks, Memory, ranges_of, unpack_delivery
from sapwood.protocol.bundles import Flag
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.session_frames import MAX_RANGES_IN_FRAME, Deliver


@given(st.lists(st.integers(0, 60)))
def test_acks_are_exactly_what_was_added(ids: list[int]) -> None:
    acks = Acks()
    for number in ids:
        acks.add(number, number)
    ranges = [pair for frame in acks.take() for pair in frame]
    assert {n for first, last in ranges for n in range(first, last + 1)} == set(ids)
    assert all(one[1] + 1 < two[0] for one, two in pairwise(ranges))
    assert not acks


def test_many_gaps_go_in_several_frames() -> None:
    acks = Acks()
    for number in range(MAX_RANGES_IN_FRAME + 1):
        acks.add(2 * number, 2 * number)
    assert [len(frame) for frame in acks.take()] == [MAX_RANGES_IN_FRAME, 1]


@given(st.sets(st.integers(0, 100)))
def test_ranges_of_ids(ids: set[int]) -> None:
    ranges = ranges_of(sorted(ids))
    assert [n for first, last in ranges for n in range(first, last + 1)] == sorted(ids)


def test_ranges_of_a_range() -> None:
    assert ranges_of(range(3, 8)) == [(3, 7)]
    assert ranges_of(range(0)) == []


def test_a_memory_tells_new_from_known_from_done() -> None:
    memory = Memory()
    assert memory.hand_out(b"a", 0b0111) == (0b0111, 0)
    memory.acknowledge(b"a", 0b0010)
    assert memory.hand_out(b"a", 0b1111) == (0b1000, 0b0010)
    assert memory.hand_out(b"b", 0b1) == (0b1, 0)


def test_a_memory_is_bounded_and_forgets_the_oldest() -> None:
    memory = Memory(bundles=2)
    for bundle in (b"a", b"b"):
        memory.hand_out(bundle, 1)
    memory.hand_out(b"a", 1)
    memory.hand_out(b"c", 1)
    memory.acknowledge(b"b", 1)
    assert memory.hand_out(b"a", 1) == (0, 0)
    assert memory.hand_out(b"b", 1) == (1, 0)


def test_a_bundle_that_says_it_is_huge_is_not_unpacked() -> None:
    body = zstandard.ZstdCompressor(level=1).compress(bytes(LARGEST + 1))
    where = Destination(Kind.QUEUE, "bombs")
    frame = Deliver(1, where, 1, 1, bytes(16), 0, int(Flag.COMPRESSED), LARGEST + 1, body)
    found = unpack_delivery(frame, Memory(), lambda batch, first, last: None)
    assert (found.batch, list(found.unreadable)) == (None, [(1, 1)])
    assert f"{LARGEST} at most" in found.why
