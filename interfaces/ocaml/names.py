"""The names of definitions in OCaml."""

from typing import Final

from interfaces.load import SUFFIX
from interfaces.model import Interface
from interfaces.python.names import of_module
from interfaces.scope import Found

_KEYWORDS: Final = frozenset(
    [
        "and",
        "as",
        "assert",
        "asr",
        "begin",
        "class",
        "constraint",
        "do",
        "done",
        "downto",
        "else",
        "end",
        "exception",
        "external",
        "false",
        "for",
        "fun",
        "function",
        "functor",
        "if",
        "in",
        "include",
        "inherit",
        "initializer",
        "land",
        "lazy",
        "let",
        "lor",
        "lsl",
        "lsr",
        "lxor",
        "match",
        "method",
        "mod",
        "module",
        "mutable",
        "new",
        "nonrec",
        "object",
        "of",
        "open",
        "or",
        "private",
        "rec",
        "sig",
        "struct",
        "then",
        "to",
        "true",
        "try",
        "type",
        "val",
        "virtual",
        "when",
        "while",
        "with",
    ]
)
_TAKEN: Final = frozenset({"Calls", "In", "Out", "Rpc", "Sapwood", "Server", "Types"})
"""Modules that generated code uses: one of that name would hide them."""


def value(name: str) -> str:
    """The name of a field, an input or a function: its own, or with _ behind it."""
    return f"{name}_" if name in _KEYWORDS else name


def capital(*names: str) -> str:
    """`history.stock_level` is History_stock_level: a case, or the beginning of a module's name."""
    joined = "_".join(names)
    return joined[:1].upper() + joined[1:]


def module(package: str, *names: str) -> str:
    """The module of a definition, a function or a namespace. `package`: no library of it is hidden."""
    made = capital(*names)
    return f"{made}_" if made in _TAKEN or made.startswith(f"{capital(package)}_") else made


def of_definition(package: str, found: Found) -> str:
    """The module of a type or an error: with the names of its namespaces, without its interface's."""
    return module(package, *found.scope.where[2:], found.definition.name)


def of_file(file: str) -> str:
    """The subpackage of a file's types."""
    return file.removesuffix(SUFFIX).replace("/", "_").lower()


def of_interface(interface: Interface) -> str:
    """The subpackage of a version: the next minor version takes its place."""
    return of_module(interface)
