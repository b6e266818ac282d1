"""Queues."""

from broker.cli.node_api import Fields
from broker.cli.output import counted


def delete(found: Fields, given: Fields) -> None:
    """A queue that went."""
    thrown, ended = counted(found["messages"], "message"), counted(found["readers"], "reader")
    print(f"{given['name']} is deleted: {thrown} thrown away, {ended} ended")
