"""A commit: its transaction, and everything that may be told to others only when it is on disk."""

from collections.abc import Callable
from typing import NamedTuple

from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import Queue
from broker.core.messages.stored import StoredBundle
from broker.core.rows import Transaction
from broker.core.sessions.sessions import Connection
from treeconnector.link import Link


class LinkAccount(NamedTuple):
    """How a neighbour stands once the turn is on disk: what we may send, and what we may acknowledge."""

    neighbour: "Neighbour"
    link: Link | None
    epoch: int
    assigned: int
    received: int


class CommitBatch:
    """One commit: its transaction, and what to do once it is done. It gathers until `NodeCore.take`."""

    __slots__ = (
        "accounts",
        "after",
        "confirms",
        "fresh",
        "next_transfer",
        "numbered",
        "queues",
        "transaction",
    )

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction
        self.fresh: list[StoredBundle] = []
        self.next_transfer = 1
        self.numbered = range(0)
        self.accounts: list[LinkAccount] = []
        self.queues: dict[str, Queue] = {}
        self.confirms: dict[Connection, int] = {}
        self.after: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<CommitBatch {self.transaction} accounts={len(self.accounts)} after={len(self.after)}>"

    @property
    def leads_on(self) -> bool:
        """May what is done after the commit change anything that must be committed next?"""
        return bool(self.after or self.queues)

    def __bool__(self) -> bool:
        return bool(self.after or self.confirms or self.accounts or self.queues)
