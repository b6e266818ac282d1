"""The names, options and help of the commands that show and change what children may do."""

from typing import Annotated

import typer

from broker.cli.options import OperatorOptions, asks_a_node

permits_app = typer.Typer(
    help="What children may consume and send.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Node = Annotated[
    str, typer.Option("--node", help="The node whose child it is; the one that is asked if absent.")
]
Child = Annotated[str, typer.Argument(metavar="CHILD", help="The child's name.")]
Consume = Annotated[
    list[str] | None,
    typer.Option(
        "--consume", help="A topic or queue, as prices/# or queue:orders; may be given several times."
    ),
]
Send = Annotated[
    list[str] | None,
    typer.Option("--send", help="The same, or a cell, as till@hq; 'nothing' alone: nothing at all."),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option("--nodes", help="A node that it may have below it; '*' is any text."),
]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.add_typer(permits_app, name="permits")


@permits_app.command("set")
@asks_a_node
def permits_set(
    child: Child,
    consume: Consume = None,
    send: Send = None,
    nodes: Nodes = None,
    node: Node = "",
    *,
    asked: OperatorOptions,
) -> None:
    """Say what a child may do, whatever the file says. At once, with no link dropped; until unset."""
    from broker.cli.permits import set_permit

    set_permit(asked.api, child, consume, send, nodes, node, as_json=asked.json)


@permits_app.command("unset")
@asks_a_node
def permits_unset(child: Child, node: Node = "", *, asked: OperatorOptions) -> None:
    """Let the site's file say again what a child may do."""
    from broker.cli.permits import unset_permit

    unset_permit(asked.api, child, node, as_json=asked.json)
