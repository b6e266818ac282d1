"""Order at the node that delivers: a message is late if something was given that was made later.

A bundle's id ends in a counter of the node and start that made it, so no producer has to say anything.
Messages of one origin and destination come in order along one path; re-routing, or a change of parent or
core, may let some overtake others: those that are late are flagged, and counted.
"""

from collections import OrderedDict
from typing import Final

from treeconnector.bundles import Header

_MOST: Final = 10_000
MOST_BYTES: Final = 2 * 1024 * 1024  # of the names of queues and destinations
_PREFIX: Final = 12


class DeliveryOrder:
    """The latest bundle that was given, by queue, destination and origin; of the latest of these.

    `size`: bytes of their names.
    """

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[bytes, str, str], int] = OrderedDict()
        self.size = 0

    def __repr__(self) -> str:
        return f"<DeliveryOrder of {len(self._given)} streams>"

    def is_late(self, header: Header, queue: str) -> bool:
        """Is it older than what was given from there before? From now on it has been given, too."""
        key = header.id[:_PREFIX], queue, header.destination.name
        number = int.from_bytes(header.id[_PREFIX:], "big")
        before = self._given.pop(key, -1)
        if before == -1:
            self.size += _size(key)
        self._given[key] = max(number, before)
        while len(self._given) > _MOST or self.size > MOST_BYTES:
            self.size -= _size(self._given.popitem(last=False)[0])
        return number < before


def _size(key: tuple[bytes, str, str]) -> int:
    return len(key[1].encode()) + len(key[2].encode())
