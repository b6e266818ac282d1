"""Cooling: entries that wait leave memory when many do, and come back from their rows when it is their turn.

Law: nothing is written for it. An entry goes when it has changed nothing since its last commit, so that its
row says all that memory does; what it counts for stays counted. It comes back as another object: whoever
still holds the former one finds nothing open in it.

Wrinkle: of a bundle with several entries the bundle stays in memory while one of them is there, for all of
them together say when it goes.
"""

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Final

from broker.core.messages.backlog import PAGE, WIDEST, Backlog, BacklogPage
from broker.core.messages.entries import QueueEntry, StoredBundle
from broker.core.rows import BundleRow, CopyRow, StoredEntry
from treeconnector import bundles
from treeconnector.bundles import Flag
from treeconnector.errors import StoreError

if TYPE_CHECKING:
    from broker.core.messages.custody import Custody
    from broker.core.messages.queue import Queue

ReadCopies = Callable[[Sequence[int], bool], Sequence[StoredEntry]]
"""Rows of entries with their bundles' headers, in order; with the bodies where that is asked."""

_PLACES: Final = 64
_LEAST: Final = 1024
_WITH_BODIES: Final = 1024 * 1024
_MOMENT: Final = 0.001


class Paging:
    """Of one node. `window`: entries of one place that stay in memory; `room`: with more, some go.

    `most`: of all queues together, about; above it each keeps only a few. `crowded`: queues with too many.
    `parted`: rows of bundles of which a start may find further entries.
    `doubted_before`: bundles below that row may have arrived where they go, whatever their header says.
    """

    def __init__(self, custody: "Custody", read_copies: ReadCopies, most: int) -> None:
        self._custody = custody
        self._read = read_copies
        self._most = most
        self._wide = self.window = max(most // _PLACES, 1)
        self._shared: dict[int, tuple[StoredBundle, int]] = {}
        self.crowded: dict[Queue, None] = {}
        self.parted: Container[int] = ()
        self.doubted_before = 0

    def __repr__(self) -> str:
        return f"<Paging window={self.window} shared={len(self._shared)}>"

    @property
    def room(self) -> int:
        return 2 * self.window

    def look(self) -> None:
        """Now and then: how many are in memory, in all queues together? The next commit lets some go."""
        queues = [queue for queue in self._custody.queues.values() if queue is not self._custody.dead]
        warm = sum(len(queue.waiting.warm) for queue in queues)
        if warm > self._most:
            self.window = max(self._most // _LEAST, 1)
        elif warm < self._most // 2:
            self.window = self._wide
        for queue in queues:
            queue.waiting.room = self.room
            if len(queue.waiting.warm) > self.room:
                self.crowded[queue] = None

    def cool(self) -> None:
        """A commit has ended, and none is under way: where too many are in memory, let some go."""
        crowded, self.crowded = self.crowded, {}
        for queue in crowded:
            if queue is not self._custody.dead and len(queue.waiting.warm) > queue.waiting.room:
                self._let_go(queue, queue.waiting)

    def _let_go(self, queue: "Queue", waiting: Backlog) -> None:
        stay: deque[QueueEntry] = deque()
        runs: list[list[QueueEntry]] = []
        for entry in waiting.warm:
            if len(stay) < self.window or not self._may_go(entry):
                stay.append(entry)
            elif runs and len(runs[-1]) < PAGE and entry.row - runs[-1][0].row < WIDEST:
                runs[-1].append(entry)
            else:
                runs.append([entry])
        pages = [BacklogPage(queue, run) for run in runs]
        for page, run in zip(pages, runs, strict=True):
            self._custody.expiry.add_page(page)
            for entry in run:
                self._release(entry)
        waiting.let_go(stay, pages)
        waiting.room = max(self.room, 2 * len(stay))

    def _may_go(self, entry: QueueEntry) -> bool:
        """Does its row on disk say all that is known of it?"""
        stored, changes = entry.stored, self._custody.transaction.changes
        if not stored.row or not stored.safe or stored.doubted or stored.row in self.parted:
            return False
        if entry.given or entry.number or entry.transfer or entry.backed_off:
            return False
        if entry.row in changes[CopyRow] or stored.row in changes[BundleRow]:
            return False
        if stored.row in self._custody.fresh:
            return False
        keeps, kept = entry.queue.keeps, self._custody.kept
        if stored.entries > 1:
            return not (keeps and entry.queue.destination is not None)
        if stored.header.done or abs(entry.since - stored.since) > _MOMENT:
            return False
        return not (keeps and stored.header.identity in kept.cold)

    def _release(self, entry: QueueEntry) -> None:
        stored = entry.stored
        if stored.entries > 1:
            self._shared[stored.row] = stored, self._shared.get(stored.row, (stored, 0))[1] + 1
        else:
            if entry.queue.keeps:
                self._custody.kept.remove(entry)
                self._custody.kept.cold.add(stored.header.identity)
            self._custody.evict(stored)
        entry.done = entry.all

    # --- back

    def fetch(self, page: BacklogPage) -> list[QueueEntry]:
        """The entries of a page, as they were."""
        entries = self.look_into(page)
        for entry in entries:
            stored = entry.stored
            if stored.row in self._shared:
                _, cold = self._shared.pop(stored.row)
                if cold > 1:
                    self._shared[stored.row] = stored, cold - 1
            else:
                self._custody.took_in(stored)
                if page.queue.keeps:
                    self._custody.kept.cold.remove(stored.header.identity)
                    self._custody.kept.add(entry)
            if stored.header.expires_last:
                self._custody.expiry.add(entry)
        return entries

    def look_into(self, page: BacklogPage) -> list[QueueEntry]:
        """The entries of a page for somebody who only looks: nothing of it stays in memory."""
        found = self._read(page.rows, page.size <= _WITH_BODIES)
        if len(found) != len(page):
            raise StoreError(
                f"{len(page) - len(found)} of {len(page)} messages that wait in {page.queue.name} are not in"
                " the store: something else has written to it; start the node again"
            )
        return [self._made(each, page, index) for index, each in enumerate(found)]

    def _made(self, found: StoredEntry, page: BacklogPage, index: int) -> QueueEntry:
        row, spool = found.copy, page.spool(index)
        shared = self._shared.get(row.bundle)
        if shared is not None:
            stored = shared[0]
        else:
            header = bundles.decode_header(found.header)
            stored = StoredBundle(row.bundle, header, found.body, found.size, row.since / 1000)
            stored.safe, stored.entries, stored.encoded = True, 1, found.header
            self._custody.spools.count_again(stored, spool)
            self.doubt(stored)
        entry = QueueEntry(row.row, stored, page.queue, row.came, row.since / 1000)
        entry.done, entry.deliveries = bundles.mask_bits(row.done), row.deliveries
        entry.note, entry.spool = row.note, spool
        return entry

    def doubt(self, stored: StoredBundle) -> None:
        """Mark what may have arrived where it goes, though nobody has written that into its row."""
        if stored.row < self.doubted_before and not stored.header.flags & Flag.MAYBE_DUPLICATE:
            stored.header.flags |= Flag.MAYBE_DUPLICATE
            stored.encoded = None
