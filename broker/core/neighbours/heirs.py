"""Heirs: nodes that are to have the messages in some queues, and the trail of those who inherit together."""

from itertools import islice
from typing import Final

import msgspec

from broker.core.messages.queue import QueueEntry
from broker.core.messages.queue_names import UPWARD
from sapwood.protocol.bundles import Scope
from treeconnector.relations import Relation

TOGETHER: Final = 32
"""Heirs that are served at one go along their trail."""


class Heir(msgspec.Struct, array_like=True, frozen=True):
    """`child`: the node was below it, or is now. `end`: rows from that on are none of its."""

    trail: str
    name: str
    child: str
    end: int

    @property
    def has_left(self) -> bool:
        return self.trail != UPWARD


class Gone(msgspec.Struct, array_like=True, frozen=True):
    """A neighbour that is none any more. `moved`: it is elsewhere in the tree now. `wanted`: is there anybody
    whom it led to?
    """

    relation: Relation
    moved: bool
    wanted: bool = True


class Trail:
    """Heirs of the same queues, by number. Those up to `last` are served now, from the queue and row `at` on.

    `served`: by row of an entry that leaves its queue before its turn, or has left it and may come back, the
    last heir that was asked. `kept`: how far it is on disk.
    """

    __slots__ = ("at", "heirs", "kept", "key", "last", "served", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.heirs: dict[int, Heir] = {}
        self.waiting: dict[tuple[str, str], int] = {}
        self.last = 0
        self.at = ("", 0)
        self.served: dict[int, int] = {}
        self.kept = 0

    def __repr__(self) -> str:
        return f"<Trail {self.key} heirs={len(self.heirs)} at={self.at}>"

    def begin(self) -> None:
        """Serve the oldest heirs next, from the first row on."""
        chosen = list(islice(self.heirs, TOGETHER))
        self.last, self.at = chosen[-1], ("", 0)
        for number in chosen:
            heir = self.heirs[number]
            self.waiting.pop((heir.name, heir.child), None)

    def put(self, number: int, heir: Heir) -> None:
        """One more, or one that waits for its turn and inherits more now: it is asked of that again."""
        known = self.heirs.get(number)
        self.heirs[number] = heir
        if known is not None:
            for row, asked in self.served.items():
                if row >= known.end and asked >= number:
                    self.served[row] = number - 1

    def has(self, number: int, queue: str, row: int) -> bool:
        """Did an heir get this entry when its turn was?"""
        return number <= self.last and (queue, row) < self.at


def inherits(heir: Heir, entry: QueueEntry, matched: frozenset[str], ways: set[str]) -> bool:
    """Was it for the child that the heir has left, or would it have been for the one that has it now?"""
    node = entry.stored.header.destination.node
    if heir.has_left:
        return node in ("", heir.child) and (not ways or not ways.isdisjoint(matched))
    if node or entry.came == heir.child or heir.child not in matched:
        return False
    return entry.stored.header.scope == Scope.TREE or not entry.came
