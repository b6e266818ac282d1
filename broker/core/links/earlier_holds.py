"""Holds of a line that broke: what the peer asked this node to keep, it will most likely ask for again.

So one bundle alone of each such destination tries the new line. The peer says its hold, if it still has one,
before it acknowledges that bundle; without one the rest goes on with the acknowledgement. Else each break of
a line would bring a whole window to where there is no room.

Law: as many are remembered, and as many bytes, as a peer may hold at a time, the latest. Over a start of this
node none is: everything counts as held before it, and each queue as well, until the line is at rest.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from broker.core.links.peer_holds import PeerHolds

_NONE: Final[dict[str, None]] = {}
_NO_TRIES: Final[dict[str, int]] = {}


class EarlierHolds:
    """Of one neighbour. Destinations are as text, '' = everything. `untried`: no bundle tried them.

    `tried`: queues that one tried since the start of this node; None: it need not be known any more.
    """

    __slots__ = ("_tries", "tried", "untried")

    def __init__(self) -> None:
        self.untried = _NONE  # shared, since nearly all links held nothing
        self._tries = _NO_TRIES
        self.tried: PeerHolds | None = None

    def __repr__(self) -> str:
        return f"<EarlierHolds {len(self.untried)} untried, {len(self._tries)} under way>"

    def node_started(self) -> None:
        """The peer may hold anything."""
        self.line_is_back([""])
        self.tried = PeerHolds()

    def line_is_at_rest(self) -> None:
        """All that waited at the start has gone, or is held."""
        self.tried = None

    def line_is_back(self, held: Iterable[str]) -> None:
        """`held`: until the line broke; what was under way to try is among them."""
        known = PeerHolds()
        for each in (*held, *self.untried):
            known.add(each)
            if known.too_many:
                known.discard(each)
                break
        self.untried = known.destinations
        self._tries = _NO_TRIES

    def would_try(self, destination: str) -> bool:
        """Would a bundle for this destination try one?"""
        return destination in self.untried or "" in self.untried or self._is_new(destination)

    def _is_new(self, destination: str) -> bool:
        known = self.tried
        return known is not None and destination.startswith("queue:") and destination not in known

    def tried_by(self, destination: str, number: int) -> Iterator[str]:
        """A bundle goes out under this number: what the peer is to be taken to hold until it answers."""
        new = self._is_new(destination)
        if new and self.tried is not None:
            self.tried.add(destination)
            if self.tried.too_many:
                self.tried = None
        for held in (destination, ""):
            if held in self.untried or (held and new):
                self.untried.pop(held, None)
                self._tries = self._tries or {}
                self._tries[held] = number
                yield held

    def said(self, destination: str) -> None:
        """The peer itself says what it holds, or no more."""
        for known in (self.untried, self._tries):
            if destination in known:
                del known[destination]

    def answered(self, through: int) -> list[str]:
        """It has all up to this number: what it was asked by these, and holds no more."""
        found = [held for held, number in self._tries.items() if number <= through]
        for held in found:
            del self._tries[held]
        return found
