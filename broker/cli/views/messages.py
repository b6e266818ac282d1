"""Messages of a queue."""

from broker.cli.node_api import Fields


def detail(found: Fields) -> None:
    """A whole message: what it carries, an empty line, and its payload."""
    for name in ("id", "destination", "origin", "size", "deliveries", "encoding"):
        print(f"{name}: {found[name]}")
    for name, value in found["properties"].items():
        print(f"{name}: {value}")
    print(f"\n{found['payload']}")


def delete(_found: Fields, given: Fields) -> None:
    """A message that went."""
    print(f"message {given['id']} of {given['name']} is deleted")
