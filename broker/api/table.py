"""All operations, in the order in which they are described; and the catalogue of their commands.

A further noun is a further line here; a further operation of a noun is none.
"""

from typing import Any, Final

import msgspec
import msgspec.inspect

from broker.api import (
    addresses,
    advisories,
    alarms,
    below,
    cells,
    channels,
    dead_letters,
    definitions,
    deliveries,
    follow,
    history,
    invitations,
    links,
    live,
    messages,
    moves,
    node,
    permits,
    queues,
    routes,
    sessions,
    stateless,
    status,
    trace,
    trail,
    tree,
)
from broker.api.operation import AFTER, AT, Operation, Parameter, PlainCommand, declared

_SAID: Final = "The node whose it is; the one that is asked if absent."
_KINDS: Final = {
    msgspec.inspect.StrType: "string",
    msgspec.inspect.IntType: "integer",
    msgspec.inspect.FloatType: "number",
    msgspec.inspect.BoolType: "boolean",
    msgspec.inspect.ListType: "strings",
}
NOUNS: Final = (
    *(
        status,
        node,
        history,
        alarms,
        live,
        queues,
        messages,
        moves,
        sessions,
        dead_letters,
        advisories,
        tree,
        below,
        routes,
        cells,
        links,
    ),
    *(channels, deliveries, addresses, invitations, permits, definitions, trail, trace, follow, stateless),
)
OPERATIONS: Final[tuple[Operation, ...]] = tuple(each for noun in NOUNS for each in declared(noun))


def catalogue(operations: tuple[Operation, ...] = OPERATIONS) -> list[dict[str, Any]]:
    """The commands of operations, as JSON can say them. The command line reads a copy of them."""
    return [_command(each, command) for each in operations for command in each.commands]


def _command(operation: Operation, command: PlainCommand) -> dict[str, Any]:
    return {
        "name": command.name,
        "help": command.help,
        "method": operation.method,
        "path": operation.path,
        "cell": operation.cell[0] if operation.remote else "",
        "view": f"{operation.noun}:{operation.name}",
        "pages": list(command.pages),
        "sure": command.sure,
        "unless": command.unless,
        "switches": dict(command.switches),
        "parameters": [*_parameters(operation, command), *_of_body(operation, command)],
    }


def _parameters(operation: Operation, command: PlainCommand) -> list[dict[str, Any]]:
    """A field of the body stands for the parameter that says the same."""
    hidden = {*command.without, *(operation.body.__struct_fields__ if operation.body else ())}
    return [
        _parameter(each, command)
        for each in operation.parameters
        if each is not AFTER and each.name not in hidden
    ]


def _of_body(operation: Operation, command: PlainCommand) -> list[dict[str, Any]]:
    if operation.body is None:
        return []
    found = msgspec.inspect.type_info(operation.body)
    assert isinstance(found, msgspec.inspect.StructType)
    return [_field(each, command) for each in found.fields if each.name not in command.without]


def _field(found: msgspec.inspect.Field, command: PlainCommand) -> dict[str, Any]:
    """A field of a body, as a parameter of the command. Raises `KeyError` where its text is missing."""
    known = found.type.types if isinstance(found.type, msgspec.inspect.UnionType) else (found.type,)
    kind = next(_KINDS[type(each)] for each in known if type(each) in _KINDS)
    default = None if kind == "strings" or found.default is msgspec.NODEFAULT else found.default
    parameter = Parameter(found.name, command.texts[found.name], default=default)
    return {**_parameter(parameter, command), "kind": kind, "in_body": True}


def _parameter(parameter: Parameter, command: PlainCommand) -> dict[str, Any]:
    place = command.places.get(parameter.name) or parameter.argument
    return {
        "name": parameter.name,
        "text": command.texts.get(parameter.name, _SAID if parameter is AT else parameter.text),
        "kind": parameter.kind,
        "default": parameter.default,
        "least": parameter.least,
        "most": parameter.most,
        "in_path": parameter.in_path,
        "in_body": False,
        "argument": place or (parameter.name.upper() if parameter.in_path else ""),
    }
