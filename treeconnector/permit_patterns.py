"""Sets of patterns, and three questions about them: is this name in, is all of this filter in, is any of it?

A pattern here is a topic pattern (see `patterns`; a queue's name is read in levels as well) whose levels may
hold two things more: `*` is any text within a level, and `{name}` is any of certain names. A pattern is
read as a list of *tests*, one a level, so that other words can stand before the levels (a node's name does).

Law: `covers` is exact inclusion: every topic that the filter matches is matched by some pattern of the set,
perhaps each by another one. It walks the filter and, beside it, the set of places in which the patterns can
be. Under a wildcard of the filter one letter is enough: a text that no test but a wildcard takes. Whatever
other text stood there would leave the patterns in more places, never in fewer.

Law: what would take more than `MOST_STEPS` to decide is not covered, and touched: a filter that is made to
be hard is refused, and costs no more than that.

Law: as for all patterns, a wildcard takes no first level that begins with `$`.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final

from treeconnector.patterns import MANY, ONE

ANY: Final = "*"
NAME: Final = "{name}"
MOST_STEPS: Final = 20_000
_SPECIAL: Final = "$"

Test = Callable[[str], bool]
Word = str | Test
"""What a level of a pattern asks for: `+`, `#`, a text as it is, or a test of the text."""


def glob(text: str) -> Test:
    """Whether a text is `text`, in which `*` is any text."""
    first, *middle, last = text.split(ANY)

    def test(given: str) -> bool:
        if len(given) < len(first) + len(last) or not (given.startswith(first) and given.endswith(last)):
            return False
        place, end = len(first), len(given) - len(last)
        for each in middle:
            found = given.find(each, place, end)
            if found < 0:
                return False
            place = found + len(each)
        return True

    return test


def word(level: str, names: Container[str]) -> Word:
    """A level of a pattern as it is tested. `names`: what `{name}` stands for.

    Caller's duty: at most one `{name}` stands in it, and no `*` beside that.
    """
    if NAME in level:
        before, _, after = level.partition(NAME)
        return lambda text: (
            len(text) > len(before) + len(after)
            and text.startswith(before)
            and text.endswith(after)
            and text[len(before) : len(text) - len(after)] in names
        )
    if ANY in level:
        return ONE if not level.strip(ANY) else glob(level)
    return level


class _RuleLevel:
    """What follows after some levels, and which rule ends here, '' if none does. `repeats`: behind a `#`."""

    __slots__ = ("below", "repeats", "rule", "tests")

    def __init__(self) -> None:
        self.below: dict[str, _RuleLevel] = {}
        self.tests: dict[str, tuple[Test, _RuleLevel]] = {}
        self.repeats = False
        self.rule = ""

    def after(self, level: str, names: Container[str]) -> "_RuleLevel":
        """The place behind a level as it is written, made if it is not there."""
        asked = word(level, names)
        if isinstance(asked, str):
            place = self.below.setdefault(asked, _RuleLevel())
            place.repeats = asked == MANY
            return place
        return self.tests.setdefault(level, (asked, _RuleLevel()))[1]

    def takes(self, text: str) -> "Iterator[_RuleLevel]":
        """The places behind the levels that ask for this very text."""
        if text in self.below and text not in (ONE, MANY):
            yield self.below[text]
        for test, place in self.tests.values():
            if test(text):
                yield place

    def takes_first(self, text: str) -> "Iterator[_RuleLevel]":
        """The same for a first level that begins with `$`."""
        if text in self.below:
            yield self.below[text]
        for written, (test, place) in self.tests.items():
            if written[0] == _SPECIAL and test(text):
                yield place

    def some(self, first: bool) -> "Iterator[_RuleLevel]":
        """The places behind levels that ask for some text or other."""
        for level, place in self.below.items():
            if level not in (ONE, MANY) and not (first and level.startswith(_SPECIAL)):
                yield place
        for written, (_, place) in self.tests.items():
            if not (first and written[0] == _SPECIAL):
                yield place

    def wild(self) -> "Iterator[_RuleLevel]":
        """The places after a level that only wildcards take."""
        if self.repeats:
            yield self
        if ONE in self.below:
            yield self.below[ONE]


_Places = frozenset[_RuleLevel]


class PatternSet:
    """Patterns, each with the rule that it comes from."""

    __slots__ = ("_count", "_root")

    def __init__(self) -> None:
        self._root = _RuleLevel()
        self._count = 0

    def __repr__(self) -> str:
        return f"<PatternSet of {self._count}>"

    def __len__(self) -> int:
        return self._count

    def add(self, levels: Sequence[str], names: Container[str], rule: str) -> None:
        """`levels`: as they are written. `names`: what `{name}` stands for. `rule`: what is shown of it."""
        place = self._root
        for level in levels:
            place = place.after(level, names)
        place.rule = place.rule or rule
        self._count += 1

    def rule_of(self, texts: Sequence[str]) -> str:
        """The rule of a pattern that matches a name, '' if none does. `texts`: its levels."""
        places = _with_skipped((self._root,))
        for index, text in enumerate(texts):
            places = self._step(places, text, first=not index)
        return min((place.rule for place in places if place.rule), default="")

    def covers(self, levels: Sequence[str]) -> bool:
        """Is every topic in that a filter matches?"""
        visited: set[tuple[int, _Places, bool]] = set()
        to_do = [(0, _with_skipped((self._root,)), True)]
        steps = 0
        while to_do:
            state = index, places, first = to_do.pop()
            if state in visited:
                continue
            visited.add(state)
            steps += 1 + len(places)
            if not places or steps > MOST_STEPS:
                return False
            if index < len(levels):
                to_do += self._after(levels, index, places, first)
            elif not first and not any(place.rule for place in places):
                return False
        return True

    def _after(
        self, levels: Sequence[str], index: int, places: _Places, first: bool
    ) -> Iterator[tuple[int, _Places, bool]]:
        """Where the filter and the patterns can be one level of the filter later."""
        level = levels[index]
        if level == MANY:
            yield index + 1, places, first
            yield index, self._step(places, None, first), False
        elif level == ONE:
            yield index + 1, self._step(places, None, first), False
        elif not _is_excluded(level, index, first):
            yield index + 1, self._step(places, level, first), False

    def _step(self, places: _Places, text: str | None, first: bool) -> _Places:
        """After one level more of a topic. `text` None: one that only wildcards take."""
        if first and text is not None and text.startswith(_SPECIAL):
            return _with_skipped(self._root.takes_first(text))
        found: list[_RuleLevel] = []
        for place in places:
            found += place.wild()
            if text is not None:
                found += place.takes(text)
        return _with_skipped(found)

    def touches(self, levels: Sequence[str]) -> bool:
        """Is any topic in that a filter matches?"""
        visited: set[tuple[int, _RuleLevel, bool]] = set()
        to_do = [(0, self._root, True)]
        while to_do:
            state = index, place, first = to_do.pop()
            if state in visited:
                continue
            visited.add(state)
            if len(visited) > MOST_STEPS or (index == len(levels) and not first and place.rule):
                return True
            if MANY in place.below:
                to_do.append((index, place.below[MANY], first))
            if index < len(levels):
                to_do += self._meeting(levels, index, place, first)
        return False

    def _meeting(
        self, levels: Sequence[str], index: int, place: _RuleLevel, first: bool
    ) -> Iterator[tuple[int, _RuleLevel, bool]]:
        level = levels[index]
        if level == MANY:
            yield index + 1, place, first
        if level in (ONE, MANY):
            after = index + (level == ONE)
            for behind in (*place.wild(), *place.some(first)):
                yield after, behind, False
        elif first and level.startswith(_SPECIAL):
            if not index and place is self._root:
                for behind in place.takes_first(level):
                    yield index + 1, behind, False
        else:
            for behind in (*place.wild(), *place.takes(level)):
                yield index + 1, behind, False


def _with_skipped(places: Iterable[_RuleLevel]) -> _Places:
    """These places, and those behind a `#` that takes no level."""
    found: set[_RuleLevel] = set()
    to_do = list(places)
    while to_do:
        place = to_do.pop()
        if place not in found:
            found.add(place)
            if MANY in place.below:
                to_do.append(place.below[MANY])
    return frozenset(found)


def _is_excluded(level: str, index: int, first: bool) -> bool:
    """A first level that begins with `$`, behind a `#` that took none: a wildcard began the filter."""
    return first and index > 0 and level.startswith(_SPECIAL)
