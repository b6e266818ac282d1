"""The changes between two states of definitions, and who would not survive them.

Inputs go from callers to servers, outputs and errors the other way. So the same change of a type can be
harmless in one and break callers in the other. Names of types are not said on the wire: their forms count.

Law: a change that old callers do not survive needs a new major version. One that only old servers do not
survive, when a new caller asks them, needs a new minor version: no server takes calls of a later version.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from interfaces.load import Catalogue
from interfaces.model import (
    Applied,
    Case,
    Error,
    Field,
    Function,
    Interface,
    Member,
    Namespace,
    Path,
    Struct,
    Type,
    Variant,
)
from interfaces.scope import Found, Key, Scope, plain

Version = tuple[int, int]


class Breaks(Enum):
    """Those who would not survive a change."""

    OLD_CALLERS = "old callers"
    OLD_SERVERS = "old servers"


@dataclass(frozen=True, slots=True)
class Change:
    """`where`: the function or type, and the part of it."""

    breaks: Breaks
    where: str
    text: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """An interface before and after. `new` is None where it is gone."""

    name: str
    old: Version
    new: Version | None
    changes: tuple[Change, ...]

    @property
    def wanted(self) -> Version | None:
        """The least version that says what changed; None: no version can."""
        major, minor = self.old
        if self.new is None:
            return None
        if any(each.breaks is Breaks.OLD_CALLERS for each in self.changes):
            return (major + 1, 0)
        return (major, minor + 1) if self.changes else self.old

    @property
    def is_said(self) -> bool:
        """Does the version say it?"""
        return self.new is not None and self.wanted is not None and self.new >= self.wanted


def compare(old: Catalogue, new: Catalogue) -> list[Comparison]:
    """Each interface of `old` beside its successor. Both catalogues must be without mistakes."""
    later = [(each, new.scopes[file]) for file, each in new.interfaces()]
    found = []
    for file, before in old.interfaces():
        successor = _successor(before, later)
        if successor is None:
            gone = Change(Breaks.OLD_CALLERS, before.name, "is gone")
            found.append(Comparison(before.name, before.version, None, (gone,)))
            continue
        found.append(between(before, old.scopes[file], *successor))
    return sorted(found, key=lambda each: (each.name, each.old))


def between(before: Interface, scope: Scope, after: Interface, later: Scope) -> Comparison:
    """Two versions of an interface, each with the scope of its file."""
    walk = _Walk()
    walk.interface(before, scope, after, later)
    return Comparison(before.name, before.version, after.version, walk.sorted())


def _successor(old: Interface, later: Iterable[tuple[Interface, Scope]]) -> tuple[Interface, Scope] | None:
    """Of the same name: of the same major version if there is one, else of the next, else the last."""
    same = sorted((each for each in later if each[0].name == old.name), key=lambda each: each[0].version)
    return next((each for each in same if each[0].version[0] >= old.version[0]), same[-1] if same else None)


class _Way(Enum):
    """Who says a value to whom. `wider`, `narrower`: who does not survive that it has more forms, fewer."""

    IN = ("in", Breaks.OLD_SERVERS, Breaks.OLD_CALLERS)
    OUT = ("out", Breaks.OLD_CALLERS, Breaks.OLD_SERVERS)

    def __init__(self, word: str, wider: Breaks, narrower: Breaks) -> None:
        self.word = word
        self.wider = wider
        self.narrower = narrower


class _Walk:
    """The changes of one interface. Two types are compared once each way, however often they stand there."""

    def __init__(self) -> None:
        self.changes: set[Change] = set()
        self._seen: set[tuple[Key, Key, _Way]] = set()
        self._compared: set[tuple[str, Key, Key, _Way]] = set()
        self._waiting: list[tuple[Found, Found, _Way]] = []

    def interface(self, old: Interface, old_scope: Scope, new: Interface, new_scope: Scope) -> None:
        before = dict(_functions(old.members, old_scope.inside(old)))
        after = dict(_functions(new.members, new_scope.inside(new)))
        for name in before.keys() - after.keys():
            self._change(Breaks.OLD_CALLERS, f"function {name}", "is gone")
        for name in after.keys() - before.keys():
            self._change(Breaks.OLD_SERVERS, f"function {name}", "is new")
        for name in before.keys() & after.keys():
            self._function(f"function {name}", *before[name], *after[name])
        while self._waiting:
            self._definitions(*self._waiting.pop())

    def sorted(self) -> tuple[Change, ...]:
        return tuple(sorted(self.changes, key=lambda each: (each.breaks.value, each.where, each.text)))

    def _change(self, breaks: Breaks, where: str, text: str) -> None:
        self.changes.add(Change(breaks, where, text))

    # --- functions

    def _function(self, where: str, old: Function, old_scope: Scope, new: Function, new_scope: Scope) -> None:
        self._fields(where, old.inputs, old_scope, new.inputs, new_scope, _Way.IN)
        self._fields(where, old.outputs, old_scope, new.outputs, new_scope, _Way.OUT)
        before, after = dict(_errors(old, old_scope)), dict(_errors(new, new_scope))
        for name in before.keys() - after.keys():
            self._change(Breaks.OLD_SERVERS, where, f"does not raise {name} any more")
        for name in after.keys() - before.keys():
            self._change(Breaks.OLD_SERVERS, where, f"raises {name}, which is new to it")
        for name in before.keys() & after.keys():
            self._value(f"{where}, error {name}", *before[name], *after[name], _Way.OUT)

    # --- values

    def _fields(
        self,
        where: str,
        old: Sequence[Field],
        old_scope: Scope,
        new: Sequence[Field],
        new_scope: Scope,
        way: _Way,
    ) -> None:
        """Those of a struct, inputs or outputs. An option that is not said is read as none."""
        before, after = _by_name(old), _by_name(new)
        for name in before.keys() - after.keys():
            harmless = way is _Way.OUT and _is_option(before[name].type, old_scope)
            breaks = Breaks.OLD_SERVERS if harmless else Breaks.OLD_CALLERS
            self._change(breaks, where, f"{way.word} {name} is gone")
        for name in after.keys() - before.keys():
            harmless = way is _Way.OUT or _is_option(after[name].type, new_scope)
            breaks = Breaks.OLD_SERVERS if harmless else Breaks.OLD_CALLERS
            said = "is new" if harmless else "is new, and no option"
            self._change(breaks, where, f"{way.word} {name} {said}")
        for name in before.keys() & after.keys():
            place = f"{where}, {way.word} {name}"
            self._value(place, before[name].type, old_scope, after[name].type, new_scope, way)

    def _value(
        self, where: str, old: Type | None, old_scope: Scope, new: Type | None, new_scope: Scope, way: _Way
    ) -> None:
        """One value, before and after. None: it has no value."""
        if old is None or new is None:
            if old is not new:
                self._change(
                    Breaks.OLD_CALLERS, where, "has a value now" if old is None else "has no value now"
                )
            return
        found, successor = _found(old, old_scope), _found(new, new_scope)
        if found is not None and successor is not None:
            seen = where, found.key, successor.key, way
            if seen in self._compared:  # names of pairs of names of pairs … would be followed without end
                return
            self._compared.add(seen)
        before, old_scope = plain(old, old_scope)
        after, new_scope = plain(new, new_scope)
        was, is_ = _head(before), _head(after)
        if was == is_ and isinstance(before, Applied) and isinstance(after, Applied):
            for one, other in zip(before.arguments, after.arguments, strict=True):
                self._value(where, one, old_scope, other, new_scope, way)
        elif is_ == "option" and isinstance(after, Applied):
            self._change(way.wider, where, "may be none now")
            self._value(where, before, old_scope, after.arguments[0], new_scope, way)
        elif was == "option" and isinstance(before, Applied):
            self._change(way.narrower, where, "is never none now")
            self._value(where, before.arguments[0], old_scope, after, new_scope, way)
        elif was != is_:
            self._change(Breaks.OLD_CALLERS, where, f"was {old}, and is {new}")
        elif isinstance(before, Path) and isinstance(after, Path):
            self._paths(where, before, old_scope, after, new_scope, way)

    def _paths(self, where: str, old: Path, old_scope: Scope, new: Path, new_scope: Scope, way: _Way) -> None:
        """Two names of the language's own types, or of definitions."""
        before, after = old_scope.find(old), new_scope.find(new)
        if before is None or after is None or type(before.definition) is not type(after.definition):
            if before is not after or str(old) != str(new):
                self._change(Breaks.OLD_CALLERS, where, f"was {old}, and is {new}")
        elif (seen := (before.key, after.key, way)) not in self._seen:
            self._seen.add(seen)
            self._waiting.append((before, after, way))

    def _definitions(self, old: Found, new: Found, way: _Way) -> None:
        before, after = old.definition, new.definition
        where = f"{type(before).__name__.lower()} {before.name}"
        match before, after:
            case Struct(), Struct():
                self._fields(where, before.fields, old.scope, after.fields, new.scope, way)
            case Variant(), Variant():
                self._cases(where, _by_name(before.cases), old.scope, _by_name(after.cases), new.scope, way)

    def _cases(
        self,
        where: str,
        old: Mapping[str, Case],
        old_scope: Scope,
        new: Mapping[str, Case],
        new_scope: Scope,
        way: _Way,
    ) -> None:
        for name in old.keys() - new.keys():
            self._change(way.narrower, where, f"{way.word} case {name} is gone")
        for name in new.keys() - old.keys():
            self._change(way.wider, where, f"{way.word} case {name} is new")
        for name in old.keys() & new.keys():
            place = f"{where}, {way.word} case {name}"
            self._value(place, old[name].type, old_scope, new[name].type, new_scope, way)


