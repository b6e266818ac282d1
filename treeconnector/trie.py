"""Finds which of many patterns match a topic, without trying each.

Law: a topic is walked level by level with the set of places that can have been reached. A place is
entered once a level at most, so the work is bounded by levels times places, whatever `#`s the patterns
hold; for patterns without `#` in the middle it is a handful of dictionary look-ups.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from sapwood.protocol.errors import RouteError
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

    __slots__ = ("_count", "_root")

    def __init__(self) -> None:
        self._root: _PatternLevel[V] = _PatternLevel()
        self._count = 0

    def __repr__(self) -> str:
        return f"<PatternTrie patterns={self._count}>"

    def __len__(self) -> int:
        """Pairs of a pattern and a value."""
        return self._count

    def add(self, pattern: str, value: V) -> bool:
        """Return whether that pair is new. Caller's duty: `pattern` is canonical."""
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
        found: set[V] = set()
        for place in self._reached(topic):
            if place.values is not None:
                found.update(place.values)
        return found

    def _reached(self, topic: str) -> Iterator[_PatternLevel[V]]:
        levels = topic.split("/")
        walk: _Walk[V] = _Walk()
        if topic[:1] == "$":
            walk.enter(self._root.below.get(levels[0]) if self._root.below else None)
        else:
            walk.enter(self._root)
            walk = walk.step(levels[0])
        for level in levels[1:]:
            walk = walk.step(level)
        yield from walk.places
        yield from walk.many.values()


class _Walk(Generic[V]):
    """Where one can be after some levels: `places`, and those behind a `#`, which may take more levels.

    A place has one way in, so only those behind a `#` can be met twice: they are kept by identity.
    """

    __slots__ = ("many", "places")

    def __init__(self) -> None:
        self.places: list[_PatternLevel[V]] = []
        self.many: dict[int, _PatternLevel[V]] = {}

    def enter(self, place: _PatternLevel[V] | None) -> None:
        if place is not None:
            self.places.append(place)
            self._skip(place)

    def _skip(self, place: _PatternLevel[V]) -> None:
        """A `#` right after `place` may take no level at all."""
        following = place.below.get(MANY) if place.below else None
        while following is not None and id(following) not in self.many:
            self.many[id(following)] = following
            following = following.below.get(MANY) if following.below else None

    def step(self, level: str) -> "_Walk[V]":
        after: _Walk[V] = _Walk()
        after.many = self.many.copy()
        for places in (self.places, self.many.values()):
            for place in places:
                below = place.below
                if below:
                    after.enter(below.get(level))
                    after.enter(below.get(ONE))
        return after


def _prune(path: list[_PatternLevel[V]], levels: list[str]) -> None:
    """Drop the places at the end of a path that lead nowhere any more."""
    for place, parent, level in zip(reversed(path), reversed(path[:-1]), reversed(levels), strict=False):
        if place.below or place.values is not None:
            return
        if parent.below is not None:
            parent.below.pop(level)
            parent.below = parent.below or None
