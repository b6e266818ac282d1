"""An example of each type, as OCaml writes it: the same value that `sapwood.stub_samples` makes in Python."""

from typing import Final

from interfaces.model import Alias, Applied, Field, Struct, Type, Variant
from interfaces.ocaml.names import capital, value
from interfaces.ocaml.text import listed
from interfaces.ocaml.types import OcamlLibrary
from interfaces.scope import Found, Key, Scope

_VALUES: Final = {
    "int64": "1L",
    "double": "1.5",
    "string": '"text"',
    "boolean": "true",
    "unit": "()",
    "channel": "Sapwood.Channel.sample",
}


class _HoldsItself(Exception):
    """The value would hold one of its own type, which would hold another, and so on."""


def sample(library: OcamlLibrary, fields: tuple[Field, ...], scope: Scope, module: str) -> str:
    """A record. `module`: where its type is."""
    return _record(library, fields, scope, module, ())


def value_of(library: OcamlLibrary, type_: Type, scope: Scope, around: tuple[Key, ...] = ()) -> str:
    """A value of a type. Lists have one item, unless it would hold itself. Raises `_HoldsItself`."""
    if isinstance(type_, Applied):
        try:
            inner = [value_of(library, each, scope, around) for each in type_.arguments]
        except _HoldsItself:
            if type_.name == "pair":
                raise
            return "None" if type_.name == "option" else "[]"
        forms = {"array": "[ {} ]", "dict": "[ ({}, {}) ]", "option": "(Some {})", "pair": "({}, {})"}
        return forms[type_.name].format(*inner)
    found = scope.find(type_)
    if found is None:
        return _VALUES[str(type_)]
    if found.key in around:
        raise _HoldsItself
    return _defined(library, found, (*around, found.key))


def _defined(library: OcamlLibrary, found: Found, around: tuple[Key, ...]) -> str:
    match found.definition:
        case Alias(type=type_):
            return value_of(library, type_, found.scope, around)
        case Struct(fields=fields):
            return _record(library, fields, found.scope, library.module(found), around)
        case Variant(cases=cases):
            for case in cases:
                name = f"{library.module(found)}.{capital(case.name)}"
                try:
                    inner = value_of(library, case.type, found.scope, around) if case.type else ""
                except _HoldsItself:
                    continue
                return f"({name} {inner})" if inner else name
    raise _HoldsItself


def _record(
    library: OcamlLibrary, fields: tuple[Field, ...], scope: Scope, module: str, around: tuple[Key, ...]
) -> str:
    if not fields:
        return "()"
    parts = [f"{value(each.name)} = {value_of(library, each.type, scope, around)}" for each in fields]
    return listed("{", [f"{module}.{parts[0]}", *parts[1:]], "}")
