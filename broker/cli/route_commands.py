"""The names, options and help of the commands that change routes, here and elsewhere."""

from typing import Annotated

import typer

from broker.cli.options import OperatorOptions, asks_a_node, group
from treeconnector.static_routes import FORMS, one_of

route_app = group("Routes of a node, of this one or of one below it.")

Node = Annotated[str, typer.Option("--node", help="The node whose it is; the one that is asked if absent.")]
Kind = Annotated[str, typer.Argument(metavar="KIND", help=f"{one_of(FORMS)}.")]
Words = Annotated[
    list[str],
    typer.Argument(
        metavar="[ADDRESS] TO",
        help=f"{', '.join(route.form(kind) for kind, route in FORMS.items())};"
        " an ADDRESS is CELL or CELL@NODE.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.add_typer(route_app, name="route")


@route_app.command("add")
@asks_a_node
def route_add(kind: Kind, words: Words, node: Node = "", *, asked: OperatorOptions) -> None:
    """Set a route. It is kept until it is removed, or its neighbour leaves; adding it twice is an error."""
    from broker.cli.routes import change_route

    change_route(asked.api, "POST", kind, words, node, as_json=asked.json)


@route_app.command("remove")
@asks_a_node
def route_remove(kind: Kind, words: Words, node: Node = "", *, asked: OperatorOptions) -> None:
    """Remove a route that was set. Removing one that is not there is an error."""
    from broker.cli.routes import change_route

    change_route(asked.api, "DELETE", kind, words, node, as_json=asked.json)
