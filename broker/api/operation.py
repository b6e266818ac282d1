"""An operation: a question of an operator, or a deed, declared once, beside the function that does it.

    @operation("GET", "/api/links", "The links of a node.", "tree", (AT, *PAGE), remote="lm:links")
    def links(node: RunningNode, cut: Cut) -> Links: ...

The HTTP API, its OpenAPI description, the commands of the nodes' cells and the plain commands of the command
line are made of these declarations. The function takes the node, then its parameters by name: `limit` and
`after` as one `cut`, and `body` where there is one. Its return type is the type of the answer.

Law: a request is read by its description, whoever asks: a parameter that is not described, is missing, or is
out of its bounds is refused by name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from broker.api.pages import DEFAULT_LIMIT, MOST, Cut
from broker.core.errors import BadRequest
from broker.core.messages.queue_names import SYSTEM
from config.operators import Role

NDJSON: Final = "application/x-ndjson"
JSON: Final = "application/json"
_LONGEST: Final = 4096
_TRUE: Final = frozenset(("1", "true", "yes"))
_FALSE: Final = frozenset(("0", "false", "no", ""))
_TYPES: Final = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


class Answer(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all answers. Times in seconds, sizes in bytes; `at` is ISO 8601 in UTC.

    `next` of a page goes into `after` for the page that follows, null = there is none. `more`: how many
    follow.
    """


