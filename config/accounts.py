"""The accounts of a node's applications: names, where their hashed passwords are, and what they may do.

The rules of `consume` and `send`, and what they mean, are those of permits (`treeconnector.permits`);
`{name}` is the account.
"""

from pathlib import Path
from typing import Literal

from config.children import CONSUME, SEND
from config.fields import section, value, values
from config.kinds import Choice
from config.values import NAME, PATH, VARIABLE

Applications = Literal["proven", "local", "open"]
APPLICATIONS = Choice(("proven", "local", "open"))
_OWN = "; without any, what is below its own name"


@section
class Account:
    """One application, or several that are one to the node."""

    name: str = value(NAME, "the account's name", example="till")
    password_env: str | None = value(
        VARIABLE, "environment variable that holds the hashed password", default=None, aside=True
    )
    password_file: Path | None = value(
        PATH,
        "file that holds the hashed password, as `sapwood account hash` prints it",
        default=None,
        example="secrets/till",
    )
    consume: tuple[str, ...] = values(
        CONSUME,
        "topics and queues that it may consume" + _OWN,
        item="pattern",
        default=(),
        example=("prices/#", "queue:{name}-orders"),
    )
    send: tuple[str, ...] = values(
        SEND,
        "topics, queues and cells that it may send to" + _OWN,
        item="pattern",
        default=(),
        example=("sales/#", "queue:returns"),
    )
