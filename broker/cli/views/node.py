"""A node that leaves its tree, forgets a child, or looks its parent up."""

from broker.cli.node_api import Fields
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name


def leave(found: Fields, given: Fields) -> None:
    """A node that has left its tree."""
    print(f"{given['url']} has left its tree and stops: its routes are withdrawn")
    if kept := found.get("messages_kept_here"):
        print(f"{kept} messages could not be handed over and stay in its data folder")
    if commands := found.get("site_broker"):
        print("the site's broker keeps what it has for this node; to have it forget the node, run there:")
        for command in commands:
            print(f"  {command}")


def locate(found: Fields) -> None:
    """The ways to the parent that DNS knows."""
    for domain in found["location"]:
        print(f"srv://{domain['domain']}: {domain['error'] or 'looked up'}")
        for way in domain["ways"]:
            lapsed = ", not renewed in its lease" if way["lapsed"] else ""
            place = f"priority {way['priority']}, weight {way['weight']}"
            print(f"  {way['uri']}  {way['node']} ({place}{lapsed})")
        for note in domain["notes"]:
            print(f"  ! {note}")


def forget(found: Fields, given: Fields) -> None:
    """A child that is forgotten."""
    gone = f"{given['url']} has forgotten {given['node']}"
    print(f"{gone}: its routes are withdrawn and what waited for it is routed again")


def forget_wrong(given: Fields) -> str:
    """No node has such a name."""
    try:
        node_name(given["node"])
    except InvalidName as error:
        return str(error)
    return ""
