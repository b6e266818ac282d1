"""A set of packet identifiers that takes 8 KiB at most."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.mqtt.packet_ids import MOST_IDS, GivenIds, PacketIds
from sapwood.protocol.errors import SapwoodError

NUMBERS = st.integers(0, 65_535)


@given(st.lists(st.tuples(st.booleans(), NUMBERS)), NUMBERS)
def test_it_is_a_set(changes: list[tuple[bool, int]], other: int) -> None:
    found, expected = PacketIds(), set[int]()
    for comes, number in changes:
        (found.add if comes else found.discard)(number)
        (expected.add if comes else expected.discard)(number)
    assert len(found) == len(expected)
    assert all(number in found for number in expected)
    assert (other in found) == (other in expected)
    for number in expected:
        found.discard(number)
    assert len(found) == 0


def test_all_identifiers_take_little() -> None:
    found = PacketIds()
    for number in range(1, 65_536):
        found.add(number)
    assert repr(found) == "<PacketIds 65535 in 8192 bytes>"
    assert sys.getsizeof(found._bits) <= 2 * 8192


@given(st.lists(st.tuples(st.integers(1, 40_000), st.integers(0, 40_000)), max_size=6))
def test_a_row_of_identifiers_is_the_same_as_each_alone(rows: list[tuple[int, int]]) -> None:
    """Some of those before are dealt with: the next are those that are free."""
    row, alone, transfer = GivenIds(), GivenIds(), 1
    for count, done in rows:
        if len(row) + count > MOST_IDS:
            break
        numbers = list(row.next_row(transfer, count))
        assert numbers == [alone.next(each, 1) for each in range(transfer, transfer + count)]
        assert [row.dealt_with(each) for each in numbers[:done]] == [
            alone.dealt_with(each) for each in numbers[:done]
        ]
        assert len(row) == len(alone)
        transfer += count


def test_there_is_no_row_of_more_identifiers_than_there_are() -> None:
    given_ids = GivenIds()
    assert list(given_ids.next_row(1, MOST_IDS - 5)) == list(range(1, MOST_IDS - 4))
    assert [given_ids.dealt_with(number) for number in (1, 2)] == [1, 2]
    assert list(given_ids.next_row(MOST_IDS, 7)) == [*range(MOST_IDS - 4, MOST_IDS + 1), 1, 2]
    with pytest.raises(SapwoodError, match="65535 messages unacknowledged"):
        given_ids.next_row(MOST_IDS + 7, 1)