class Error(Answer):
    """What was wrong: `code` for programs, `text` for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """`kind`: of its value. `least`, `most`: of a number. `choices`: of a text.

    `unsaid`: its value where a node of an earlier version asks, which does not say it; None = the default.
    `argument`: on the command line it has a place and no name; that is how the place is called.
    `secret`: a value that is refused may be somebody's secret, and is nowhere kept as it is.
    """

    name: str
    text: str
    kind: Literal["string", "integer", "number", "boolean"] = "string"
    default: Any = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    in_path: bool = False
    unsaid: Any = None
    argument: str = ""
    secret: bool = False

    def read(self, given: str | None) -> Any:
        """The value of a text. Raises `BadRequest`."""
        return self.default if given is None else self._checked(self._value(given), given)

    def take(self, given: Any) -> Any:
        """The value that another node gives, None = none. Raises `BadRequest`."""
        if given is None:
            return self.default if self.unsaid is None else self.unsaid
        if not isinstance(given, _TYPES[self.kind]) or isinstance(given, bool) != (self.kind == "boolean"):
            raise BadRequest(f"{self.name} is no {'text' if self.kind == 'string' else self.kind}")
        return self._checked(given, str(given))

    def _checked(self, value: Any, given: str) -> Any:
        if len(given) > _LONGEST:
            raise BadRequest(f"{self.name} has {len(given)} characters: expected {_LONGEST} at most")
        if self.choices and value not in self.choices:
            choices = ", ".join(filter(None, self.choices))
            raise BadRequest(f"{self.name}={given[:40]!r}: expected one of {choices}")
        below = self.least is not None and not value >= self.least
        if below or (self.most is not None and value > self.most):
            most = "or more" if self.most is None else f"to {self.most:g}"
            raise BadRequest(f"{self.name}={given[:40]}: expected {self.least:g} {most}")
        return value

    def _value(self, given: str) -> Any:
        if self.kind == "string" or len(given) > _LONGEST:
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
        """Its JSON Schema."""
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


LIMIT: Final = Parameter(
    "limit", "How many at most.", "integer", default=DEFAULT_LIMIT, least=1, most=MOST, unsaid=MOST
)
AFTER: Final = Parameter("after", "`next` of the page before.")
PAGE: Final = (LIMIT, AFTER)
SEARCH: Final = Parameter("search", "Only those whose name holds this text.")
AT: Final = Parameter("node", "The node that is asked; this one if absent.")
NODE: Final = Parameter("node", "A node's name.", in_path=True)
GONE: Final = {404: "There is no such thing here."}
AWAY: Final = {
    **GONE,
    409: "REFUSED: that node answers its ancestors only.",
    504: "UNREACHABLE: that node does not answer.",
}


@dataclass(frozen=True, slots=True)
class PlainCommand:
    """A plain command of the command line: it asks, and prints an answer. `name`: behind its group's, if any.

    `pages`: the lists of the answer that are joined from pages. `texts`: of parameters, where the command
    line has others, and of the body's fields; `without`: those that it has not. `places`: what
    has a place and no name, and how the place is called. `sure`: a person is asked this first, `unless`
    this is given. `switches`: options that the view alone reads, and their texts; false unless given.
    """

    name: str
    help: str
    pages: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    places: Mapping[str, str] = field(default_factory=dict)
    sure: str = ""
    unless: str = ""
    switches: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `answer`: the type of the JSON, None where `media` says more than JSON.

    `work`: None = it is served elsewhere and only described here. `body`: type of the request's JSON.
    `takes`: media type of a body that is no JSON. `accounts`: applications may ask, with theirs or without.
    `errors`: HTTP status and what it means, beside those of all. `remote`: `CELL:NAME` of its command at
    other nodes, that of `System` by its name alone, '' = it has none; its parameter `node`, or that
    of the body, says which node.
    `changes`: it is answered when what it did is on disk. `permission`: which nodes may ask, beside the node.
    `role`: the least that its operator has; None = who sees the state may ask, and an operator may change it.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    summary: str
    tag: str
    answer: Any
    work: Callable[..., Any] | None = None
    parameters: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    errors: Mapping[int, str] = field(default_factory=dict)
    media: str = JSON
    takes: str = ""
    accounts: bool = False
    remote: str = ""
    changes: bool = False
    permission: Literal["ancestors", "tree"] = "ancestors"
    role: Role | None = None
    commands: tuple[PlainCommand, ...] = ()

    @property
    def noun(self) -> str:
        """The module that declares it, which its view is called after."""
        return self.work.__module__.rpartition(".")[2] if self.work is not None else ""

    @property
    def name(self) -> str:
        """The function that does it, which its view is called after."""
        return self.work.__name__ if self.work is not None else ""

    @property
    def least_role(self) -> Role:
        return self.role or ("viewer" if self.method == "GET" else "operator")

    @property
    def cell(self) -> tuple[str, str]:
        """(the cell, the command) that other nodes are asked by."""
        cell, _, command = self.remote.partition(":")
        return cell, command

    def read(self, in_path: Mapping[str, str], query: Mapping[str, str], data: bytes) -> dict[str, Any]:
        """What a request says, by name; `body` too. Raises `BadRequest`."""
        known = {parameter.name for parameter in self.parameters if not parameter.in_path}
        for name in query:
            if name not in known:
                expected = ", ".join(sorted(known)) or "none"
                raise BadRequest(f"no parameter {name[:40]!r}: expected {expected}")
        values = {
            each.name: each.read((in_path if each.in_path else query).get(each.name))
            for each in self.parameters
        }
        return values if self.body is None else {**values, "body": self._body(data)}

    def _body(self, data: bytes) -> Any:
        assert self.body is not None
        try:
            return msgspec.json.decode(data, type=self.body) if data else self.body()
        except (msgspec.DecodeError, ValueError, RecursionError, TypeError) as error:
            raise BadRequest(f"the body is not what was expected: {error}") from None

    def take(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """What another node asks, by name. What only later versions say is left out. Raises `BadRequest`."""
        values = {each.name: each.take(question.get(each.name)) for each in self.parameters}
        if self.body is None:
            return values
        known = {name: question[name] for name in self.body.__struct_fields__ if name in question}
        try:
            return {**values, "body": msgspec.convert(known, self.body)}
        except msgspec.ValidationError as error:
            raise BadRequest(f"not what was expected: {error}") from None

    def question(self, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """(the node that is meant, '' = this one; what it is asked)."""
        asked = {name: value for name, value in values.items() if name not in ("body", "node")}
        if self.body is not None:
            said = msgspec.structs.asdict(values["body"])
            asked |= {name: value for name, value in said.items() if value is not None}
        return str(asked.pop("node", "") or values.get("node", "")), asked

    def secrets(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Those that may be somebody's secret, by name."""
        found = ((each.name, values.get(each.name)) for each in self.parameters if each.secret)
        return [(name, value) for name, value in found if isinstance(value, str) and value]

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the function takes."""
        given = dict(values)
        other = given.pop("node", None)
        if other is not None and not self.remote:
            given["name"] = other
        if LIMIT in self.parameters and AFTER in self.parameters:
            given["cut"] = Cut(given.pop("limit"), given.pop("after"))
        return given


def operation(
    method: Literal["GET", "POST", "DELETE"],
    path: str,
    summary: str,
    tag: str,
    parameters: tuple[Parameter, ...] = (),
    *,
    remote: str = "",
    **more: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare what a function does: see `Operation`. It stays as it is."""

    def declare(work: Callable[..., Any]) -> Callable[..., Any]:
        answer = None if more.get("media") == NDJSON else work.__annotations__["return"]
        answer = more.pop("answer", answer)
        where = remote if ":" in remote or not remote else f"{SYSTEM}:{remote}"
        made = Operation(method, path, summary, tag, answer, work, parameters, remote=where, **more)
        work.operation = made  # type: ignore[attr-defined]
        return work

    return declare


def declared(module: Any) -> list[Operation]:
    """The operations of a module, in the order in which they stand there."""
    found = [getattr(each, "operation", each) for each in vars(module).values()]
    found = [each for each in found if isinstance(each, Operation)]
    return [each for each in found if each.work is None or each.work.__module__ == module.__name__]
