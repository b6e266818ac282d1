"""The names, options and help of the commands by which children are invited and join."""

from pathlib import Path
from typing import Annotated

import typer

from broker.cli.options import Json, Limit, OperatorOptions, asks_a_node


def add_to(app: typer.Typer) -> None:
    """Put the commands on the program."""
    app.command()(invite)
    app.command()(join)


@asks_a_node
def invite(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new child, such as store-0042.")] = "",
    role: Annotated[str, typer.Option("--role", help="leaf or branch.")] = "leaf",
    uri: Annotated[
        list[str] | None,
        typer.Option("--uri", help="How the child reaches this node, if not as it announces itself."),
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", help="How long the token is good, as 2h or 7d.")
    ] = "1d",
    list_: Annotated[bool, typer.Option("--list", help="Instead: invitations and who has joined.")] = False,
    revoke: Annotated[
        str,
        typer.Option(
            "--revoke",
            help="Instead: take back an invitation (NAME or id), or a child's right.",
            metavar="NAME",
        ),
    ] = "",
    limit: Limit = 100,
    *,
    asked: OperatorOptions,
) -> None:
    """Print a token with which a fresh machine joins, once. It becomes a child of the node that is asked."""
    from broker.cli.enrol import ChildWanted, invite_child, list_invitations, revoke_child
    from broker.cli.errors import WRONG_USE, CommandError

    if (bool(name), list_, bool(revoke)).count(True) != 1:
        raise CommandError("say one of: a NAME to invite, --list, --revoke NAME", WRONG_USE)
    if list_:
        list_invitations(asked.api, limit, as_json=asked.json)
    elif revoke:
        revoke_child(asked.api, revoke, as_json=asked.json)
    else:
        invite_child(asked.api, ChildWanted(name, role, tuple(uri or ()), expires), as_json=asked.json)


def join(
    token: Annotated[
        str, typer.Argument(metavar="TOKEN", help="As `sapwood invite` printed it; '-' reads it.")
    ],
    folder: Annotated[Path, typer.Option("--dir", help="Folder to write into.")] = Path(),
    site_broker: Annotated[
        str, typer.Option("--site-broker", help="The broker of this site, as mqtt://localhost:1883.")
    ] = "",
    public_uri: Annotated[
        str,
        typer.Option("--public-uri", help="(branch) Where its children reach it, as wss://HOST:7600/link."),
    ] = "",
    patience: Annotated[
        float, typer.Option("--patience", min=0, help="Seconds for which a silent parent is asked again.")
    ] = 60.0,
    again: Annotated[
        bool,
        typer.Option("--again", help="This machine has joined: bring it a new certificate, leave its file."),
    ] = False,
    run: Annotated[bool, typer.Option("--run", help="Run the node then, until SIGTERM or Ctrl-C.")] = False,
    json: Json = False,
) -> None:
    """Make this machine a node of a tree, by a token. Its parent gives configuration and certificate."""
    from broker.cli.enrol import JoiningSite, join_tree
    from broker.cli.errors import WRONG_USE, CommandError

    if again and (site_broker or public_uri):
        raise CommandError("--again leaves the file: no --site-broker, no --public-uri", WRONG_USE)
    place = JoiningSite(folder, site_broker, public_uri, again)
    raise typer.Exit(join_tree(token, place, patience, run=run, as_json=json))
