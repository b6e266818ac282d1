"""Patterns in which something follows a `#`, many at a time. `test_trie` compares them with `matches`."""

from itertools import product

import pytest

from treeconnector import gaps
from treeconnector.gaps import AT_ONCE, GappedPatterns, has_gap


def test_which_have_a_gap() -> None:
    assert [each for each in ("#", "a/#", "#/a", "a/#/b", "a/#/#", "+/a") if has_gap(each)] == [
        "#/a",
        "a/#/b",
        "a/#/#",
    ]


def test_very_many_are_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way through a tree of these was followed, and there are 16 times 4,096 at each level."""
    looked, match = 0, gaps._Block.match

    def counting(block, levels, found) -> None:
        nonlocal looked
        looked += 1
        match(block, levels, found)

    monkeypatch.setattr(gaps._Block, "match", counting)
    kept: GappedPatterns[str] = GappedPatterns()
    patterns = ["/".join(("#", *words, *"a" * 16, "b")) for words in product("a+", repeat=12)]
    assert all(kept.add(each, each) for each in patterns)
    assert kept.match(["a"] * 32) == set()
    assert kept.match(["a"] * 31 + ["b"]) == set(patterns)
    assert looked == 2 * len(patterns) / AT_ONCE


def test_those_that_go_make_room() -> None:
    kept: GappedPatterns[int] = GappedPatterns()
    for turn in range(5 * AT_ONCE):
        kept.add(f"#/{turn}", turn)
        if turn:
            assert kept.remove(f"#/{turn - 1}", turn - 1)
    assert kept.match(["x", f"{5 * AT_ONCE - 1}"]) == {5 * AT_ONCE - 1}
    assert kept.match(["x", "3"]) == set()
    assert len(set(kept._blocks.values())) == len(kept._roomy) == 1
    assert not kept.remove("#/3", 3)
    assert kept.remove(f"#/{5 * AT_ONCE - 1}", 5 * AT_ONCE - 1)
    assert not kept._blocks
    assert not kept._roomy
    assert repr(kept) == "<GappedPatterns 0>"
