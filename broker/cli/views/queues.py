"""Queues."""

from broker.cli.node_api import Fields
from treeconnector.wording import counted


def purge(found: Fields, given: Fields) -> None:
    """What waited in a queue, and went."""
    print(f"{given['name']} is emptied: {counted(found['messages'], 'message')} thrown away")


def delete(found: Fields, given: Fields) -> None:
    """A queue that went."""
    thrown, ended = counted(found["messages"], "message"), counted(found["readers"], "reader")
    print(f"{given['name']} is deleted: {thrown} thrown away, {ended} ended")


def create(found: Fields) -> None:
    """A queue that is there."""
    home = ", whose messages stay at this node" if found["home"] else ""
    print(f"{found['queue']} is {'created' if found['made'] else 'there already'}{home}")
