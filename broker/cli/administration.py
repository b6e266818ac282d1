"""`sapwood node leave`, `node forget`, `node locate`: a running node leaves its tree, or finds its parent."""

from typing import Final
from urllib.parse import quote

from broker.cli.errors import WRONG_USE, CommandError
from broker.cli.http import ask
from broker.cli.output import patience, print_json
from broker.cli.tls import Tls

LEAVE_TIMEOUT: Final = 120.0
"""Seconds: a node that leaves hands over first what is on its way up."""


def leave(url: str, token: str, tls: Tls | None, *, as_json: bool) -> None:
    """Ask a running node to leave its tree for good. Raises `CommandError`."""
    with patience(f"{url} says goodbye"):
        answer = ask(url, "/api/node/leave", method="POST", token=token, tls=tls, timeout=LEAVE_TIMEOUT)
    if as_json:
        print_json(answer)
        return
    print(f"{url} has left its tree and stops: its routes are withdrawn")
    if kept := answer.get("messages_kept_here"):
        print(f"{kept} messages could not be handed over and stay in its data folder")
    if commands := answer.get("site_broker"):
        print("the site's broker keeps what it has for this node; to have it forget the node, run there:")
        for command in commands:
            print(f"  {command}")


def locate(url: str, token: str, tls: Tls | None, *, as_json: bool) -> None:
    """Ask a running node to look its parent up in DNS. Raises `CommandError`."""
    with patience(f"{url} asks DNS"):
        answer = ask(url, "/api/node/locate", method="POST", token=token, tls=tls)
    if as_json:
        print_json(answer)
        return
    for domain in answer["location"]:
        print(f"srv://{domain['domain']}: {domain['error'] or 'looked up'}")
        for way in domain["ways"]:
            lapsed = ", not renewed in its lease" if way["lapsed"] else ""
            place = f"priority {way['priority']}, weight {way['weight']}"
            print(f"  {way['uri']}  {way['node']} ({place}{lapsed})")
        for note in domain["notes"]:
            print(f"  ! {note}")


def forget(name: str, url: str, token: str, tls: Tls | None, *, as_json: bool) -> None:
    """Ask a parent to say goodbye in place of a child. Raises `CommandError`."""
    from treeconnector.errors import InvalidName
    from treeconnector.names import node_name

    try:
        path = f"/api/node/forget/{quote(node_name(name), safe='')}"
    except InvalidName as error:
        raise CommandError(str(error), WRONG_USE) from None
    with patience(f"{url} forgets {name}"):
        answer = ask(url, path, method="POST", token=token, tls=tls)
    if as_json:
        print_json(answer)
    else:
        print(f"{url} has forgotten {name}: its routes are withdrawn and what waited for it is routed again")
