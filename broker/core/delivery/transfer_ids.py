"""Transfer ids: each message that is given to a consumer has a number, which no start gives twice.

Law: nor does another database of this node, an empty one or one put back from a backup. It knows nothing of
what was given, and a client may come with an id of then: to acknowledge it, or to ask for what is above. So
ids begin with the microseconds of the wall clock, unless those on disk are higher; a clock that is wrong
takes that away, and no more.
"""

from typing import Final

from broker.core.rows import MetaRow, Transaction

_BLOCK: Final = 1_000_000


class TransferIds:
    """Of one node. `known`: those who have an id below it have it on disk. `low_at`: the next id at which a
    block is to be reserved.

    `numbered_now`: ids that the commit has just brought, for what is given next; no answer can have told a
    higher one yet.
    """

    __slots__ = ("known", "low_at", "next", "numbered_now")

    def __init__(self) -> None:
        self.next = self.known = 1
        self.low_at = 1
        self.numbered_now = range(0)

    def __repr__(self) -> str:
        return f"<TransferIds next={self.next} known={self.known}>"

    def begin(self, first_free: int, least: int = 1) -> None:
        """Ids go on above every block that an earlier start has reserved. `least`: the first is no lower."""
        self.next = self.known = max(first_free, least)
        self.low_at = self.next

    def give(self, count: int) -> int:
        """The first of so many in a row."""
        first = self.next
        self.next += count
        return first

    def reserve(self, transaction: Transaction) -> None:
        """They are reserved on disk a block at a time, and in time."""
        self.low_at = self.next + _BLOCK // 2
        transaction.put(MetaRow("transfer", str(self.next + _BLOCK).encode()))
