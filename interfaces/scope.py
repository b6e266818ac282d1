"""Which definition a name means: the nearest of that name, from the block where it stands outwards.

Inside a file come its own blocks, then the file, then what the files that it imports define at their top.
Functions and interfaces are no part of it: nothing names them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from interfaces.model import (
    Alias,
    Definition,
    Error,
    File,
    Function,
    Interface,
    Namespace,
    Path,
    Shared,
    Type,
)

MAX_ALIASES: Final = 32
"""Names for names that are followed."""

Key = tuple[str, ...]
"""Where a definition stands: its file, and the names of the blocks down to it."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """The names of one block, and the blocks around it."""

    where: Key
    names: dict[str, "Found"] = field(repr=False)
    outer: "Scope | None" = None

    def inside(self, block: Interface | Namespace) -> "Scope":
        """The scope of a block that stands in this one."""
        name = str(block) if isinstance(block, Interface) else block.name
        return _scope((*self.where, name), block.members, self)

    def find(self, path: Path) -> "Found | None":
        """The definition that a path means. None: there is none of that name."""
        scope: Scope | None = self
        first, *further = path.names
        while scope is not None and first not in scope.names:
            scope = scope.outer
        found = scope.names[first] if scope is not None else None
        for name in further:
            found = found.inner.names.get(name) if found is not None and found.inner is not None else None
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A definition, the scope in which it stands, and that of its own block if it is a namespace."""

    definition: Shared | Namespace
    scope: Scope
    inner: Scope | None

    @property
    def key(self) -> Key:
        return (*self.scope.where, self.definition.name)

    @property
    def is_type(self) -> bool:
        return not isinstance(self.definition, Error | Namespace)


def scopes(files: Mapping[str, File], imports: Mapping[str, Iterable[str]]) -> dict[str, Scope]:
    """The scope of each file. `imports`: the files that it imports, which stand before it in `files`."""
    made: dict[str, Scope] = {}
    for name, file in files.items():
        foreign = Scope((name,), {})
        for imported in imports[name]:
            for word, found in made[imported].names.items():
                foreign.names.setdefault(word, found)
        made[name] = _scope((name,), file.definitions, foreign)
    return made


def _scope(where: Key, definitions: Iterable[Definition], outer: Scope) -> Scope:
    """Of two definitions of one name the first counts."""
    scope = Scope(where, {}, outer)
    for each in definitions:
        if not isinstance(each, Function | Interface) and each.name not in scope.names:
            inner = scope.inside(each) if isinstance(each, Namespace) else None
            scope.names[each.name] = Found(each, scope, inner)
    return scope


def plain(type_: Type, scope: Scope) -> tuple[Type, Scope]:
    """The type that a name means in the end, and the scope in which that stands; other types as they are."""
    for _ in range(MAX_ALIASES):
        found = scope.find(type_) if isinstance(type_, Path) else None
        if found is None or not isinstance(found.definition, Alias):
            break
        type_, scope = found.definition.type, found.scope
    return type_, scope


def is_alias(type_: Type, scope: Scope) -> bool:
    """Is this the name of an alias?"""
    found = scope.find(type_) if isinstance(type_, Path) else None
    return found is not None and isinstance(found.definition, Alias)
