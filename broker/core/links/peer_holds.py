"""Holds of one end of a link: the destinations that it asks the other end to keep, '' = everything.

Law: a peer says them, so they are bounded, in number and in bytes; who goes beyond ends its link. This node
counts its own holds in the same way, whatever they are for, and asks for no more than half as much. What is
shown of them in passing are a few; all of them are read a page at a time.
"""

from collections.abc import Iterator
from heapq import nsmallest
from typing import Final

MOST: Final = 20_000
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_ASKED: Final = MOST // 2
MOST_BYTES_ASKED: Final = MOST_BYTES // 2
_SHOWN: Final = 10
_LONGEST: Final = 100
_WEIGHT: Final = 100  # of a text beside its letters
_NONE: Final[dict[str, None]] = {}


class PeerHolds:
    """Of one link. `destinations`: as text."""

    __slots__ = ("_bytes", "destinations")

    def __init__(self) -> None:
        self.destinations = _NONE  # shared, since nearly all links hold nothing
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<PeerHolds {len(self)} of {self._bytes} bytes>"

    def __len__(self) -> int:
        return len(self.destinations)

    def __contains__(self, destination: str) -> bool:
        return destination in self.destinations

    def __iter__(self) -> Iterator[str]:
        return iter(self.destinations)

    def add(self, destination: str) -> None:
        if destination not in self.destinations:
            self.destinations = self.destinations or {}
            self.destinations[destination] = None
            self._bytes += _size(destination)

    @property
    def too_many(self) -> bool:
        return len(self.destinations) > MOST or self._bytes > MOST_BYTES

    def has_room_for(self, destination: str) -> bool:
        """May this node ask its peer for that as well? If not, it goes on until something else bounds it."""
        return len(self) < MOST_ASKED and self._bytes + _size(destination) <= MOST_BYTES_ASKED

    def discard(self, destination: str) -> None:
        if destination in self.destinations:
            del self.destinations[destination]
            self._bytes -= _size(destination)

    def clear(self) -> None:
        self.destinations, self._bytes = _NONE, 0

    def shown(self, most: int = _SHOWN) -> list[str]:
        """The first few, cut."""
        return [destination[:_LONGEST] for destination in nsmallest(most, self.destinations)]

    @property
    def text(self) -> str:
        """For people: some of them, and how many there are; '' is all."""
        if "" in self.destinations:
            return "now"
        some = ", ".join(self.shown(3))
        more = len(self) - 3
        return f"{some} and {more} more" if more > 0 else some


def _size(destination: str) -> int:
    return _WEIGHT + len(destination.encode())
