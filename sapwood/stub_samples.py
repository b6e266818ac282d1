"""A value of each type that an interface can have, for tests of callers."""

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec
from msgspec import inspect

from sapwood.channels.urls import ChannelUrls

CHANNEL: Final = ChannelUrls(urls=[f"sapwood://nowhere/channel-{'0' * 32}"], secret="A" * 43)
"""A channel that nobody has: it is of its form, and cannot be taken."""

_DEEPEST: Final = 4
"""Classes in each other. Whatever may be empty further down is: many that need each other had no end."""

Kind = TypeVar("Kind", bound=msgspec.Struct)


def sample(kind: type[Kind]) -> Kind:
    """A value of a generated class. Lists and dicts have one item, unless it would hold itself."""
    return msgspec.convert(_value(inspect.type_info(kind), ()), kind, str_keys=True)


class _Endless(Exception):
    """The value would hold one of its own type, which would hold another, and so on."""


def _value(type_: inspect.Type, around: tuple[type, ...]) -> object:
    """`around`: the classes that it stands in. Raises `_Endless`."""
    match type_:
        case inspect.IntType():
            return 1
        case inspect.FloatType():
            return 1.5
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return True
        case inspect.ListType(item_type=item):
            return _first([[item]], around, otherwise=[])
        case inspect.DictType(key_type=key, value_type=value):
            pair = _first([[key, value]], around, otherwise=[])
            return {pair[0]: pair[1]} if pair else {}
        case inspect.TupleType(item_types=items):
            return [_value(item, around) for item in items]
        case inspect.UnionType(types=types):
            cases = [[each] for each in types if not isinstance(each, inspect.NoneType)]
            return _only(_first(cases, around, otherwise=[None] if type_.includes_none else None))
        case inspect.StructType(cls=cls) if cls is ChannelUrls:
            return msgspec.to_builtins(CHANNEL)
        case inspect.StructType(cls=cls) if cls not in around:
            return _struct(type_, (*around, cls))
        case inspect.StructType():
            raise _Endless
    return None


def _struct(type_: inspect.StructType, around: tuple[type, ...]) -> dict[str, object]:
    tag = {type_.tag_field: type_.tag} if type_.tag_field else {}
    return {**tag, **{each.encode_name: _value(each.type, around) for each in type_.fields}}


def _first(
    several: Iterable[list[inspect.Type]], around: tuple[type, ...], otherwise: list[object] | None
) -> list[object] | None:
    """Values of the first types that have an end. `otherwise`: a value without them, if there is one."""
    if otherwise is not None and len(around) > _DEEPEST:
        return otherwise
    for types in several:
        try:
            return [_value(each, around) for each in types]
        except _Endless:
            continue
    return otherwise


def _only(values: list[object] | None) -> object:
    if values is None:
        raise _Endless
    return values[0]
