"""How the model describes itself: one record for each setting, read by everything else.

Law: the model's classes are the only list of settings. Readers, writer, schemas and reference files walk
`settings(SECTION)` and know nothing of their own. XML spells a name in camelCase, YAML in snake_case.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, field, fields
from functools import cache
from typing import Any, Final, Protocol, TypeVar, dataclass_transform

from config.kinds import Kind
from config.records import record

Section = TypeVar("Section")
Path = tuple[str | int, ...]
"""Where a setting stands in the model: names, and positions in lists."""


@record
class Scalar:
    """One value. `aside`: it excludes another setting, so the reference file only describes it.

    `alone`: in YAML the section may be this value instead, `permits: open`.
    """

    name: str
    meaning: str
    kind: Kind[Any]
    default: Any
    required: bool
    example: Any
    aside: bool
    alone: bool


@record
class Part:
    """A section inside a section; it exists always, with its defaults."""

    name: str
    meaning: str
    section: type[Any]
    default: Any


@record
class Values:
    """A list of values. In XML an element `name` holds one element `item` for each."""

    name: str
    meaning: str
    item: str
    kind: Kind[Any]
    example: tuple[Any, ...]


@record
class Parts:
    """A list of sections, at most `maximum` of them if that is set.

    `bare`: in XML an element `item` may stand without the list's own around it.
    """

    name: str
    meaning: str
    item: str
    section: type[Any]
    maximum: int | None
    bare: bool = False


Setting = Scalar | Part | Values | Parts


class _Make(Protocol):
    def __call__(self, name: str) -> Setting: ...


def value(
    kind: Kind[Any],
    meaning: str,
    *,
    default: Any = MISSING,
    example: Any = None,
    aside: bool = False,
    alone: bool = False,
) -> Any:
    """Declare a value; without `default` it is required, with `default=None` it may be absent."""

    def make(name: str) -> Setting:
        given = None if default is MISSING else default
        return Scalar(name, meaning, kind, given, default is MISSING, example, aside, alone)

    return _declare(make, default)


def part(meaning: str, *, default: Any) -> Any:
    """Declare a section inside a section; `default` is it with its defaults."""
    return _declare(lambda name: Part(name, meaning, type(default), default), default)


def values(kind: Kind[Any], meaning: str, *, item: str, example: tuple[Any, ...], default: Any) -> Any:
    """Declare a list of values."""
    return _declare(lambda name: Values(name, meaning, item, kind, example), default)


def parts(
    section: type[Any],
    meaning: str,
    *,
    item: str,
    maximum: int | None = None,
    bare: bool = False,
    default: Any,
) -> Any:
    """Declare a list of sections."""
    return _declare(lambda name: Parts(name, meaning, item, section, maximum, bare), default)


def _declare(make: _Make, default: Any) -> Any:
    metadata = {"setting": make}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(value, part, values, parts))
def section(cls: type[Section]) -> type[Section]:
    """Make a class a section of the model: frozen, slotted, arguments by keyword only."""
    return record(cls, kw_only=True)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(value, part, values, parts))
def portion(cls: type[Section]) -> type[Section]:
    """Make a class some of the settings of a section: a section with several such bases has them all."""
    return record(cls, slots=False, kw_only=True)


def settings(cls: type[Any]) -> tuple[Setting, ...]:
    """Return the settings of a section in the order in which the model declares them."""
    if cls not in _SETTINGS:
        _SETTINGS[cls] = tuple(field.metadata["setting"](field.name) for field in fields(cls))
    return _SETTINGS[cls]


_SETTINGS: Final[dict[type[Any], tuple[Setting, ...]]] = {}


def differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield the settings, `listener.port`, that two sections of one class do not agree on; a list is one."""
    for setting in settings(type(one)):
        name = f"{path}{setting.name}"
        first, second = getattr(one, setting.name), getattr(other, setting.name)
        if isinstance(setting, Part):
            yield from differing(first, second, f"{name}.")
        elif first != second:
            yield name


def alone(cls: type[Any]) -> Scalar | None:
    """Return the setting that may stand for a whole section in YAML, if it has one."""
    return next((one for one in settings(cls) if isinstance(one, Scalar) and one.alone), None)


def every_setting(cls: type[Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Setting]]:
    """Yield all settings below `cls` with their paths (lists without positions)."""
    for setting in settings(cls):
        yield (*path, setting.name), setting
        if isinstance(setting, Part | Parts):
            yield from every_setting(setting.section, (*path, setting.name))


@cache
def camel(name: str) -> str:
    """Return `advise_down` as `adviseDown`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


Spelling = Callable[[str], str]
"""How a file writes the name of a setting."""

XML: Final[Spelling] = camel
YAML: Final[Spelling] = str
