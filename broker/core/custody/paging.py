"""Paging: entries leave memory when many wait, and come back from their rows when it is their turn.

Law: an entry goes when it has changed nothing since its last commit, so that its row says all that memory
does; what it counts for stays counted, and the row of its page says that as well. It comes back as another
object: whoever still holds the former one finds nothing open in it.

Wrinkle: a bundle with several entries stays in memory while one of them is there. Once none is, how many
there are is kept in a few bytes (`shared`), for all of them together say when it goes.
"""

import math
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Final, Protocol

from broker.core.custody.expiry import Expiry
from broker.core.custody.shared import Cold, Shared
from broker.core.custody.spools import Spools
from broker.core.messages.deduplication import HeldIdentities
from broker.core.messages.pages import row_of, summary_of
from broker.core.messages.queue import Backlog, Page, Queue, QueueEntry, StoredBundle
from broker.core.messages.resting import RestingTotal
from broker.core.messages.summaries import PAGE, WIDEST, EntryShare, Summary
from broker.core.rows import BundleRow, CopyRow, PageRow, StoredEntry, Transaction, own_header
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag
from sapwood.protocol.errors import StoreError
from treeconnector.wording import counted

ReadCopies = Callable[[Sequence[int], bool], Sequence[StoredEntry]]
"""Rows of entries with their bundles' headers, in order; with the bodies where that is asked."""

_PLACES: Final = 64
_LEAST: Final = 1024
_WITH_BODIES: Final = 1024 * 1024
_MOMENT: Final = 0.001


class Parted:
    """A bundle in memory of which `entries` entries are not; `keeps` of these wait for consumers here."""

    __slots__ = ("entries", "keeps", "stored")

    def __init__(self, stored: StoredBundle, entries: int, keeps: int) -> None:
        self.stored, self.entries, self.keeps = stored, entries, keeps

    def __repr__(self) -> str:
        return f"<Parted {self.stored} {self.entries} not in memory>"


class Keeper(Protocol):
    """Of all that is kept (`Custody`): what paging uses of it."""

    queues: dict[str, Queue]
    dead: Queue
    transaction: Transaction
    fresh: dict[int, StoredBundle]
    expiry: Expiry
    kept: HeldIdentities
    spools: Spools

    def evict(self, stored: StoredBundle) -> None: ...
    def took_in(self, stored: StoredBundle) -> None: ...


