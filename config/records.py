"""Frozen records whose methods are not generated.

`dataclass` writes up to eight functions for a frozen class, and compiles them whenever the module is loaded.
The model has some eighty such classes. Records share their methods; `fields`, `replace` and `match` know
them as dataclasses.

Wrinkle: to make a record takes longer than to make a dataclass. They are made at a start, from a file.
"""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import partial
from typing import Any, Final, TypeVar, dataclass_transform

from treeconnector.wording import counted

Record = TypeVar("Record")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[Record], *, slots: bool = True, kw_only: bool = False) -> type[Record]:
    """Make a class a frozen record, with its fields in slots."""
    for name, method in _METHODS.items():
        setattr(cls, name, method)
    return dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)


def _init(self: Any, *given: Any, **named: Any) -> None:
    """Set each field to the value that is given for it, or to its default."""
    known = fields(self)
    places = [one.name for one in known if not one.kw_only]
    if len(given) > len(places):
        raise TypeError(
            f"{type(self).__name__} takes {counted(len(places), 'value')} without a name, not {len(given)}"
        )
    for name, value in zip(places, given, strict=False):
        if name in named:
            raise TypeError(f"{type(self).__name__} was given {name!r} twice")
        named[name] = value
    for one in known:
        value = named.pop(one.name) if one.name in named else _default(self, one)
        object.__setattr__(self, one.name, value)
    if named:
        raise TypeError(f"{type(self).__name__} has no {', '.join(map(repr, named))}")


def _default(self: Any, one: Field[Any]) -> Any:
    if one.default_factory is not MISSING:
        return one.default_factory()
    if one.default is MISSING:
        raise TypeError(f"{type(self).__name__} needs {one.name!r}")
    return one.default


def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _equal(self: Any, other: Any) -> Any:
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, one.name) == getattr(other, one.name) for one in fields(self) if one.compare)


def _hash(self: Any) -> int:
    return hash(
        tuple(getattr(self, one.name) for one in fields(self) if one.compare and one.hash in (None, True))
    )


def _refuse(self: Any, name: str, value: object = None) -> None:
    raise FrozenInstanceError(f"cannot change field {name!r} of {type(self).__name__}")


def _reduce(self: Any) -> tuple[Any, ...]:
    """Copy and pickle it by its fields: otherwise both set attributes."""
    return partial(self.__class__, **{one.name: getattr(self, one.name) for one in fields(self)}), ()


_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "__init__": _init,
    "__repr__": _repr,
    "__eq__": _equal,
    "__hash__": _hash,
    "__setattr__": _refuse,
    "__delattr__": _refuse,
    "__reduce__": _reduce,
}
