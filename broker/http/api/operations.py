"""What an operation of the API is, so that it can be served and described from the same words.

Law: a request is read by its description: a parameter that is not described, is missing, or is out of its
bounds is refused by name.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
from aiohttp import web

from broker.core.errors import BadRequest

NDJSON: Final = "application/x-ndjson"
JSON: Final = "application/json"
_LONGEST: Final = 4096
_TRUE: Final = frozenset(("1", "true", "yes"))
_FALSE: Final = frozenset(("0", "false", "no", ""))


@dataclass(frozen=True, slots=True)
class Parameter:
    """`kind`: of its value. `least`, `most`: of a number. `choices`: of a text."""

    name: str
    text: str
    kind: Literal["string", "integer", "number", "boolean"] = "string"
    default: Any = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    in_path: bool = False

    def read(self, given: str | None) -> Any:
        """The value of what was given. Raises `BadRequest`."""
        if given is None:
            return self.default
        value = self._value(given)
        if self.choices and value not in self.choices:
            choices = ", ".join(filter(None, self.choices))
            raise BadRequest(f"{self.name}={given[:40]!r}: expected one of {choices}")
        below = self.least is not None and not value >= self.least
        if below or (self.most is not None and value > self.most):
            raise BadRequest(f"{self.name}={given[:40]}: expected {self.least:g} to {self.most:g}")
        return value

    def _value(self, given: str) -> Any:
        if len(given) > _LONGEST:
            raise BadRequest(f"{self.name} has {len(given)} characters: expected {_LONGEST} at most")
        if self.kind == "string":
            return given
        if self.kind == "boolean":
            if given.lower() not in _TRUE | _FALSE:
                raise BadRequest(f"{self.name}={given[:40]!r}: expected 0 or 1")
            return given.lower() in _TRUE
        try:
            return int(given) if self.kind == "integer" else float(given)
        except ValueError:
            raise BadRequest(f"{self.name}={given[:40]!r}: expected a number") from None

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": self.kind}
        if self.choices:
            found["enum"] = list(self.choices)
        if self.least is not None:
            found["minimum"] = self.least
        if self.most is not None:
            found["maximum"] = self.most
        if self.default not in (None, ""):
            found["default"] = self.default
        return found


class Call:
    """One request, read. `values`: of all parameters, by name. `body`: None where there is none."""

    __slots__ = ("body", "request", "values")

    def __init__(self, request: web.Request, values: Mapping[str, Any], body: Any) -> None:
        self.request = request
        self.values = values
        self.body = body

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `answer`: type of the JSON, or None where `media` says more than JSON.

    `handler` None: it is served elsewhere and only described here. `body`: type of the request's JSON;
    `optional_body`: it may be left out. `errors`: HTTP status and what it means, beside those of all.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    summary: str
    tag: str
    answer: Any
    handler: Handler | None = None
    parameters: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    errors: Mapping[int, str] = field(default_factory=dict)
    media: str = JSON

    async def read(self, request: web.Request) -> Call:
        """The request, by the description. Raises `BadRequest`."""
        known = {parameter.name for parameter in self.parameters if not parameter.in_path}
        for name in request.query:
            if name not in known:
                expected = ", ".join(sorted(known)) or "none"
                raise BadRequest(f"no parameter {name[:40]!r}: expected {expected}")
        values = {
            each.name: each.read((request.match_info if each.in_path else request.query).get(each.name))
            for each in self.parameters
        }
        return Call(request, values, await self._body(request))

    async def _body(self, request: web.Request) -> Any:
        if self.body is None:
            return None
        data = await request.read()
        if not data:
            return self.body()
        try:
            return msgspec.json.decode(data, type=self.body)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BadRequest(f"the body is not what was expected: {error}") from None
