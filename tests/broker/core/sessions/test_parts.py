"""An acknowledgement of very many messages is dealt with in parts, and does what the whole does."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.sessions.parts import AT_ONCE, in_parts
from broker.core.sessions.sessions import ConsumerDelivery, Session, Unacked
from sapwood.protocol.session_frames import Acknowledge, RefuseDelivery, SessionPing


def session_with(*slices: tuple[int, int]) -> Session:
    """`slices`: first transfer ids and messages."""
    unacked = Unacked()
    for first, messages in slices:
        unacked.put(ConsumerDelivery(first, first - 1, messages, cast("Any", None), cast("Any", None)))
    return Session("secret", unacked=unacked)


@pytest.mark.parametrize(
    "ranges",
    [[(1, 2000)], [(0, 2**60)], [(number, number) for number in range(1, 2001)]],
    ids=["exactly all", "whatever there is", "one by one"],
)
def test_no_part_is_of_more_than_some_bundles(ranges: list[tuple[int, int]]) -> None:
    session = session_with(*((number, 1) for number in range(1, 2001)))
    parts = list(in_parts(session, Acknowledge(ranges)))
    found: list[int] = []
    for part in parts:
        assert isinstance(part, Acknowledge)
        theirs = {given.first for each in part.ranges for given in session.unacked.within(*each)}
        assert len(theirs) <= AT_ONCE
        found += sorted(theirs)
    assert found == list(range(1, 2001))
    assert len(parts) < 2000 / AT_ONCE + 1


def test_a_refusal_is_cut_in_the_same_way_and_keeps_its_words() -> None:
    session = session_with(*((number, 1) for number in range(1, 301)))
    frame = RefuseDelivery(5, 290, "torn", again=True)
    parts = [part for part in in_parts(session, frame) if isinstance(part, RefuseDelivery)]
    assert {(part.reason, part.again) for part in parts} == {("torn", True)}
    assert [part.first for part in parts] == [5, 5 + AT_ONCE, 5 + 2 * AT_ONCE]
    assert [part.last for part in parts] == [4 + AT_ONCE, 4 + 2 * AT_ONCE, 290]


@given(
    st.lists(st.integers(1, 40), max_size=80),
    st.lists(st.tuples(st.integers(-5, 3000), st.integers(-5, 3000)), min_size=1, max_size=9),
)
def test_the_parts_are_about_the_same_messages_as_the_whole(
    sizes: list[int], ranges: list[tuple[int, int]]
) -> None:
    firsts = [1 + sum(sizes[:at]) for at in range(len(sizes))]
    session = session_with(*zip(firsts, sizes, strict=True))

    def about(some: list[tuple[int, int]]) -> set[int]:
        meant = {number for low, high in some for number in range(low, high + 1)}
        return meant & set(range(1, 1 + sum(sizes)))

    parts = [part for part in in_parts(session, Acknowledge(ranges)) if isinstance(part, Acknowledge)]
    assert about([each for part in parts for each in part.ranges]) == about(ranges)


def test_other_frames_and_those_of_no_session_stay_as_they_are() -> None:
    for session, frame in ((session_with(), SessionPing(1)), (None, Acknowledge([(0, 2**60)]))):
        assert list(in_parts(session, frame)) == [frame]
