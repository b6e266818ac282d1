"""What waits for a commit: everything that may be told to others only when it is on disk."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from broker.core.custody import Place, Stored
from broker.core.rows import Transaction
from treeconnector.link import Link

if TYPE_CHECKING:
    from broker.core.neighbours import Neighbour
    from broker.core.sessions import Connection


class Account(NamedTuple):
    """How a neighbour stands once the turn is on disk: what we may send, and what we may acknowledge."""

    neighbour: "Neighbour"
    link: Link | None
    epoch: int
    assigned: int
    received: int


class Turn:
    """One commit: its transaction, and what to do once it is done. Made by `NodeCore.take`."""

    __slots__ = (
        "accounts",
        "after",
        "confirms",
        "fresh",
        "next_transfer",
        "numbered",
        "places",
        "transaction",
    )

    def __init__(self) -> None:
        self.transaction = Transaction()
        self.fresh: list[Stored] = []
        self.next_transfer = 1
        self.numbered = range(0)
        self.accounts: list[Account] = []
        self.places: dict[str, Place] = {}
        self.confirms: dict[Connection, int] = {}
        self.after: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<Turn {self.transaction} accounts={len(self.accounts)} after={len(self.after)}>"

    @property
    def leads_on(self) -> bool:
        """May what is done after the commit change anything that must be committed next?"""
        return bool(self.after or self.places)

    def __bool__(self) -> bool:
        return bool(self.after or self.confirms or self.accounts or self.places)
