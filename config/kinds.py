"""The kinds of values that a setting can have: how each is written, checked and put into a schema.

Law: a kind is the only place that knows a value's spelling. Readers, writer, XSD and JSON Schema ask it,
so they cannot come apart. Patterns use only what Python, XSD and ECMAScript understand alike.

Wrinkle: durations are exact to one millisecond, so that what is written is what is read back.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, TypeVar

from config.records import record

Value = TypeVar("Value")
Facet = tuple[str, str]

INTEGER_LIMIT: Final = 2**53 - 1
"""Largest number that every JSON tool reads exactly."""

_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


class Fault(ValueError):
    """A value that is not allowed; the text says what was expected."""


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def anchored(pattern: str) -> str:
    """The same pattern for JSON Schema, which searches instead of matching the whole."""
    return f"^(?:{pattern})$"


def shown(text: str) -> str:
    """Quote `text` for an error: shortened, and without a password that stands in a URI."""
    hidden = re.sub(r"(//[^/@\s]*?:)[^/@\s]*@", r"\1***@", text)
    return repr(hidden if len(hidden) <= 60 else hidden[:57] + "...")


class Kind(ABC, Generic[Value]):
    """One kind of value. `tags`: YAML scalars that may carry it; `collapse`: space around it is no part."""

    tags: ClassVar[frozenset[str]] = frozenset({"text"})
    collapse: ClassVar[bool] = True
    unit: ClassVar[str] = ""
    expected: str

    @abstractmethod
    def parse(self, text: str) -> Value:
        """Read `text`; raise `Fault` when it is not of this kind."""

    @abstractmethod
    def text(self, value: Value) -> str:
        """Write `value` so that `parse` gives it back."""

    def native(self, value: Value) -> str | float | bool:
        """The value as YAML or JSON would carry it."""
        return self.text(value)

    def check(self, value: Any) -> str:
        """Say what is wrong with a value that a program made; an empty text when nothing is."""
        try:
            if self.parse(self.text(value)) == value:
                return ""
        except Fault as fault:
            return str(fault)
        except (ArithmeticError, AttributeError, TypeError, ValueError):
            pass
        return f"{shown(str(value))} is not {self.expected}"

    @abstractmethod
    def xsd(self) -> tuple[str, list[Facet]]:
        """The XSD base type and the facets that restrict it."""

    @abstractmethod
    def json(self) -> dict[str, Any]:
        """The JSON Schema of the value."""

    def refuse(self, text: str) -> Fault:
        return Fault(f"expected {self.expected}, found {shown(text)}")


@record
class Text(Kind[str]):
    """Text that matches `pattern` as a whole, and `never` not. `most`: characters, if the pattern bounds them
    not. `hints` maps a wrong text or beginning to advice.
    """

    expected: str
    pattern: str
    refused: tuple[str, ...] = ()
    never: str = ""
    most: int | None = None
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)

    def parse(self, text: str) -> str:
        for beginning, hint in self.hints.items():
            if text.lower().startswith(beginning):
                raise Fault(f"{shown(text)}: {hint}")
        too_long = self.most is not None and len(text) > self.most
        wrong = too_long or text in self.refused or (self.never and compiled(self.never).fullmatch(text))
        if wrong or _UNPRINTABLE.search(text) or not compiled(self.pattern).fullmatch(text):
            raise self.refuse(text)
        return text

    def text(self, value: str) -> str:
        return value

    def xsd(self) -> tuple[str, list[Facet]]:
        length = [] if self.most is None else [("maxLength", str(self.most))]
        return "xs:token", [*length, ("pattern", self.pattern)]

    def json(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string", "pattern": anchored(self.pattern)}
        if self.most is not None:
            schema["maxLength"] = self.most
        if self.never:
            return schema | {"not": {"pattern": anchored(self.never)}}
        return schema | {"not": {"enum": list(self.refused)}} if self.refused else schema


@record
class FilePath(Kind[Path]):
    """A file or folder. A relative one begins at the folder of the configuration file."""

    collapse: ClassVar[bool] = False
    expected: str = "a path of at most 4096 characters"

    def parse(self, text: str) -> Path:
        if not 0 < len(text) <= 4096 or _UNPRINTABLE.search(text):
            raise self.refuse(text)
        return Path(text)

    def text(self, value: Path) -> str:
        return str(value)

    def xsd(self) -> tuple[str, list[Facet]]:
        return "xs:string", [("minLength", "1"), ("maxLength", "4096"), ("pattern", r"[^\t\n\r]*")]

    def json(self) -> dict[str, Any]:
        allowed = anchored(r"[^\u0000-\u001f\u007f-\u009f]*")
        return {"type": "string", "minLength": 1, "maxLength": 4096, "pattern": allowed}


@record
class Boolean(Kind[bool]):
    """`true` or `false`."""

    tags: ClassVar[frozenset[str]] = frozenset({"boolean"})
    expected: str = "true or false"

    def parse(self, text: str) -> bool:
        if text not in ("true", "false"):
            raise self.refuse(text)
        return text == "true"

    def text(self, value: bool) -> str:
        return str(value).lower()

    def native(self, value: bool) -> bool:
        return value

    def xsd(self) -> tuple[str, list[Facet]]:
        return "xs:boolean", [("pattern", "true|false")]

    def json(self) -> dict[str, Any]:
        return {"type": "boolean"}


@record
class Choice(Kind[str]):
    """One of a few words."""

    words: tuple[str, ...]
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def expected(self) -> str:  # type: ignore[override]
        return " or ".join(", ".join(self.words).rsplit(", ", 1))

    def parse(self, text: str) -> str:
        if text in self.words:
            return text
        hint = self.hints.get(text, "")
        raise Fault(f"{self.refuse(text)}{'; ' if hint else ''}{hint}")

    def text(self, value: str) -> str:
        return value

    def xsd(self) -> tuple[str, list[Facet]]:
        return "xs:token", [("enumeration", word) for word in self.words]

    def json(self) -> dict[str, Any]:
        return {"enum": list(self.words)}


@record
class Whole(Kind[int]):
    """A whole number within bounds, both allowed."""

    minimum: int = 0
    maximum: int = INTEGER_LIMIT
    tags: ClassVar[frozenset[str]] = frozenset({"integer"})

    @property
    def expected(self) -> str:  # type: ignore[override]
        return f"a whole number from {self.minimum} to {self.maximum}"

    def parse(self, text: str) -> int:
        if (
            not compiled("0|[1-9][0-9]{0,15}").fullmatch(text)
            or not self.minimum <= int(text) <= self.maximum
        ):
            raise self.refuse(text)
        return int(text)

    def text(self, value: int) -> str:
        return str(int(value))

    def native(self, value: int) -> int:
        return value

    def xsd(self) -> tuple[str, list[Facet]]:
        bounds = [("minInclusive", str(self.minimum)), ("maxInclusive", str(self.maximum))]
        return "xs:integer", [("pattern", "0|[1-9][0-9]*"), *bounds]

    def json(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@record
class Share(Kind[float]):
    """A part of all, from 0 to 1, written as a decimal with up to three places."""

    tags: ClassVar[frozenset[str]] = frozenset({"integer", "number"})
    expected: str = "a share from 0 to 1 such as 0.05"

    def parse(self, text: str) -> float:
        if not compiled(_SHARE).fullmatch(text):
            raise self.refuse(text)
        return float(text)

    def text(self, value: float) -> str:
        if round(value, 3) != value:
            raise Fault(f"{value} is finer than a thousandth")
        return f"{value:g}"

    def native(self, value: float) -> float:
        return int(value) if value == int(value) else value

    def xsd(self) -> tuple[str, list[Facet]]:
        return "xs:decimal", [("pattern", _SHARE)]

    def json(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0, "maximum": 1}


_SHARE: Final = r"0(\.[0-9]{1,3})?|1(\.0{1,3})?"
_DURATION_UNITS: Final = {
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
_DURATION: Final = r"([0-9]{1,12}(\.[0-9]{1,3})?(w|d|h|m|s|ms)){1,6}"
_SECONDS: Final = r"[0-9]{1,12}(\.[0-9]{1,3})?"
_DAY: Final = 86_400


@record
class Duration(Kind[float]):
    """A time in seconds, written `10s`, `500ms`, `2h30m`, `7d` or as a bare number of seconds."""

    minimum: float = 0.0
    maximum: float = 3650.0 * _DAY
    tags: ClassVar[frozenset[str]] = frozenset({"text", "integer", "number"})
    unit: ClassVar[str] = "duration"

    @property
    def expected(self) -> str:  # type: ignore[override]
        bounds = f"{self.text(self.minimum)} to {self.text(self.maximum)}"
        return f"a duration such as 10s, 500ms, 2h30m or 7d (a bare number is seconds) from {bounds}"

    def parse(self, text: str) -> float:
        milliseconds = self._milliseconds(text)
        if milliseconds != int(milliseconds):
            raise Fault(f"{shown(text)} is finer than one millisecond")
        if not self.minimum * 1000 <= milliseconds <= self.maximum * 1000:
            raise self.refuse(text)
        return int(milliseconds) / 1000

    def _milliseconds(self, text: str) -> Decimal:
        if compiled(_SECONDS).fullmatch(text):
            return Decimal(text) * 1000
        if not compiled(_DURATION).fullmatch(text):
            raise self.refuse(text)
        parts = compiled(r"([0-9.]+)([a-z]+)").findall(text)
        units = [unit for _, unit in parts]
        if units != [unit for unit in _DURATION_UNITS if unit in units]:
            raise Fault(f"{shown(text)}: write every unit once, from the longest to the shortest")
        return sum((Decimal(number) * _DURATION_UNITS[unit] for number, unit in parts), Decimal(0))

    def text(self, value: float) -> str:
        rest = round(value * 1000)
        if rest / 1000 != value:
            raise Fault(f"{value} seconds are finer than one millisecond")
        written = ""
        for unit, length in list(_DURATION_UNITS.items())[1:]:
            count, rest = divmod(rest, length)
            written += f"{count}{unit}" if count else ""
        return written or "0s"

    def xsd(self) -> tuple[str, list[Facet]]:
        return "xs:token", [("pattern", f"{_SECONDS}|{_DURATION}")]

    def json(self) -> dict[str, Any]:
        seconds = {"type": "number", "minimum": self.minimum, "maximum": self.maximum}
        return {"anyOf": [seconds, {"type": "string", "pattern": anchored(f"{_SECONDS}|{_DURATION}")}]}


SIZE_UNITS: Final = {
    "TiB": 2**40,
    "GiB": 2**30,
    "MiB": 2**20,
    "KiB": 2**10,
    "TB": 10**12,
    "GB": 10**9,
    "MB": 10**6,
    "KB": 10**3,
    "B": 1,
}
_SIZE: Final = "[0-9]{1,16}([KMGT]i?B|B)?"


@record
class Size(Kind[int]):
    """A number of bytes, written `64KiB`, `10MB` or bare."""

    minimum: int = 0
    maximum: int = INTEGER_LIMIT
    tags: ClassVar[frozenset[str]] = frozenset({"text", "integer"})
    unit: ClassVar[str] = "size"

    @property
    def expected(self) -> str:  # type: ignore[override]
        bounds = f"{self.text(self.minimum)} to {self.text(self.maximum)}"
        return f"a size such as 64KiB, 10MB or 4096 (a bare number is bytes) from {bounds}"

    def parse(self, text: str) -> int:
        if not compiled(_SIZE).fullmatch(text):
            raise self.refuse(text)
        number = text.rstrip("KMGTiB")
        size = int(number) * SIZE_UNITS[text[len(number) :] or "B"]
        if not self.minimum <= size <= self.maximum:
            raise self.refuse(text)
        return size

    def text(self, value: int) -> str:
        for unit, length in SIZE_UNITS.items():
            if value >= length and value % length == 0:
                return f"{value // length}{unit}" if unit != "B" else str(int(value))
        return str(int(value))

    def xsd(self) -> tuple[str, list[Facet]]:
        return "xs:token", [("pattern", _SIZE)]

    def json(self) -> dict[str, Any]:
        number = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        return {"anyOf": [number, {"type": "string", "pattern": anchored(_SIZE)}]}
