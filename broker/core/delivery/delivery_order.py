"""Order at the node that delivers: a message is late if something was given that was made later.

A bundle's id ends in a counter of the node and start that made it, and its header says which start that was,
so no producer has to say anything. Messages of one origin and destination come in order along one path;
re-routing, or a change of parent or core, may let some overtake others: those that are late are flagged, and
counted.

Wrinkle: this is in memory, so a node that has just started knows of nothing that is late. An origin whose
database was put back counts its starts anew: what it makes is late until it has had as many as before.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from sapwood.protocol.bundles import Header

_MOST: Final = 10_000
MOST_BYTES: Final = 2 * 1024 * 1024  # of the names of queues and destinations
_PREFIX: Final = 12


class _Stream(NamedTuple):
    """Who makes, for which destination, and where it is given. `maker`: one start of an older node is one."""

    maker: bytes
    queue: str
    name: str

    @property
    def size(self) -> int:
        return len(self.queue.encode()) + len(self.name.encode())


class _Latest(NamedTuple):
    """The latest bundle that was given of a stream: its start, the rest of that start's ids, its number."""

    start: int
    ids: bytes
    number: int

    def is_after(self, other: "_Latest") -> bool:
        return self.start > other.start or (self.ids == other.ids and self.number > other.number)


class DeliveryOrder:
    """The latest bundle that was given, by queue, destination and origin; of the latest of these.

    `size`: bytes of their names.
    """

    def __init__(self) -> None:
        self._given: OrderedDict[_Stream, _Latest] = OrderedDict()
        self.size = 0

    def __repr__(self) -> str:
        return f"<DeliveryOrder of {len(self._given)} streams>"

    def is_late(self, header: Header, queue: str) -> bool:
        """Is it older than what was given from there before? From now on it has been given, too."""
        ids, number = header.id[:_PREFIX], int.from_bytes(header.id[_PREFIX:], "big")
        maker = header.origin_store + header.origin.encode() if header.start else ids
        stream, made = _Stream(maker, queue, header.destination.name), _Latest(header.start, ids, number)
        before = self._given.pop(stream, None)
        if before is None:
            self.size += stream.size
        late = before is not None and before.is_after(made)
        self._given[stream] = before if before is not None and late else made
        while len(self._given) > _MOST or self.size > MOST_BYTES:
            self.size -= self._given.popitem(last=False)[0].size
        return late
