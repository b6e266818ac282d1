"""Finds which of many patterns match a topic, without trying each.

Law: the work is bounded by levels times patterns, whatever these are; for most it is a handful of dictionary
look-ups. A tree has the patterns in which nothing follows a `#`: it is walked level by level, with all places
that are reached. Those in which something does are rare, and in `gaps`.
"""

from typing import Generic, TypeVar

from sapwood.protocol.errors import RouteError
from treeconnector.gaps import GappedPatterns, has_gap
from treeconnector.patterns import MANY, ONE

V = TypeVar("V")


class _PatternLevel(Generic[V]):
    """What follows after some levels of a pattern, and the values of the patterns that end here.

    Most places have nothing below or no value, and few have several values: none of that is kept before
    it is needed, which halves the memory.
    """

    __slots__ = ("below", "values")

    def __init__(self) -> None:
        self.below: dict[str, _PatternLevel[V]] | None = None
        self.values: tuple[V] | set[V] | None = None


class PatternTrie(Generic[V]):
    """Canonical patterns, each with one or more values. Values are hashable."""

    __slots__ = ("_count", "_gapped", "_root")

    def __init__(self) -> None:
        self._root: _PatternLevel[V] = _PatternLevel()
        self._gapped: GappedPatterns[V] | None = None
        self._count = 0

    def __repr__(self) -> str:
        return f"<PatternTrie patterns={self._count}>"

    def __len__(self) -> int:
        """Pairs of a pattern and a value."""
        return self._count

    def add(self, pattern: str, value: V) -> bool:
        """Return whether that pair is new. Caller's duty: `pattern` is canonical."""
        if has_gap(pattern):
            self._gapped = self._gapped or GappedPatterns()
            is_new = self._gapped.add(pattern, value)
            self._count += is_new
            return is_new
        place = self._root
        for level in pattern.split("/"):
            if place.below is None:
                place.below = {}
            following = place.below.get(level)
            if following is None:
                following = place.below[level] = _PatternLevel()
            place = following
        if place.values is None:
            place.values = (value,)
        elif value in place.values:
            return False
        elif isinstance(place.values, set):
            place.values.add(value)
        else:
            place.values = {*place.values, value}
        self._count += 1
        return True

    def remove(self, pattern: str, value: V) -> None:
        """Raises `RouteError` if that pair is not there."""
        if has_gap(pattern):
            if self._gapped is None or not self._gapped.remove(pattern, value):
                raise self._missing(pattern, value)
            self._count -= 1
            return
        path = [self._root]
        levels = pattern.split("/")
        for level in levels:
            following = path[-1].below.get(level) if path[-1].below else None
            if following is None:
                raise self._missing(pattern, value)
            path.append(following)
        values = path[-1].values
        if values is None or value not in values:
            raise self._missing(pattern, value)
        self._count -= 1
        if isinstance(values, set) and len(values) > 1:
            values.remove(value)
        else:
            path[-1].values = None
            _prune(path, levels)

    def _missing(self, pattern: str, value: V) -> RouteError:
        return RouteError(
            f"pattern {pattern!r} is not kept for {value!r}: expected one that was added before"
        )

    def match(self, topic: str) -> set[V]:
        """The values of all patterns that match a canonical topic name, each once."""
        levels = topic.split("/")
        found: set[V] = self._gapped.match(levels) if self._gapped is not None else set()
        if topic[:1] == "$":  # no wildcard stands for such a level
            first = self._root.below.get(levels[0]) if self._root.below else None
            places = [] if first is None else [first]
            levels = levels[1:]
        else:
            places = [self._root]
        for level in levels:
            places = _step(places, level, found)
        for place in places:
            if place.values is not None:
                found.update(place.values)
        _step(places, "", found)  # a `#` may take no level at all
        return found


def _step(places: list[_PatternLevel[V]], level: str, found: set[V]) -> list[_PatternLevel[V]]:
    """The places after one more level. All that a `#` matches is found, whatever the topic goes on with."""
    after: list[_PatternLevel[V]] = []
    for place in places:
        below = place.below
        if below:
            after += filter(None, (below.get(level), below.get(ONE)))
            many = below.get(MANY)
            if many is not None and many.values is not None:
                found.update(many.values)
    return after


def _prune(path: list[_PatternLevel[V]], levels: list[str]) -> None:
    """Drop the places at the end of a path that lead nowhere any more."""
    for place, parent, level in zip(reversed(path), reversed(path[:-1]), reversed(levels), strict=False):
        if place.below or place.values is not None:
            return
        if parent.below is not None:
            parent.below.pop(level)
            parent.below = parent.below or None
