"""A bounded number of names, and counters that never fall."""

import random
from collections.abc import Generator

from broker.metrics.label_limit import STEP, LabelLimit


def look(seats: LabelLimit, **counts: int) -> set[str]:
    """Everything may have a name, and weighs what it has counted."""
    return steps(seats.look((name, float(count), (count,)) for name, count in counts.items()))[1]


def steps(work: Generator[None, None, set[str]]) -> tuple[int, set[str]]:
    """How many steps a look takes, and who has a name then."""
    taken = 0
    while True:
        try:
            next(work)
        except StopIteration as done:
            return taken, done.value
        taken += 1


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
        named = steps(seats.look((k, weights.get(k), (v,)) for k, v in counts.items()))[1]
        assert len(named) <= 3
        assert named <= set(weights)
        assert seats.rest[0] >= before
        before = seats.rest[0]


def test_a_look_takes_a_step_for_each_few_items() -> None:
    seats = LabelLimit(2, 1)
    taken, named = steps(seats.look((f"q{number}", float(number), (number,)) for number in range(5000)))
    assert named == {"q4999", "q4998"}
    assert taken >= 2 * 5000 / STEP


def test_a_look_that_is_given_up_counts_nothing_twice() -> None:
    counts = {f"q{number}": 1 for number in range(4 * STEP)}
    seats = LabelLimit(1, 1)
    look(seats, largest=10, **counts)
    more = dict.fromkeys(counts, 2)
    taken, _ = steps(LabelLimit(1, 1).look((name, float(count), (count,)) for name, count in more.items()))
    work = seats.look((name, float(count), (count,)) for name, count in {"largest": 10, **more}.items())
    for _ in range(taken // 2 + 3):
        next(work)
    work.close()
    assert 4 * STEP < seats.rest[0] < 8 * STEP
    look(seats, largest=10, **more)
    assert seats.rest == (8 * STEP,)
