"""A node that leaves its tree, or forgets a child."""

from broker.cli.node_api import Fields
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name
from treeconnector.wording import counted


def leave(found: Fields, given: Fields) -> None:
    """A node that has left its tree."""
    print(f"{given['url']} has left its tree and stops: its routes are withdrawn")
    if kept := found.get("messages_kept_here"):
        print(f"{counted(kept, 'message')} could not be handed over, kept in its data folder")
    if commands := found.get("site_broker"):
        print("the site's broker keeps what it has for this node; to have it forget the node, run there:")
        for command in commands:
            print(f"  {command}")


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
