"""`sapwood node leave` and `node forget`: a node says goodbye, or its parent does in its place."""

from pathlib import Path
from urllib.parse import quote

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.http import ask
from broker.cli.output import patience, print_json


def leave(url: str, token: str, ca: Path | None, *, as_json: bool) -> None:
    """Ask a running node to leave its tree for good. Raises `CommandError`."""
    with patience(f"{url} says goodbye"):
        answer = ask(url, "/api/node/leave", method="POST", token=token, ca=ca)
    if as_json:
        print_json(answer)
    else:
        print(f"{url} has left its tree: its routes are withdrawn and its spool is routed again")


def forget(name: str, url: str, token: str, ca: Path | None, *, as_json: bool) -> None:
    """Ask a parent to say goodbye in place of a child. Raises `CommandError`."""
    from treeconnector.errors import InvalidName
    from treeconnector.names import node_name

    try:
        path = f"/api/node/forget/{quote(node_name(name), safe='')}"
    except InvalidName as error:
        raise CommandError(str(error), WRONG_USE) from None
    with patience(f"{url} forgets {name}"):
        answer = ask(url, path, method="POST", token=token, ca=ca)
    if as_json:
        print_json(answer)
    else:
        print(f"{url} has forgotten {name}: its routes are withdrawn and what waited for it is routed again")
