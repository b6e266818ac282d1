"""Entries that rest: who of them goes first."""

from dataclasses import dataclass

from broker.core.messages.resting import Resting, RestingTotal


@dataclass
class Stored:
    size: int = 10


@dataclass(frozen=True)
class Entry:
    came: str
    stored: Stored


def resting(*came: str) -> Resting[Entry]:
    found: Resting[Entry] = Resting(RestingTotal())
    for row, name in enumerate(came):
        found[row] = Entry(name, Stored())
    return found


def test_the_first_that_may_go_is_found_by_asking_for_one_of_each_sender() -> None:
    """However many rest: 10,000 that may not go back cost as much as one."""
    rest = resting(*["york"] * 9_999, "bath", "york", "bath")
    asked = list[str]()

    def may_go(entry: Entry) -> bool:
        asked.append(entry.came)
        return entry.came != "york"

    first, second = rest.take_first(may_go), rest.take_first(may_go)
    assert (first, second) == (Entry("bath", Stored()), Entry("bath", Stored()))
    assert rest.take_first(may_go) is None
    assert asked == ["york", "bath", "york", "bath", "york"]
    assert (len(rest), list(rest)[-1]) == (10_000, 10_000)


def test_those_of_one_sender_go_in_their_order_and_are_counted() -> None:
    rest = resting("york", "york", "bath")
    total = rest._total
    assert rest.take(0) is not None
    assert rest.take(0) is None
    first = rest.take_first(lambda entry: True)
    assert (first is not None and first.came, list(rest)) == ("york", [2])
    assert (total.count, total.size) == (1, 10)
    assert len(rest.take_all()) == 1
    assert (total.count, total.size, rest.take_first(lambda entry: True)) == (0, 0, None)
