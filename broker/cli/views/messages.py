"""Messages of a queue."""

from broker.cli.node_api import Fields


def delete(_found: Fields, given: Fields) -> None:
    """A message that went."""
    print(f"message {given['id']} of {given['name']} is deleted")
