"""A bounded number of names, and counters that never fall."""

import random

from broker.metrics.label_limit import LabelLimit


def look(seats: LabelLimit, **counts: int) -> set[str]:
    """Everything may have a name, and weighs what it has counted."""
    return seats.look({k: float(v) for k, v in counts.items()}, {k: (v,) for k, v in counts.items()})


def test_the_largest_have_names() -> None:
    seats = LabelLimit(2, 1)
    assert look(seats, a=1, b=5, c=3) == {"b", "c"}
    assert seats.rest == (1,)


def test_a_name_stays_until_another_is_more_than_twice_as_large() -> None:
    seats = LabelLimit(1, 1)
    assert look(seats, a=10, b=1) == {"a"}
    assert look(seats, a=10, b=20) == {"a"}
    assert look(seats, a=10, b=21) == {"b"}


def test_a_name_goes_with_what_it_names() -> None:
    seats = LabelLimit(1, 1)
    assert look(seats, a=10, b=1) == {"a"}
    assert look(seats, b=1) == {"b"}


def test_the_rest_counts_what_it_gained_only() -> None:
    seats = LabelLimit(1, 1)
    look(seats, a=10, b=1)
    assert seats.rest == (1,)
    look(seats, a=10, b=100)
    assert seats.rest == (1,), "b has a name now, a has gained nothing since"
    look(seats, a=13, b=100)
    assert seats.rest == (4,)


def test_what_goes_takes_nothing_from_the_rest() -> None:
    seats = LabelLimit(1, 1)
    look(seats, a=10, b=4)
    look(seats, a=10)
    assert seats.rest == (4,)
    look(seats, a=10, b=3)
    assert seats.rest == (7,), "it began again"


def test_nothing_really_called_other_has_a_name() -> None:
    seats = LabelLimit(5, 1)
    assert look(seats, other=100, a=1) == {"a"}
    assert seats.rest == (100,)


def test_no_names_at_all() -> None:
    seats = LabelLimit(0, 1)
    assert look(seats, a=1, b=2) == set()
    assert seats.rest == (3,)


def test_whatever_happens_the_rest_never_falls_and_names_are_bounded() -> None:
    chance = random.Random(7)
    seats, before = LabelLimit(3, 1), 0.0
    counts: dict[str, int] = {}
    for _ in range(500):
        name = f"q{chance.randrange(12)}"
        if chance.random() < 0.2:
            counts.pop(name, None)
        else:
            counts[name] = counts.get(name, 0) + chance.randrange(50)
        weights = {k: chance.random() for k in counts if chance.random() < 0.8}
        named = seats.look(weights, {k: (v,) for k, v in counts.items()})
        assert len(named) <= 3
        assert named <= set(weights)
        assert seats.rest[0] >= before
        before = seats.rest[0]
