"""The names of definitions in Python."""

from keyword import iskeyword
from typing import Final

from interfaces.model import Interface
from interfaces.scope import Found

_TAKEN: Final = frozenset(
    ("bool", "dict", "float", "int", "list", "property", "self", "str", "super", "tuple")
)
"""Words that generated classes use: a member of that name would hide them."""

_TAKEN_CLASSES: Final = frozenset(
    {
        "Awaitable",
        "Caller",
        "Channel",
        "DeclaredError",
        "False",
        "Function",
        "Int64",
        "Interface",
        "None",
        "Protocol",
        "Rpc",
        "Struct",
    }
    | {"SyncCaller", "SyncRpc", "SystemExit", "True", "TypeAlias", "Unimplemented"}
)


def member(name: str) -> str:
    """The name of a field, a function or a namespace: its own, or with _ behind it."""
    return f"{name}_" if iskeyword(name) or name in _TAKEN else name


def class_name(*names: str) -> str:
    """`history.stock_level` is HistoryStockLevel."""
    joined = "".join(part[:1].upper() + part[1:] for name in names for part in name.split("_"))
    return f"{joined}_" if joined in _TAKEN_CLASSES else joined


def of_definition(found: Found) -> str:
    """The class or alias of a type or an error: with the names of its namespaces, without its interface's."""
    namespaces = found.scope.where[2:]
    return class_name(*namespaces, found.definition.name)


def of_module(interface: Interface) -> str:
    """The module of a version: the next minor version takes its place."""
    return f"{interface.name}_v{interface.version[0]}"
