"""A set of packet identifiers that takes 8 KiB at most."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from broker.mqtt.packet_ids import PacketIds

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
