"""Holds of a line that broke: each is tried by one bundle, until the peer has answered that."""

from broker.core.links.earlier_holds import EarlierHolds
from broker.core.links.peer_holds import MOST, MOST_BYTES


def test_one_bundle_of_each_destination_tries_until_it_is_answered() -> None:
    holds = EarlierHolds()
    assert not holds.untried
    holds.line_is_back(["queue:a", "queue:b"])
    assert list(holds.tried_by("queue:c", 1)) == []
    assert list(holds.tried_by("queue:a", 2)) == ["queue:a"]
    assert list(holds.tried_by("queue:a", 3)) == []
    assert list(holds.tried_by("queue:b", 4)) == ["queue:b"]
    assert (bool(holds.untried), repr(holds)) == (False, "<EarlierHolds 0 untried, 2 under way>")
    assert holds.answered(3) == ["queue:a"]
    assert holds.answered(3) == []
    holds.said("queue:b")
    assert holds.answered(9) == []


def test_any_bundle_tries_whether_everything_is_held() -> None:
    holds = EarlierHolds()
    holds.line_is_back(["queue:a", ""])
    assert list(holds.tried_by("queue:a", 1)) == ["queue:a", ""]
    assert holds.answered(1) == ["queue:a", ""]


def test_what_was_not_tried_when_the_line_breaks_again_is_still_known() -> None:
    holds = EarlierHolds()
    holds.line_is_back(["queue:a", "queue:b"])
    held = list(holds.tried_by("queue:a", 1))
    holds.line_is_back(held)
    assert holds.answered(1) == []
    assert list(holds.tried_by("queue:a", 2)) == ["queue:a"]
    assert list(holds.tried_by("queue:b", 3)) == ["queue:b"]


def test_no_more_are_remembered_than_a_peer_may_hold() -> None:
    holds = EarlierHolds()
    holds.line_is_back(f"queue:{number}" for number in range(MOST))
    holds.line_is_back(["queue:late"])
    assert list(holds.tried_by("queue:late", 1)) == ["queue:late"]
    assert [f"queue:{number}" for number in range(MOST) if not holds.would_try(f"queue:{number}")] == [
        f"queue:{MOST - 1}"
    ]


def test_nor_more_bytes_of_them() -> None:
    """A peer with long names whose line breaks again and again made this node remember 20,000 of them."""
    holds = EarlierHolds()
    names = [f"topic:{number}{'x' * (MOST_BYTES // 20)}" for number in range(40)]
    for name in names:
        holds.line_is_back([name])
    assert [holds.would_try(name) for name in names] == [False] * 21 + [True] * 19
