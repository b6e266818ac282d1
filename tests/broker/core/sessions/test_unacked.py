"""What a session has and has not acknowledged, found by transfer id."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from broker.core.sessions.sessions import ConsumerDelivery, Unacked


def a_slice(first: int, messages: int) -> ConsumerDelivery:
    return ConsumerDelivery(first, first - 1, messages, cast("Any", None), cast("Any", None))


def test_a_slice_is_found_behind_the_beginning_of_one_that_is_gone() -> None:
    """Else an acknowledgement in its middle is not heard: the same ids were given in other parts before."""
    unacked = Unacked()
    part, whole = a_slice(2, 7), a_slice(1, 8)
    unacked.put(part)
    unacked.remove(part)
    unacked.put(whole)
    assert unacked.within(3, 3) == [whole]
    assert unacked.above(3) == [whole]


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 8), st.booleans()), max_size=60))
def test_whatever_was_put_and_not_removed_is_found(steps: list[tuple[int, int, bool]]) -> None:
    unacked = Unacked()
    there: list[ConsumerDelivery] = []
    for first, messages, removes in steps:
        given = a_slice(first, messages)
        if removes and there:
            unacked.remove(there.pop(first % len(there)))
        elif all(each.last < first or each.first > given.last for each in there):
            unacked.put(given)
            there.append(given)
        for number in range(1, 50):
            holds = [each for each in there if each.first <= number <= each.last]
            assert unacked.within(number, number) == holds
            after = sorted((each for each in there if each.last > number), key=lambda each: each.first)
            assert unacked.above(number) == after


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 20), st.integers(0, 20))
def test_what_is_left_of_a_slice_keeps_its_ids(first: int, messages: int, low: int, high: int) -> None:
    whole = a_slice(first, messages)
    if not whole.bits_of(low, high):
        return
    parts = whole.without(low, high)
    assert sum(part.bits for part in parts) == whole.bits & ~whole.bits_of(low, high)
    assert all(part.bits_of(part.first, part.first) == 1 << (part.first - 1) for part in parts)
