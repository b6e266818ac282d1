"""The names, options and help of the commands for a node's definitions."""

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.options import OperatorOptions, asks_a_node, group

definitions_app = group("Queues, durable subscriptions, static routes and permits of a node as one file.")

Out = Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to; standard output if absent.")]
In = Annotated[Path, typer.Argument(metavar="FILE", help="As `definitions export` has written it.")]
Check = Annotated[bool, typer.Option("--check", help="Say what would change, and change nothing.")]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.add_typer(definitions_app, name="definitions")


@definitions_app.command("export")
@asks_a_node
def definitions_export(file: Out = None, *, asked: OperatorOptions) -> None:
    """Write a node's definitions to a file, as JSON. It has no secret and no session's token."""
    from broker.cli.definitions import export_to

    export_to(asked.api, file)


@definitions_app.command("import")
@asks_a_node
def definitions_import(file: In, check: Check = False, *, asked: OperatorOptions) -> None:
    """Make what a file has and the node has not. Nothing is taken away; wrong files change nothing."""
    from broker.cli.definitions import import_from

    import_from(asked.api, file, check=check, as_json=asked.json)
