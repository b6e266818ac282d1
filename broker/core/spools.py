"""Spools: how many bytes wait, counted by where they go.

Down: to a child, or come from the parent. Re-routed: sent back. Up: all else, so to the parent and from below
or here to readers here. Dead letters count nowhere, they have bounds of their own.

A small message costs more than its bytes: what its rows take counts as well.

Law: a copy is taken off where it was counted, whatever has changed in the meantime. A queue's copies go where
its messages go now, and change their spool together when that changes (`turn`). What topics fan out is stored
once, and counts once for each spool however many neighbours it waits for.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from broker.core.places import Spool
from treeconnector.bundles import Flag

if TYPE_CHECKING:
    from broker.core.copies import Copy, Stored
    from broker.core.place import Place

_SHIFT: Final = {Spool.UP: 0, Spool.DOWN: 20, Spool.REROUTED: 40}
_MOST_COPIES: Final = (1 << 20) - 1
COPY: Final = 4096
BUNDLE: Final = 128
ROW: Final = 48
"""A bundle and each copy of it take so many bytes beside the body, as measured on disk."""


class Spools(dict[Spool, int]):
    """Bytes by spool. `parents`: the neighbours whose bundles come down.

    `came`: by neighbour, what came from it and waits: bytes, and `COPY` for each copy, about its memory.
    """

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(Spool, 0))
        self.parents: set[str] = set()
        self.came: Counter[str] = Counter()

    def count(self, copy: "Copy", sign: int) -> None:
        """A copy is in its place from now on (1), or no more (-1). Only of what is on disk."""
        place, stored = copy.place, copy.stored
        if copy.came and place.spool is not None:
            self.came[copy.came] += sign * (stored.size + COPY)
        if sign > 0:
            copy.spool = self._own(copy)
        spool = copy.spool
        if spool is None:
            cost = sign * (stored.size + BUNDLE + ROW)
            place.together += cost
            if place.spool is not None:
                self[place.spool] += cost
            return
        shift = _SHIFT[spool]
        copies = (stored.uses >> shift & _MOST_COPIES) + sign
        stored.uses += sign << shift
        self[spool] += sign * ROW
        if copies == (sign > 0):
            self[spool] += sign * (stored.size + BUNDLE)

    @staticmethod
    def count_again(stored: "Stored", spool: Spool | None) -> None:
        """A bundle with one copy is in memory again: where it counts, it has counted all the time."""
        if spool is not None:
            stored.uses = 1 << _SHIFT[spool]

    def _own(self, copy: "Copy") -> Spool | None:
        """The spool of this copy; None: that of its place, whichever that is."""
        place = copy.place
        if place.spool is None:
            return None
        if copy.stored.header.flags & Flag.REROUTED:
            return Spool.REROUTED
        if copy.came in self.parents:
            return Spool.DOWN
        return None if place.destination is not None else place.spool

    def turn(self, place: "Place", spool: Spool) -> None:
        """What waits in a queue goes another way from now on."""
        if place.spool is not spool and place.spool is not None:
            self[place.spool] -= place.together
            self[spool] += place.together
            place.spool = spool

    @staticmethod
    def of(stored: "Stored", place: "Place | None") -> list[Spool]:
        """Where a bundle counts that is here; `place`: its queue, if it is a queue's."""
        found = [spool for spool, shift in _SHIFT.items() if stored.uses >> shift & _MOST_COPIES]
        if not found and place is not None and place.spool is not None:
            found.append(place.spool)
        return found
