"""A commit: its transaction, and everything that may be told to others only when it is on disk."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import Queue, StoredBundle
from broker.core.rows import Transaction
from broker.core.sessions.sessions import Connection
from treeconnector.link import Link


class LinkAccount(NamedTuple):
    """How a neighbour stands once the turn is on disk: what we may send, and what we may acknowledge."""

    neighbour: Neighbour
    link: Link | None
    epoch: int
    assigned: int
    received: int


class CommitBatch(msgspec.Struct):
    """One commit: its transaction, and what to do once it is done. It gathers until `NodeCore.take`.

    `numbered`: the transfer ids that it brings; those below `next_transfer` are on disk with it.
    """

    transaction: Transaction
    fresh: list[StoredBundle] = []
    next_transfer: int = 1
    numbered: range = range(0)
    accounts: list[LinkAccount] = []
    queues: dict[str, Queue] = {}
    confirms: dict[Connection, int] = {}
    after: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<CommitBatch {self.transaction} accounts={len(self.accounts)} after={len(self.after)}>"

    @property
    def leads_on(self) -> bool:
        """May what is done after the commit change anything that must be committed next?"""
        return bool(self.after or self.queues)

    def __bool__(self) -> bool:
        return bool(self.after or self.confirms or self.accounts or self.queues)


class NextCommit:
    """The commit in the making. `batch`: what has gathered for it."""

    __slots__ = ("batch",)

    def __init__(self, transaction: Transaction) -> None:
        self.batch = CommitBatch(transaction)

    def __repr__(self) -> str:
        return f"<NextCommit {self.batch!r}>"

    def then(self, call: Callable[[], None]) -> None:
        """Call it once all that has changed so far is on disk."""
        self.batch.after.append(call)
