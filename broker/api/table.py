"""All operations, in the order in which they are described; and the catalogue of their commands.

A further noun is a further line here; a further operation of a noun is none.
"""

from typing import Any, Final

from broker.api import (
    addresses,
    advisories,
    cells,
    dead_letters,
    follow,
    invitations,
    links,
    live,
    messages,
    node,
    permits,
    queues,
    routes,
    sessions,
    status,
    trace,
    tree,
)
from broker.api.operation import AFTER, AT, Operation, Parameter, PlainCommand, declared

_SAID: Final = "The node whose it is; the one that is asked if absent."
NOUNS: Final = (
    *(status, node, live, queues, messages, sessions, dead_letters, advisories, tree, routes, cells, links),
    *(addresses, invitations, permits, trace, follow),
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
        "view": f"{operation.noun}:{operation.name}",
        "pages": list(command.pages),
        "sure": command.sure,
        "parameters": [
            _parameter(each, command.texts)
            for each in operation.parameters
            if each is not AFTER and each.name not in command.without
        ],
    }


def _parameter(parameter: Parameter, texts: Any) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "text": texts.get(parameter.name, _SAID if parameter is AT else parameter.text),
        "kind": parameter.kind,
        "default": parameter.default,
        "least": parameter.least,
        "most": parameter.most,
        "in_path": parameter.in_path,
        "argument": parameter.argument or (parameter.name.upper() if parameter.in_path else ""),
    }
