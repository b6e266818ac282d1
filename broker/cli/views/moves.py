"""Messages that were moved."""

import re
from typing import Final

from broker.cli.node_api import Fields
from treeconnector.wording import counted

_ID: Final = re.compile(r"[0-9a-fA-F]{32}-[0-9]{1,3}")


def move_wrong(given: Fields) -> str:
    """Whoever means all says so; and no queue's name stands where ids do."""
    if not (given["ids"] or given["all"]):
        return "which messages? Give their ids, or --all"
    other = next((each for each in given["ids"] or () if not _ID.fullmatch(each)), None)
    if other is None:
        return ""
    expected = f"{other!r} is no message's id, as `sapwood queues {given['name']}` shows them"
    return f"{expected}. To move all that waits to the queue {other!r}: `--all --to {other}`"


def move(found: Fields) -> None:
    """So many went, and why others did not."""
    print(f"{counted(found['moved'], 'message')} moved to {found['to']}")


def move_failed(found: Fields) -> str:
    """Some stayed."""
    return f"the rest stays where it is: {found['why']}" if found["why"] else ""
