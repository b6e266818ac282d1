"""Messages that were moved."""

from broker.cli.node_api import Fields
from treeconnector.wording import counted


def move(found: Fields) -> None:
    """So many went, and why others did not."""
    print(f"{counted(found['moved'], 'message')} moved to {found['to']}")


def move_failed(found: Fields) -> str:
    """Some stayed."""
    return f"the rest stays where it is: {found['why']}" if found["why"] else ""
