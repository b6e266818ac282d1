"""An example of each type, as OCaml writes it: the same value that `sapwood.stub_samples` makes in Python."""

from dataclasses import dataclass
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


DEEPEST: Final = 3
"""Definitions in each other. Whatever may be empty further down is: many that need each other had no end."""


class _HoldsItself(Exception):
    """The value would hold one of its own type, which would hold another, and so on."""


@dataclass(slots=True)
class Samples:
    """Examples for one library. `makes_channels`: given_1, given_2 …, not a channel that nobody can take."""

    library: OcamlLibrary
    makes_channels: bool = False
    channels: int = 0

    def record(
        self, fields: tuple[Field, ...], scope: Scope, module: str, around: tuple[Key, ...] = ()
    ) -> str:
        """`module`: where its type is. `around`: the definitions that it stands in."""
        if not fields:
            return "()"
        parts = [f"{value(each.name)} = {self.value(each.type, scope, around)}" for each in fields]
        return listed("{", [f"{module}.{parts[0]}", *parts[1:]], "}")

    def value(self, type_: Type, scope: Scope, around: tuple[Key, ...] = ()) -> str:
        """A value of a type. Lists have one item, unless it would hold itself. Raises `_HoldsItself`."""
        if isinstance(type_, Applied):
            try:
                if type_.name != "pair" and len(around) > DEEPEST:
                    raise _HoldsItself
                inner = [self.value(each, scope, around) for each in type_.arguments]
            except _HoldsItself:
                if type_.name == "pair":
                    raise
                return "None" if type_.name == "option" else "[]"
            forms = {"array": "[ {} ]", "dict": "[ ({}, {}) ]", "option": "(Some {})", "pair": "({}, {})"}
            return forms[type_.name].format(*inner)
        found = scope.find(type_)
        if found is None:
            return self._basic(str(type_))
        if found.key in around:
            raise _HoldsItself
        return self._defined(found, (*around, found.key))

    def _basic(self, name: str) -> str:
        if name != "channel" or not self.makes_channels:
            return _VALUES[name]
        self.channels += 1
        return f"given_{self.channels}"

    def _defined(self, found: Found, around: tuple[Key, ...]) -> str:
        match found.definition:
            case Alias(type=type_):
                return self.value(type_, found.scope, around)
            case Struct(fields=fields):
                return self.record(fields, found.scope, self.library.module(found), around)
            case Variant(cases=cases):
                for case in cases:
                    name = f"{self.library.module(found)}.{capital(case.name)}"
                    try:
                        inner = self.value(case.type, found.scope, around) if case.type else ""
                    except _HoldsItself:
                        continue
                    return f"({name} {inner})" if inner else name
        raise _HoldsItself
