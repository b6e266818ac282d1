"""Cooling: copies that wait leave memory when many do, and come back from their rows when it is their turn.

Law: nothing is written for it. A copy goes when it has changed nothing since its last commit, so that its
row says all that memory does; what it counts for stays counted. It comes back as another object: whoever
still holds the former one finds nothing open in it.

Wrinkle: of a bundle with several copies the bundle stays in memory while one of them is there, for all of
them together say when it goes.
"""

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Final

from broker.core.copies import Copy, Stored
from broker.core.rows import BundleRow, CopyRow, StoredCopy
from broker.core.waiting import PAGE, WIDEST, Page, Waiting
from treeconnector import bundles
from treeconnector.bundles import Flag
from treeconnector.errors import StoreError

if TYPE_CHECKING:
    from broker.core.custody import Custody
    from broker.core.place import Place

ReadCopies = Callable[[Sequence[int], bool], Sequence[StoredCopy]]
"""Rows of copies with their bundles' headers, in order; with the bodies where that is asked."""

_PLACES: Final = 64
_LEAST: Final = 1024
_WITH_BODIES: Final = 1024 * 1024
_MOMENT: Final = 0.001


class Cooling:
    """Of one node. `window`: copies of one place that stay in memory; `room`: with more, some go.

    `most`: of all places together, about; above it each keeps only a few. `crowded`: places with too many.
    `parted`: rows of bundles of which a start may find further copies.
    `doubted_before`: bundles below that row may have arrived where they go, whatever their header says.
    """

    def __init__(self, custody: "Custody", read_copies: ReadCopies, most: int) -> None:
        self._custody = custody
        self._read = read_copies
        self._most = most
        self._wide = self.window = max(most // _PLACES, 1)
        self._shared: dict[int, tuple[Stored, int]] = {}
        self.crowded: dict[Place, None] = {}
        self.parted: Container[int] = ()
        self.doubted_before = 0

    def __repr__(self) -> str:
        return f"<Cooling window={self.window} shared={len(self._shared)}>"

    @property
    def room(self) -> int:
        return 2 * self.window

    def look(self) -> None:
        """Now and then: how many are in memory, in all places together? The next commit lets some go."""
        places = [place for place in self._custody.places.values() if place is not self._custody.dead]
        warm = sum(len(place.waiting.warm) for place in places)
        if warm > self._most:
            self.window = max(self._most // _LEAST, 1)
        elif warm < self._most // 2:
            self.window = self._wide
        for place in places:
            place.waiting.room = self.room
            if len(place.waiting.warm) > self.room:
                self.crowded[place] = None

    def cool(self) -> None:
        """A commit has ended, and none is under way: where too many are in memory, let some go."""
        crowded, self.crowded = self.crowded, {}
        for place in crowded:
            if place is not self._custody.dead and len(place.waiting.warm) > place.waiting.room:
                self._let_go(place, place.waiting)

    def _let_go(self, place: "Place", waiting: Waiting) -> None:
        stay: deque[Copy] = deque()
        runs: list[list[Copy]] = []
        for copy in waiting.warm:
            if len(stay) < self.window or not self._may_go(copy):
                stay.append(copy)
            elif runs and len(runs[-1]) < PAGE and copy.row - runs[-1][0].row < WIDEST:
                runs[-1].append(copy)
            else:
                runs.append([copy])
        pages = [Page(place, run) for run in runs]
        for page, run in zip(pages, runs, strict=True):
            self._custody.expiry.add_page(page)
            for copy in run:
                self._release(copy)
        waiting.let_go(stay, pages)
        waiting.room = max(self.room, 2 * len(stay))

    def _may_go(self, copy: Copy) -> bool:
        """Does its row on disk say all that is known of it?"""
        stored, changes = copy.stored, self._custody.transaction.changes
        if not stored.row or not stored.safe or stored.doubted or stored.row in self.parted:
            return False
        if copy.given or copy.number or copy.transfer or copy.backed_off:
            return False
        if copy.row in changes[CopyRow] or stored.row in changes[BundleRow]:
            return False
        if stored.row in self._custody.fresh:
            return False
        keeps, kept = copy.place.keeps, self._custody.kept
        if stored.copies > 1:
            return not (keeps and copy.place.destination is not None)
        if stored.header.done or abs(copy.since - stored.since) > _MOMENT:
            return False
        return not (keeps and stored.header.identity in kept.cold)

    def _release(self, copy: Copy) -> None:
        stored = copy.stored
        if stored.copies > 1:
            self._shared[stored.row] = stored, self._shared.get(stored.row, (stored, 0))[1] + 1
        else:
            if copy.place.keeps:
                self._custody.kept.remove(copy)
                self._custody.kept.cold.add(stored.header.identity)
            self._custody.evict(stored)
        copy.done = copy.all

    # --- back

    def fetch(self, page: Page) -> list[Copy]:
        """The copies of a page, as they were."""
        copies = self.look_into(page)
        for copy in copies:
            stored = copy.stored
            if stored.row in self._shared:
                _, cold = self._shared.pop(stored.row)
                if cold > 1:
                    self._shared[stored.row] = stored, cold - 1
            else:
                self._custody.took_in(stored)
                if page.place.keeps:
                    self._custody.kept.cold.remove(stored.header.identity)
                    self._custody.kept.add(copy)
            if stored.header.expires_last:
                self._custody.expiry.add(copy)
        return copies

    def look_into(self, page: Page) -> list[Copy]:
        """The copies of a page for somebody who only looks: nothing of it stays in memory."""
        found = self._read(page.rows, page.size <= _WITH_BODIES)
        if len(found) != len(page):
            raise StoreError(
                f"{len(page) - len(found)} of {len(page)} messages that wait in {page.place.name} are not in"
                " the store: something else has written to it; start the node again"
            )
        return [self._made(each, page, index) for index, each in enumerate(found)]

    def _made(self, found: StoredCopy, page: Page, index: int) -> Copy:
        row, spool = found.copy, page.spool(index)
        shared = self._shared.get(row.bundle)
        if shared is not None:
            stored = shared[0]
        else:
            header = bundles.decode_header(found.header)
            stored = Stored(row.bundle, header, found.body, found.size, row.since / 1000)
            stored.safe, stored.copies, stored.encoded = True, 1, found.header
            self._custody.spools.count_again(stored, spool)
            self.doubt(stored)
        copy = Copy(row.row, stored, page.place, row.came, row.since / 1000)
        copy.done, copy.deliveries = bundles.mask_bits(row.done), row.deliveries
        copy.note, copy.spool = row.note, spool
        return copy

    def doubt(self, stored: Stored) -> None:
        """Mark what may have arrived where it goes, though nobody has written that into its row."""
        if stored.row < self.doubted_before and not stored.header.flags & Flag.MAYBE_DUPLICATE:
            stored.header.flags |= Flag.MAYBE_DUPLICATE
            stored.encoded = None
