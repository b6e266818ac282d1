"""Spools: how many bytes wait, counted by where they go.

Down: to a child, or come from the parent. Re-routed: sent back. Up: all else, so to the parent and from below
or here to consumers here. Dead letters count nowhere, they have bounds of their own.

A small message costs more than its bytes: what its rows take counts as well.

Law: what waits in queues that were made here and that nobody reads takes no more than `KEPT_TENTHS` of 'up',
so that it never stops what goes on.

Law: an entry is taken off where it was counted, whatever has changed meanwhile. Those of a queue go where
its messages go now, and change their spool together when that changes (`turn`). What topics fan out is stored
once, and counts once for each spool however many neighbours it waits for.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from broker.core.messages.queue import Queue, QueueEntry, StoredBundle
from broker.core.messages.queue_names import Spool
from broker.core.messages.summaries import BUNDLE, COPY, ROW
from sapwood.protocol.bundles import Flag

KEPT_TENTHS: Final = 8
_SHIFT: Final = {Spool.UP: 0, Spool.DOWN: 20, Spool.REROUTED: 40}
_MOST_COPIES: Final = (1 << 20) - 1


class Spools(dict[Spool, int]):
    """Bytes by spool. `parents`: the neighbours whose bundles come down.

    `came`: by neighbour, what came from it and waits: bytes, and `COPY` for each entry, about its memory.
    """

    __slots__ = ("came", "parents")

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(Spool, 0))
        self.parents: Mapping[str, object] = {}
        self.came: Counter[str] = Counter()

    def count(self, entry: QueueEntry, sign: int) -> None:
        """An entry is in its place from now on (1), or no more (-1). Only of what is on disk."""
        queue, stored = entry.queue, entry.stored
        if entry.came and queue.spool is not None:
            self.came[entry.came] += sign * (stored.size + COPY)
        if sign > 0:
            if queue.spool is None:
                entry.spool = None
            elif stored.header.flags & Flag.REROUTED:
                entry.spool = Spool.REROUTED
            elif entry.came in self.parents:
                entry.spool = Spool.DOWN
            else:
                entry.spool = None if queue.destination is not None else queue.spool
        spool = entry.spool
        if spool is None:
            cost = sign * (stored.size + BUNDLE + ROW)
            queue.together += cost
            if queue.spool is not None:
                self[queue.spool] += cost
            return
        shift = _SHIFT[spool]
        others = (stored.uses >> shift & _MOST_COPIES) - (sign < 0)
        stored.uses += sign << shift
        self[spool] += sign * (ROW if others else stored.size + BUNDLE + ROW)

    def restore(self, queue: Queue, costs: Sequence[int], came: Mapping[str, int]) -> None:
        """Entries wait in a queue, on disk alone. `costs`: with the queue, and in each spool."""
        self.came.update(came)
        queue.together += costs[0]
        if queue.spool is not None:
            self[queue.spool] += costs[0]
        for spool, cost in zip(Spool, costs[1:], strict=True):
            self[spool] += cost

    def restore_share(self, queue: Queue, uses: int, size: int, spool: Spool | None) -> int:
        """One entry of a bundle that is not in memory. `uses`: of those before it; returned with it."""
        if spool is None:
            self.restore(queue, (size + BUNDLE + ROW, 0, 0, 0), {})
            return uses
        shift = _SHIFT[spool]
        self[spool] += ROW if uses >> shift & _MOST_COPIES else size + BUNDLE + ROW
        return uses + (1 << shift)

    @staticmethod
    def count_again(stored: StoredBundle, spool: Spool | None) -> None:
        """A bundle with one entry is in memory again: where it counts, it has counted all the time."""
        if spool is not None:
            stored.uses = 1 << _SHIFT[spool]

    def is_crowded_out(self, queue: Queue, targets: frozenset[str], limit: int) -> bool:
        """Does a queue that was made here take no more, as nobody reads it? `limit`: of 'up'."""
        if queue.consumers or targets or not (queue.created or queue.home):
            return False
        return 10 * self[Spool.UP] >= KEPT_TENTHS * limit

    def turn(self, queue: Queue, spool: Spool) -> None:
        """What waits in a queue goes another way from now on."""
        if queue.spool is not spool and queue.spool is not None:
            self[queue.spool] -= queue.together
            self[spool] += queue.together
            queue.spool = spool

    @staticmethod
    def of(stored: StoredBundle, queue: Queue | None) -> list[Spool]:
        """Where a bundle counts that is here; `queue`: its queue, if it is a queue's."""
        found = [spool for spool, shift in _SHIFT.items() if stored.uses >> shift & _MOST_COPIES]
        if not found and queue is not None and queue.spool is not None:
            found.append(queue.spool)
        return found
