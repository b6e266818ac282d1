"""Streams of producers: what is taken and committed of numbered sends, and which of them were rejected.

A rejection goes out before the commit that counts its numbers as dealt with. Should the connection end
before the client has read it, `Welcome` would say of those numbers only that they are done, and the client
would take them for stored: so it says with them which ones were rejected.

Law: a range is forgotten when the client goes on after it on a connection whose Welcome told of it. Of one
stream `MOST` ranges are remembered, the latest; those that touch each other are one.
"""

from collections.abc import Callable
from typing import Final

from broker.core.rows import RejectedRow, Transaction
from broker.core.sessions.masking import masked
from sapwood.protocol.session_frames import Reject

MOST: Final = 1000
_MOST_TEXT: Final = 300


class Rejections:
    """Of one stream. `transaction`: gives the one that is gathered now."""

    __slots__ = ("_ranges", "_stream", "_transaction")

    def __init__(self, stream: str, transaction: Callable[[], Transaction]) -> None:
        self._stream = stream
        self._transaction = transaction
        self._ranges: dict[int, Reject] = {}

    def __repr__(self) -> str:
        return f"<Rejections of {len(self._ranges)} ranges>"

    def __len__(self) -> int:
        return len(self._ranges)

    def restore(self, row: RejectedRow) -> None:
        self._ranges[row.first] = Reject(row.first, row.last, row.code, row.text)

    def add(self, reject: Reject) -> None:
        """The ranges of one stream come in order."""
        before = self._ranges.get(next(reversed(self._ranges), 0))
        if before is not None and before.last + 1 == reject.first and before.code == reject.code:
            reject = Reject(before.first, reject.last, before.code, before.text)
        self._put(Reject(reject.first, reject.last, reject.code, reject.text[:_MOST_TEXT]))
        while len(self._ranges) > MOST:
            self._drop(next(iter(self._ranges)))

    def _put(self, reject: Reject) -> None:
        self._ranges[reject.first] = reject
        row = RejectedRow(self._stream, reject.first, reject.last, reject.code, reject.text)
        self._transaction().put(row)

    def _drop(self, first: int) -> None:
        del self._ranges[first]
        self._transaction().delete(RejectedRow, (self._stream, first))

    def told(self) -> list[Reject]:
        """What a Welcome says."""
        return list(self._ranges.values())

    def heard(self, told: int, first: int) -> None:
        """The client goes on with number `first`: what its Welcome told of before that, as far as number
        `told`, it knows.
        """
        for reject in list(self._ranges.values()):
            if reject.last >= first or reject.last > told:
                return
            self._drop(reject.first)

    def forget(self) -> None:
        """The stream is over."""
        for first in list(self._ranges):
            self._drop(first)


class ProducerStream:
    """A producer's numbered sends. `taken`: highest number that entered; `committed`: that is on disk.

    `rejections`: None for a stream that ends with its connection.
    """

    __slots__ = ("committed", "name", "rejections", "seen", "taken")

    def __init__(self, name: str, committed: int, seen: float, rejections: Rejections | None = None) -> None:
        self.name = name
        self.seen = seen
        self.rejections = rejections
        self.taken = committed
        self.committed = committed

    def __repr__(self) -> str:
        return f"<ProducerStream {masked(self.name)} taken={self.taken} committed={self.committed}>"
