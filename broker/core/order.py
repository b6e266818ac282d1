"""Order at the node that delivers: was something given that was made later? Then what comes now is late.

A bundle's id ends in a counter of the node and start that made it, so no producer has to say anything.
Messages of one origin and destination come in order along one path; re-routing, or a change of parent or
core, may let some overtake others: those that are late are flagged, and counted.
"""

from collections import OrderedDict
from typing import Final

from treeconnector.bundles import Header

_MOST: Final = 10_000
_PREFIX: Final = 12


class Order:
    """The latest bundle that was given, by place, destination and origin; of the latest of these."""

    def __init__(self) -> None:
        self._given: OrderedDict[tuple[bytes, str, str], int] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Order of {len(self._given)} streams>"

    def is_late(self, header: Header, place: str) -> bool:
        """Is it older than what was given from there before? From now on it has been given, too."""
        key = header.id[:_PREFIX], place, header.destination.name
        number = int.from_bytes(header.id[_PREFIX:], "big")
        before = self._given.pop(key, -1)
        self._given[key] = max(number, before)
        if len(self._given) > _MOST:
            self._given.popitem(last=False)
        return number < before
