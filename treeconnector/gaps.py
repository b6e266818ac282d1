"""Patterns in which something follows a `#`, which MQTT does not have: which of them match a topic?

Law: `AT_ONCE` of them are looked at together, whatever the topic: each place in a pattern is a bit of one
number, and a level of the topic takes all to the next places in a few operations. To follow each way through
a tree of them took seconds for some thousands, and each message of their reader could ask for it.
"""

from typing import Final, Generic, TypeVar

from treeconnector.patterns import MANY, ONE

V = TypeVar("V")
AT_ONCE: Final = 64
_GAP: Final = f"{MANY}/"


def has_gap(pattern: str) -> bool:
    return _GAP in pattern


class _Block(Generic[V]):
    """Some patterns and their values. `made`: do the numbers stand for them?

    `_many`, `_one`: places before a wildcard; `_levels`: those before a level; `_begin`: where patterns
    begin; `_ends`: where each ends, with its values.
    """

    __slots__ = ("_begin", "_ends", "_levels", "_many", "_one", "made", "patterns")

    def __init__(self) -> None:
        self.patterns: dict[str, set[V]] = {}
        self.made = False

    def make(self) -> None:
        self._begin = self._many = self._one = 0
        self._levels: dict[str, int] = {}
        self._ends: list[tuple[int, set[V]]] = []
        bit = 1
        for pattern, values in self.patterns.items():
            self._begin |= bit
            before = ""
            for word in pattern.split("/"):
                if word == before == MANY:  # two say what one does
                    continue
                if word == MANY:
                    self._many |= bit
                elif word == ONE:
                    self._one |= bit
                else:
                    self._levels[word] = self._levels.get(word, 0) | bit
                bit, before = bit << 1, word
            self._ends.append((bit, values))
            bit <<= 1
        self.made = True

    def match(self, levels: list[str], found: set[V]) -> None:
        if not self.made:
            self.make()
        many, one, of = self._many, self._one, self._levels.get
        at = self._begin
        if levels[0][:1] == "$":  # no wildcard stands for such a level
            at &= ~(many | one)
        at |= (at & many) << 1
        for level in levels:
            at = (at & (of(level, 0) | one)) << 1 | at & many
            at |= (at & many) << 1
            if not at:
                return
        for bit, values in self._ends:
            if at & bit:
                found |= values


class GappedPatterns(Generic[V]):
    """All of one trie. `_roomy`: blocks that have room for more."""

    __slots__ = ("_blocks", "_roomy")

    def __init__(self) -> None:
        self._blocks: dict[str, _Block[V]] = {}
        self._roomy: dict[_Block[V], None] = {}

    def __repr__(self) -> str:
        return f"<GappedPatterns {len(self._blocks)}>"

    def add(self, pattern: str, value: V) -> bool:
        """Return whether that pair is new."""
        block = self._blocks.get(pattern)
        if block is None:
            block = self._blocks[pattern] = next(iter(self._roomy)) if self._roomy else _Block()
            block.patterns[pattern] = set()
            block.made = False
            self._roomy[block] = None
            if len(block.patterns) >= AT_ONCE:
                del self._roomy[block]
        values = block.patterns[pattern]
        is_new = value not in values
        values.add(value)
        if not block.made and len(block.patterns) >= AT_ONCE:
            block.make()  # while they are added, and not all for the first topic
        return is_new

    def remove(self, pattern: str, value: V) -> bool:
        """Return whether that pair was there."""
        block = self._blocks.get(pattern)
        if block is None or value not in block.patterns[pattern]:
            return False
        block.patterns[pattern].remove(value)
        if not block.patterns[pattern]:
            del self._blocks[pattern], block.patterns[pattern]
            block.made = False
            self._roomy[block] = None
            if not block.patterns:
                del self._roomy[block]
        return True

    def match(self, levels: list[str]) -> set[V]:
        """The values of all that match the levels of a topic."""
        found: set[V] = set()
        for block in dict.fromkeys(self._blocks.values()):
            block.match(levels, found)
        return found
