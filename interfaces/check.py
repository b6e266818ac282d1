"""All that is wrong with definitions: of their form, then of names and types.

Law: of a file that could not be read whole, nothing is said that its other part may put right.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as Folder
from typing import Final

from interfaces.errors import Problem
from interfaces.finite import MOST_LEVELS, MOST_PARTS, in_circles, levels, parts
from interfaces.load import Catalogue, survey
from interfaces.model import (
    BUILT_IN,
    GENERIC,
    Alias,
    Applied,
    At,
    Case,
    Definition,
    Error,
    Field,
    Function,
    Interface,
    Namespace,
    Path,
    Struct,
    Type,
    Variant,
)
from interfaces.scope import MAX_ALIASES, Found, Key, Scope, is_alias, plain

MAX_NAME: Final = 64
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
RESERVED_ERRORS: Final = frozenset(
    {"bad_parameters", "bad_request", "bad_result", "failed", "nobody_serves", "result_too_large"}
    | {"unimplemented", "unknown_interface", "unknown_method", "unknown_version"}
)
"""Ends of calls that no interface declares."""
_KEYS: Final = ("string", "int64")
_WITH_NULL: Final = ("option", "unit")
"""Types one of whose values stands for nothing: an option of them could not say whether it is there."""


def problems_in(folder: Folder, names: Iterable[str] | None = None) -> list[Problem]:
    """Every mistake of files of a folder, as `load` takes them; [] = all is well."""
    catalogue, problems = survey(folder, names)
    return sorted([*problems, *check(catalogue)])


def check(catalogue: Catalogue) -> list[Problem]:
    """Every mistake of names and types, in the order of the files and lines; [] = all is well."""
    problems = _interfaces_twice(catalogue)
    for name, file in catalogue.files.items():
        checker = _Checker(name, is_whole=name not in catalogue.vague)
        checker.definitions(file.definitions, catalogue.scopes[name])
        checker.names_of_imports(catalogue.scopes[name], file.definitions)
        checker.types_as_a_whole()
        problems += checker.problems
    return sorted(problems)


def _interfaces_twice(catalogue: Catalogue) -> list[Problem]:
    """One program serves one version of each major, since a later one serves callers of an earlier."""
    first: dict[tuple[str, int], str] = {}
    problems = []
    for file, each in catalogue.interfaces():
        if min(each.version) < 0:
            continue
        known = first.setdefault((each.name, each.version[0]), f"{each} of {file}:{each.at.line}")
        if known != f"{each} of {file}:{each.at.line}":
            said = f"{each} stands beside {known}: expected one version of each major; keep the later one"
            problems.append(Problem(file, each.at.line, each.at.column, said))
    return problems


class _Checker:
    """The mistakes of one file. `is_whole`: whatever it does not define, or import, is nowhere."""

    def __init__(self, file: str, *, is_whole: bool) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._is_whole = is_whole
        self._types: dict[Key, Found] = {}

    def _wrong(self, at: At, message: str) -> None:
        if at.line:  # else it is a word that was put in, for one that is missing
            self.problems.append(Problem(self._file, at.line, at.column, message))

    # --- blocks

    def definitions(self, definitions: Sequence[Definition], scope: Scope) -> None:
        """Those of a file, an interface or a namespace."""
        self._names([each for each in definitions if not isinstance(each, Interface)], "definition")
        for each in definitions:
            self._definition(each, scope)

    def _definition(self, each: Definition, scope: Scope) -> None:
        match each:
            case Interface():
                self._interface(each, scope)
            case Namespace():
                self._own_name(each)
                self.definitions(each.members, scope.inside(each))
            case Function():
                self._function(each, scope)
            case Error(type=type_):
                self._own_name(each)
                self._type(type_, scope)
                if each.name in RESERVED_ERRORS:
                    self._wrong(each.at, f"calls end with {each.name!r} already: choose another name")
            case Struct() | Variant() | Alias():
                self._defined_type(each, scope)

    def _defined_type(self, each: Struct | Variant | Alias, scope: Scope) -> None:
        self._types[(*scope.where, each.name)] = Found(each, scope, None)
        self._own_name(each)
        match each:
            case Struct(fields=parts) | Variant(cases=parts):
                self._names(parts, "field" if isinstance(each, Struct) else "case")
                for part in parts:
                    self._type(part.type, scope)
            case Alias(type=type_):
                self._type(type_, scope)

    def _own_name(self, each: Definition) -> None:
        """Whatever types are looked for among: one of that name would stand before the language's."""
        if each.name in BUILT_IN:
            self._wrong(each.at, f"{each.name!r} is a type of the language: choose another name")

    def _interface(self, each: Interface, scope: Scope) -> None:
        self._name(each)
        if not each.owners:
            self._wrong(each.at, f'{each.name!r} has no owners: say who answers for it, as owners "Stock"')
        if not all(owner.strip() for owner in each.owners):
            self._wrong(each.at, f"an owner of {each.name!r} has an empty name: say it, or take it out")
        if self._is_whole and not _serves(each):
            self._wrong(each.at, f"{each.name!r} has no function: add one, or move its types to the file")
        self.definitions(each.members, scope.inside(each))

    def _function(self, each: Function, scope: Scope) -> None:
        self._names(each.inputs, "input")
        self._names(each.outputs, "output")
        for value in (*each.inputs, *each.outputs):
            self._type(value.type, scope)
        known: set[str] = set()
        for path in each.raises:
            found = scope.find(path)
            if (found is None and self._is_whole) or (found and not isinstance(found.definition, Error)):
                self._wrong(path.at, f"'{path}' is no error: define it, as error {path.names[-1]} \"…\"")
            if path.names[-1] in known:
                self._wrong(path.at, f"{path.names[-1]!r} is raised already: say it once, or rename one")
            known.add(path.names[-1])

    # --- names

    def _names(self, each: Sequence[Definition | Field | Case], kind: str) -> None:
        first: dict[str, At] = {}
        for one in each:
            self._name(one)
            if (at := first.setdefault(one.name, one.at)) != one.at:
                self._wrong(one.at, f"the {kind} {one.name!r} stands in line {at.line} already: rename one")

    def _name(self, one: Definition | Field | Case) -> None:
        if not _NAME.fullmatch(one.name):
            self._wrong(one.at, f"{one.name!r}: expected small letters, digits and single _, as 'unit_price'")
        if len(one.name) > MAX_NAME:
            self._wrong(one.at, f"a name of {len(one.name)} characters: expected {MAX_NAME} at most")
        if not one.description.strip():
            self._wrong(one.at, f"{one.name!r} has an empty description: say in a sentence what it is")

    def names_of_imports(self, scope: Scope, definitions: Sequence[Definition]) -> None:
        """A name of this file may not hide one that it imports: readers would take it for that one."""
        foreign = scope.outer.names if scope.outer is not None else {}
        for each in definitions:
            if not isinstance(each, Interface) and (found := foreign.get(each.name)):
                said = f"{each.name!r} is imported from {found.scope.where[0]} already: rename one"
                self._wrong(each.at, said)

    # --- types

    def _type(self, type_: Type | None, scope: Scope) -> None:
        match type_:
            case Path():
                self._named(type_, scope)
            case Applied(name=name, arguments=arguments):
                wanted = GENERIC.get(name, 0)
                if wanted != len(arguments):
                    said = f"takes {wanted or 'no'} {'type' if wanted == 1 else 'types'} in < >"
                    self._wrong(type_.at, f"{name!r} {said}, and has {len(arguments)} here: {_forms()}")
                for each in arguments:
                    self._type(each, scope)
                self._arguments(type_, scope)

    def _named(self, path: Path, scope: Scope) -> None:
        if str(path) in GENERIC:
            self._wrong(path.at, f"'{path}' of what? {_forms()}")
        elif str(path) not in BUILT_IN:
            found = scope.find(path)
            if found is None and self._is_whole:
                self._wrong(path.at, f"there is no type '{path}': define it, or import the file that does")
            elif found is not None and not found.is_type:
                kind = type(found.definition).__name__.lower()
                self._wrong(path.at, f"'{path}' is no type, it is the {kind} of that name: name a type")

    def _arguments(self, applied: Applied, scope: Scope) -> None:
        """Types that cannot stand in these, by whatever names they are known."""
        first, inner = plain(applied.arguments[0], scope)
        name = str(first) if isinstance(first, Path) else first.name
        if not self._is_whole and isinstance(first, Path) and inner.find(first) is None:
            return
        if applied.name == "dict" and name not in _KEYS:
            self._wrong(
                applied.at, f"keys of a dict are {' or '.join(_KEYS)}, not {first}: use an array of pairs"
            )
        elif applied.name == "option" and name in _WITH_NULL:
            self._wrong(applied.at, f"an option of {first} cannot say whether it is there: use a variant")

    def types_as_a_whole(self) -> None:
        """Those that need themselves."""
        circles = in_circles(self._types)
        for key in circles:
            each = self._types[key].definition
            self._wrong(each.at, f"{each.name!r} is a name for itself in the end: name a type that is not it")
        for key in self._types.keys() - circles:
            each, scope = self._types[key].definition, self._types[key].scope
            if isinstance(each, Alias) and is_alias(*plain(each.type, scope)):
                said = f"{each.name!r} leads through more than {MAX_ALIASES} names: name the type itself"
                self._wrong(each.at, said)
        smallest = parts(self._types)
        for key in self._types.keys() - smallest.keys() - circles:
            each = self._types[key].definition
            said = f"{each.name!r} has no end, since it needs itself: put an option or array between"
            self._wrong(each.at, said)
        large = f"has more than {MOST_PARTS} parts in each value: put an option or array between"
        self._first_above(smallest, MOST_PARTS, large)
        deep = f"has more than {MOST_LEVELS} types in each other: put fewer into each other"
        self._first_above(levels(self._types), MOST_LEVELS, deep)

    def _first_above(self, sizes: Mapping[Key, int], most: int, said: str) -> None:
        """The smallest that is too large: those that need it are so too."""
        above = [(size, key) for key, size in sizes.items() if size > most]
        if above:
            each = self._types[min(above)[1]].definition
            self._wrong(each.at, f"{each.name!r} {said}")


def _serves(block: Interface | Namespace) -> bool:
    return any(
        isinstance(each, Function) or (isinstance(each, Namespace) and _serves(each))
        for each in block.members
    )


def _forms() -> str:
    return "expected array<T>, option<T>, dict<K, V> or pair<A, B>"
