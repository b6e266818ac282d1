import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.protocol.errors import RouteError
from treeconnector.patterns import matches
from treeconnector.trie import PatternTrie

PATTERNS = st.lists(st.sampled_from(["a", "b", "", "$x", "+", "#"]), min_size=1, max_size=5).map("/".join)
TOPICS = st.lists(st.sampled_from(["a", "b", "", "$x"]), min_size=1, max_size=6).map("/".join)


@given(
    st.lists(st.tuples(PATTERNS.filter(bool), st.integers(0, 3))),
    st.lists(TOPICS.filter(bool), max_size=8),
    st.data(),
)
def test_the_trie_finds_what_matches_finds(pairs: list[tuple[str, int]], topics: list[str], data) -> None:
    trie: PatternTrie[int] = PatternTrie()
    kept: set[tuple[str, int]] = set()
    for pair in pairs:
        assert trie.add(*pair) == (pair not in kept)
        kept.add(pair)
    for pair in data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else ():
        trie.remove(*pair)
        kept.discard(pair)
    assert len(trie) == len(kept)
    for topic in topics:
        assert trie.match(topic) == {value for pattern, value in kept if matches(pattern, topic)}


def test_an_emptied_trie_keeps_nothing() -> None:
    trie: PatternTrie[str] = PatternTrie()
    patterns = ["a", "a/b", "a/b/#", "#/c/+", "#"]
    for pattern in patterns:
        trie.add(pattern, "value")
    assert repr(trie) == "<PatternTrie patterns=5>"
    for pattern in patterns:
        trie.remove(pattern, "value")
    assert trie._root.below is None


@pytest.mark.parametrize(("pattern", "value"), [("a", 1), ("a/b", 2), ("a/b/c", 1), ("x", 1)])
def test_removing_what_is_not_there_is_an_error(pattern: str, value: int) -> None:
    trie: PatternTrie[int] = PatternTrie()
    trie.add("a/b", 1)
    with pytest.raises(RouteError, match=f"pattern {pattern!r} is not kept for {value}"):
        trie.remove(pattern, value)
    assert trie.match("a/b") == {1}


def test_a_place_is_reached_once_however_many_wildcards() -> None:
    """Trying each way would take 2**40 steps."""
    trie: PatternTrie[str] = PatternTrie()
    trie.add("/".join(["#", "a"] * 40), "many")
    trie.add("/".join(["#"] * 60), "all")
    assert trie.match("/".join(["a"] * 100)) == {"many", "all"}


def test_a_thousand_random_patterns() -> None:
    rng = random.Random(4)
    trie: PatternTrie[str] = PatternTrie()
    patterns = {"/".join(rng.choices(["a", "b", "c", "+", "#"], k=rng.randrange(1, 7))) for _ in range(1000)}
    for pattern in patterns:
        trie.add(pattern, pattern)
    for _ in range(100):
        topic = "/".join(rng.choices("abc", k=rng.randrange(1, 8)))
        assert trie.match(topic) == {pattern for pattern in patterns if matches(pattern, topic)}
