"""Files of definitions, as values. Two are equal if they say the same, wherever it stands.

Whatever has a name has a description. Positions take no part in comparisons.
"""

from dataclasses import dataclass, field
from typing import Final

BASIC: Final = ("int64", "string", "double", "boolean", "unit")
ABSTRACT: Final = ("channel",)
"""Types that say what may be done with a value, not what it holds."""
GENERIC: Final = {"array": 1, "dict": 2, "option": 1, "pair": 2}
"""How many types each is made of."""
BUILT_IN: Final = (*BASIC, *ABSTRACT, *GENERIC)


@dataclass(frozen=True, slots=True, order=True)
class At:
    """A place in a file, from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Path:
    """A name that means a definition or a type of the language: `article`, or `prices.amount`."""

    names: tuple[str, ...]
    at: At = field(compare=False)

    def __str__(self) -> str:
        return ".".join(self.names)


@dataclass(frozen=True, slots=True)
class Applied:
    """A type made of others: `array<T>`, `dict<K, V>`, `option<T>`, `pair<A, B>`."""

    name: str
    arguments: tuple["Type", ...]
    at: At = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name}<{', '.join(map(str, self.arguments))}>"


Type = Path | Applied


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct, an input or an output."""

    name: str
    type: Type
    description: str
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """A case of a variant, with or without a value."""

    name: str
    type: Type | None
    description: str
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class Struct:
    name: str
    description: str
    fields: tuple[Field, ...]
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    description: str
    cases: tuple[Case, ...]
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name for a type."""

    name: str
    type: Type
    description: str
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class Error:
    """An error that functions may declare, with or without a value."""

    name: str
    type: Type | None
    description: str
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class Function:
    """`inputs` and `outputs` are known by name; `raises` names declared errors."""

    name: str
    description: str
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    raises: tuple[Path, ...]
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    description: str
    members: tuple["Member", ...]
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class Interface:
    """`version`: major and minor. `owners`: whoever answers for it."""

    name: str
    version: tuple[int, int]
    description: str
    owners: tuple[str, ...]
    members: tuple["Member", ...]
    at: At = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name} {self.version[0]}.{self.version[1]}"


Shared = Struct | Variant | Alias | Error
Member = Shared | Namespace | Function
Definition = Member | Interface


@dataclass(frozen=True, slots=True)
class Import:
    """Another file, by its path from this one."""

    path: str
    at: At = field(compare=False)


@dataclass(frozen=True, slots=True)
class File:
    imports: tuple[Import, ...]
    definitions: tuple[Shared | Interface, ...]