def _functions(
    members: Iterable[Member], scope: Scope, prefix: str = ""
) -> Iterator[tuple[str, tuple[Function, Scope]]]:
    """All functions of a block and those below it, by the names by which they are called."""
    for each in members:
        if isinstance(each, Function):
            yield f"{prefix}{each.name}", (each, scope)
        elif isinstance(each, Namespace):
            yield from _functions(each.members, scope.inside(each), f"{prefix}{each.name}.")


def _errors(function: Function, scope: Scope) -> Iterator[tuple[str, tuple[Type | None, Scope]]]:
    """The errors of a function: name, type of the value, and the scope in which that stands."""
    for path in function.raises:
        if (found := scope.find(path)) is not None and isinstance(found.definition, Error):
            yield found.definition.name, (found.definition.type, found.scope)


Named = TypeVar("Named", Field, Case)


def _by_name(parts: Iterable[Named]) -> dict[str, Named]:
    return {each.name: each for each in parts}


def _head(type_: Type) -> str:
    """The name of a type that is made of others; '' for one that has a name alone."""
    return type_.name if isinstance(type_, Applied) else ""


def _found(type_: Type, scope: Scope) -> Found | None:
    """The definition that a type names; None for one that names none."""
    return scope.find(type_) if isinstance(type_, Path) else None


def _is_option(type_: Type, scope: Scope) -> bool:
    return _head(plain(type_, scope)[0]) == "option"
