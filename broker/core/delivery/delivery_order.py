"""Order at the node that delivers: a message is late if something was given that was made later.

A bundle's id ends in a counter of the node and start that made it, and its header says which start that was,
so no producer has to say anything. Messages of one origin and destination come in order along one path;
re-routing, or a change of parent or core, may let some overtake others: those that are late are flagged, and
counted.

Wrinkle: this is in memory, so a node that has just started knows of nothing that is late. An origin whose
database was put back counts its starts anew: what it makes is late until it has had as many as before.
"""

from collections import OrderedDict
from typing import Final

from sapwood.protocol.bundles import Header

_MOST: Final = 10_000
MOST_BYTES: Final = 2 * 1024 * 1024  # of the names of queues and destinations
_PREFIX: Final = 12

_Stream = tuple[bytes, str, str]
"""The maker (one start of an older node is one), the queue where it is given, the destination's name."""


class DeliveryOrder:
    """The latest bundle that was given, by queue, destination and origin; of the latest of these.

    `_given`: its start and its id. `size`: bytes of their names.
    """

    __slots__ = ("_given", "size")

    def __init__(self) -> None:
        self._given: OrderedDict[_Stream, tuple[int, bytes]] = OrderedDict()
        self.size = 0

    def __repr__(self) -> str:
        return f"<DeliveryOrder of {len(self._given)} streams>"

    def is_late(self, header: Header, queue: str) -> bool:
        """Is it older than what was given from there before? From now on it has been given, too."""
        start, bundle = header.start, header.id
        maker = header.origin_store + header.origin.encode() if start else bundle[:_PREFIX]
        stream = maker, queue, header.destination.name
        before = self._given.pop(stream, None)
        late = False
        if before is None:
            self.size += _size(stream)
        else:
            same_start = before[1][:_PREFIX] == bundle[:_PREFIX]
            late = before[0] > start or (same_start and before[1] > bundle)
        self._given[stream] = before if before is not None and late else (start, bundle)
        while len(self._given) > _MOST or self.size > MOST_BYTES:
            self.size -= _size(self._given.popitem(last=False)[0])
        return late


def _size(stream: _Stream) -> int:
    return len(stream[1].encode()) + len(stream[2].encode())
