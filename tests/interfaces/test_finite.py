"""A definition rests on something if all that one of its ways needs does."""

from itertools import pairwise

from interfaces.finite import sizes


def key(name: str) -> tuple[str, ...]:
    return ("a.idl", name)


def resting(**ways: list[str]) -> set[str]:
    """Of each name, its ways: each as the letters of what it needs."""
    graph = {key(name): [[key(need) for need in way] for way in several] for name, several in ways.items()}
    return {name for _, name in sizes(graph)}


def test_those_that_need_nothing_rest_on_it() -> None:
    assert resting(a=[""], b=["a"], c=["ab"]) == {"a", "b", "c"}


def test_a_circle_rests_on_nothing_nor_does_what_needs_it() -> None:
    assert resting(a=["b"], b=["a"], c=["a"], d=["d"], e=[""]) == {"e"}


def test_one_way_is_enough() -> None:
    assert resting(a=["a", ""], b=["b", "a"], c=["ca", "c"]) == {"a", "b"}


def test_what_cannot_be_at_all_rests_on_nothing() -> None:
    assert resting(a=[], b=["a"]) == set()


def test_a_long_chain_is_followed_to_its_end() -> None:
    names = [key(str(number)) for number in range(5000)]
    chain = {name: [[following]] for name, following in pairwise(names)}
    assert not sizes(chain)
    assert sizes(chain | {names[-1]: [[]]}) == {name: 5000 - at for at, name in enumerate(names)}


def test_the_smallest_way_counts_and_a_need_as_often_as_it_is_there() -> None:
    ways = {key("a"): [[]], key("b"): [[key("a")] * 3, [key("c")]], key("c"): [[key("a")]]}
    assert sizes(ways) == {key("a"): 1, key("c"): 2, key("b"): 3}