class Paging:
    """Of one node. `window`: entries of one place that stay in memory; `room`: with more, some go.

    `most`: of all queues together, about; above it each keeps only a few. `warm`: entries in memory, whether
    they wait, rest, are with a reader, or on a line. `crowded`: queues with too many.
    `parted`: bundles in memory that have entries which are not. `unsure`: rows of bundles of which a start
    may find further entries.
    `doubted_before`: bundles below that row may have arrived where they go, whatever their header says.
    """

    __slots__ = (
        *("_alone", "_custody", "_most", "_read", "_wide", "crowded", "doubted_before", "parted", "resting"),
        *("shared", "unsure", "warm", "window"),
    )

    def __init__(self, keeper: Keeper, read_copies: ReadCopies, most: int) -> None:
        self._custody = keeper
        self._read = read_copies
        self._most = most
        self._wide = self.window = max(most // _PLACES, 1)
        self.shared = Shared()
        self.parted: dict[int, Parted] = {}
        self._alone: dict[int, None] = {}
        self.warm = 0
        self.resting = RestingTotal()
        self.crowded: dict[Queue, None] = {}
        self.unsure: Container[int] = ()
        self.doubted_before = 0

    def __repr__(self) -> str:
        return f"<Paging window={self.window} parted={len(self.parted)} {self.shared!r}>"

    @property
    def room(self) -> int:
        return 2 * self.window

    def look(self) -> bool:
        """Now and then: how many are in memory, in all queues together? True: each has another room now."""
        before, warm = self.window, self.warm - len(self._custody.dead.waiting.warm)
        if warm > self._most:
            self.window = max(self._most // _LEAST, 1)
        elif warm < self._most // 2:
            self.window = self._wide
        return self.window != before

    def fit(self, queue: Queue) -> None:
        """Where more are in memory than the queue has room for, the next commit lets some go."""
        if queue is not self._custody.dead:
            queue.waiting.room = self.room
            if len(queue.waiting.warm) > self.room:
                self.crowded[queue] = None

    @property
    def is_due(self) -> bool:
        return bool(self.crowded or self._alone)

    def cool(self, most: float = math.inf) -> None:
        """A commit has ended, and none is under way: where too many are in memory, let some go.

        `most`: how many entries of all queues, about; the others go after the next commit.
        """
        crowded, self.crowded = self.crowded, {}
        for queue in crowded:
            if most <= 0:
                self.crowded[queue] = None
            elif queue is not self._custody.dead and len(queue.waiting.warm) > queue.waiting.room:
                most -= self._let_go(queue, queue.waiting, most)
        alone, self._alone = self._alone, {}
        for row in alone:
            parted = self.parted.get(row)
            if parted is not None and parted.entries == parted.stored.entries:
                self._leave(parted)

    def _let_go(self, queue: Queue, waiting: Backlog, most: float) -> int:
        """Returns how many went."""
        stay: deque[QueueEntry] = deque()
        runs: list[list[QueueEntry]] = []
        gone = 0
        for entry in waiting.warm:
            if gone >= most or len(stay) < self.window or not self._may_go(entry):
                stay.append(entry)
                continue
            gone += 1
            if runs and len(runs[-1]) < PAGE and entry.row - runs[-1][0].row < WIDEST:
                runs[-1].append(entry)
            else:
                runs.append([entry])
        pages = [self._page_of(queue, run) for run in runs]
        waiting.let_go(stay, pages)
        self.warm -= gone
        if gone >= most:
            self.crowded[queue] = None
            waiting.room = self.room
        else:
            waiting.room = max(self.room, 2 * len(stay))
        return gone

    def _page_of(self, queue: Queue, run: list[QueueEntry]) -> Page:
        summary = summary_of(queue, run)
        page = Page(queue, run[0].row, summary)
        self._custody.transaction.put(row_of(page, summary))
        self._custody.expiry.add_page(page)
        for entry in run:
            self._release(entry)
        return page

    def _may_go(self, entry: QueueEntry) -> bool:
        """Does its row on disk say all that is known of it?"""
        stored, changes = entry.stored, self._custody.transaction.changes
        if not stored.row or not stored.safe or stored.doubted or stored.row in self.unsure:
            return False
        if entry.given or entry.number or entry.transfer or entry.backed_off:
            return False
        if entry.row in changes[CopyRow] or stored.row in changes[BundleRow]:
            return False
        if stored.row in self._custody.fresh:
            return False
        if abs(entry.since - stored.since) > _MOMENT:
            return False
        if stored.entries > 1:
            return not (entry.queue.keeps and entry.queue.destination is not None)
        return not stored.header.done

    def _release(self, entry: QueueEntry) -> None:
        stored = entry.stored
        if stored.entries > 1:
            parted = self.parted.setdefault(stored.row, Parted(stored, 0, 0))
            parted.entries += 1
            parted.keeps += entry.queue.keeps
            self.left(stored)
        else:
            if entry.queue.keeps:
                self._custody.kept.remove(entry)
                self._custody.kept.cold.add(stored.header.identity)
            self._custody.evict(stored)
        entry.done = entry.all

    def left(self, stored: StoredBundle) -> None:
        """It has several entries, and one fewer in memory: perhaps none any more."""
        parted = self.parted.get(stored.row)
        if parted is not None and parted.entries == stored.entries:
            self._alone[stored.row] = None

    def _leave(self, parted: Parted) -> None:
        """No entry is in memory: nor need the bundle be, if its row says all. Else after another commit."""
        stored, custody = parted.stored, self._custody
        if stored.row in custody.transaction.changes[BundleRow]:
            self._alone[stored.row] = None
            return
        del self.parted[stored.row]
        custody.kept.cool(stored.header.identity, parted.keeps)
        self.shared.put(stored.row, Cold(stored.entries, stored.uses, parted.keeps))
        custody.evict(stored)

    # --- back

    def fetch(self, page: Page) -> list[QueueEntry]:
        """The entries of a page, as they were."""
        custody = self._custody
        custody.transaction.delete(PageRow, page.first)
        self.warm += len(page)
        return [self._taken(each, page, index) for index, each in enumerate(self._rows_of(page))]

    def _taken(self, found: StoredEntry, page: Page, index: int) -> QueueEntry:
        custody = self._custody
        parted = self.parted.get(found.copy.bundle)
        if parted is not None:
            entry = self._made(found, page, index, parted.stored)
            self.doubt(entry.stored)
        else:
            entry = self._made(found, page, index)
            custody.took_in(entry.stored)
            parted = self.wake(entry.stored)
        if parted is not None:
            parted.entries -= 1
            parted.keeps -= page.queue.keeps
            if not parted.entries:
                del self.parted[entry.stored.row]
        elif page.queue.keeps:
            custody.kept.cold.remove(entry.stored.header.identity)
            custody.kept.add(entry)
        if entry.stored.header.expires_last:
            custody.expiry.add(entry)
        return entry

    def wake(self, stored: StoredBundle) -> Parted | None:
        """A bundle is in memory again. None: it had one entry alone."""
        cold = self.shared.take(stored.row)
        if cold is None:
            return None
        stored.entries, stored.uses = cold.entries, cold.uses
        self._custody.kept.wake(stored.header.identity, cold.keeps)
        parted = self.parted[stored.row] = Parted(stored, cold.entries, cold.keeps)
        return parted

    def look_into(self, page: Page) -> list[QueueEntry]:
        """The entries of a page for somebody who only looks: nothing of it stays in memory."""
        found = self._rows_of(page)
        parted = (self.parted.get(each.copy.bundle) for each in found)
        return [
            self._made(each, page, index, known.stored if known is not None else None)
            for index, (each, known) in enumerate(zip(found, parted, strict=True))
        ]

    def _rows_of(self, page: Page) -> Sequence[StoredEntry]:
        found = self._read(page.rows, page.size <= _WITH_BODIES)
        if len(found) != len(page):
            raise StoreError(
                f"{len(page) - len(found)} of {counted(len(page), 'message')} in {page.queue.name} cannot be"
                " found in the store: something else has written to it; start the node again"
            )
        return found

    def _made(
        self, found: StoredEntry, page: Page, index: int, stored: StoredBundle | None = None
    ) -> QueueEntry:
        row, spool = found.copy, page.spool(index)
        if stored is None:
            header = own_header(found.header)
            stored = StoredBundle(row.bundle, header, found.body, found.size, row.since / 1000)
            stored.safe, stored.entries, stored.encoded = True, 1, found.header
            self._custody.spools.count_again(stored, spool)
            if (cold := self.shared.find(row.bundle)) is not None:
                stored.entries, stored.uses = cold.entries, cold.uses
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

    # --- start

    def restore(self, queue: Queue, first: int, summary: Summary) -> Page:
        """A page as it was at the stop; of its entries nothing is read."""
        page = Page(queue, first, summary)
        queue.waiting.let_go(queue.waiting.warm, [page])
        self._custody.expiry.add_page(page)
        self._custody.spools.restore(queue, summary.costs, summary.came)
        if queue.keeps:
            self._custody.kept.cold.add_all(summary.ids, summary.again)
        for share in summary.shares:
            self._restore_share(queue, share)
        return page

    def _restore_share(self, queue: Queue, share: EntryShare) -> None:
        before = self.shared.take(share.bundle) or Cold(0, 0, 0)
        uses = self._custody.spools.restore_share(queue, before.uses, share.size, share.counts_in)
        if queue.keeps and not before.keeps:
            self._custody.kept.cold.add(share.identity)
        self.shared.put(share.bundle, Cold(before.entries + 1, uses, before.keeps + queue.keeps))
