"""What waits in one place, in order: some of it in memory, the rest as rows on disk that are read in pages.

A copy in memory is *warm*. A *page* stands for copies that are not: of these only the numbers of their rows
are kept, and what is asked of all of them together. Rows ascend, whether warm or not; what comes back from a
page stands where it stood. Only the dead letters wait in the order in which they died, and all in memory.

Law: what is iterated over becomes warm on the way. Who looks at a whole place says `warm` where that is
enough, or takes it a part at a time.
"""

from array import array
from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import TYPE_CHECKING, Final

from broker.core.copies import may_be_told
from broker.core.places import Spool

if TYPE_CHECKING:
    from broker.core.cooling import Cooling
    from broker.core.copies import Copy
    from broker.core.place import Place

PAGE: Final = 256
WIDEST: Final = 1 << 32
"""How far apart the rows of one page may lie."""
NEVER: Final = float("inf")


class Page:
    """Copies that wait on disk. `due`: when the first of them expires. `tells`: does a sender of one want to
    hear when nobody serves it?

    `size`: bytes of their bodies. `since`: of the first. `read`: they are in memory again, and this is over.
    """

    __slots__ = (
        "_offsets",
        "_spools",
        "due",
        "first",
        "last",
        "owner",
        "place",
        "read",
        "since",
        "size",
        "tells",
    )

    def __init__(self, place: "Place", copies: "Sequence[Copy]") -> None:
        self.place, self.owner = place, place.waiting
        self.first, self.last, self.since = copies[0].row, copies[-1].row, copies[0].since
        dense = self.last - self.first + 1 == len(copies)
        self._offsets = None if dense else array("I", [copy.row - self.first for copy in copies])
        spools = [copy.spool for copy in copies]
        self._spools = spools if len(set(spools)) > 1 else spools[:1]
        self.size, self.tells = 0, False
        self.read = False
        self.due = NEVER
        for copy in copies:
            stored = copy.stored
            self.size += stored.size
            self.tells = self.tells or may_be_told(copy)
            if stored.header.expires_last:
                self.due = min(self.due, stored.since + stored.header.expires_last / 1000)

    def __repr__(self) -> str:
        return f"<Page of {self.place.name} rows={self.first}..{self.last} of {len(self)}>"

    def __len__(self) -> int:
        return self.last - self.first + 1 if self._offsets is None else len(self._offsets)

    @property
    def rows(self) -> Sequence[int]:
        """Numbers of the copies' rows, ascending; a `range` where none is left out."""
        if self._offsets is None:
            return range(self.first, self.last + 1)
        return [self.first + offset for offset in self._offsets]

    def spool(self, index: int) -> Spool | None:
        """Where the copy at `index` is counted."""
        return self._spools[index] if len(self._spools) > 1 else self._spools[0]


class Waiting:
    """The copies that wait in one place. `warm`: those in memory, in order.

    `room`: with more than that in memory it is time to let some go.
    """

    __slots__ = ("_cold", "_cooling", "pages", "room", "warm")

    def __init__(self, cooling: "Cooling") -> None:
        self.warm: deque[Copy] = deque()
        self.pages: deque[Page] = deque()
        self.room = cooling.room
        self._cooling = cooling
        self._cold = 0

    def __repr__(self) -> str:
        return f"<Waiting {len(self)} of them {self._cold} on disk alone>"

    def __len__(self) -> int:
        return len(self.warm) + self._cold

    def __bool__(self) -> bool:
        return bool(self.warm) or bool(self.pages)

    def __contains__(self, copy: "Copy") -> bool:
        return copy in self.warm

    def __iter__(self) -> "Iterator[Copy]":
        """All in order, the first page of them read when it is reached."""
        if not self.pages:
            yield from self.warm
            return
        passed = 0
        while True:
            edge = self.pages[0].first if self.pages else NEVER
            for copy in self.warm:
                if copy.row > edge:
                    break
                if copy.row > passed:
                    passed = copy.row
                    yield copy
            if not self.pages:
                return
            self.load(self.pages[0])

    def __reversed__(self) -> "Iterator[Copy]":
        """All in reverse order, read in the same way."""
        if not self.pages:
            yield from reversed(self.warm)
            return
        passed = NEVER
        while True:
            edge = max(page.last for page in self.pages) if self.pages else 0
            for copy in reversed(self.warm):
                if copy.row < edge:
                    break
                if copy.row < passed:
                    passed = copy.row
                    yield copy
            if not self.pages:
                return
            self.load(max(self.pages, key=lambda page: page.last))

    def __getitem__(self, index: int) -> "Copy":
        """Only of the first (0) and the last (-1)."""
        if index == 0:
            self._surface()
            return self.warm[0]
        return next(iter(reversed(self)))

    @property
    def since(self) -> float | None:
        """Since when the first has been here; None if there is none."""
        page, copy = self.pages[0] if self.pages else None, self.warm[0] if self.warm else None
        if page is not None and (copy is None or page.first < copy.row):
            return page.since
        return None if copy is None else copy.since

    def append(self, copy: "Copy") -> None:
        """It comes after all others: its row is the newest."""
        self.warm.append(copy)

    def add(self, copy: "Copy") -> None:
        """It is older than some that wait here already."""
        insort(self.warm, copy, key=lambda each: each.row)

    def popleft(self) -> "Copy":
        if self.pages:
            self._surface()
        return self.warm.popleft()

    def remove(self, copy: "Copy") -> None:
        if copy is self.warm[-1]:
            self.warm.pop()
        else:
            self.warm.remove(copy)

    def put_back(self, copies: "Iterable[Copy]") -> None:
        """Let copies wait again, oldest first, in front of what came after them."""
        again = {copy.row: copy for copy in self.warm}
        again.update((copy.row, copy) for copy in copies)
        self.warm = deque(sorted(again.values(), key=lambda copy: copy.row))

    def take_out(self, gone: "Callable[[Copy], bool]") -> "list[Copy]":
        """Take some of those in memory; return them, in order."""
        found = [copy for copy in self.warm if gone(copy)]
        if found:
            self.warm = deque(copy for copy in self.warm if not gone(copy))
        return found

    # --- pages

    def let_go(self, stay: "deque[Copy]", pages: list[Page]) -> None:
        """These stay in memory, and of the others there are pages from now on."""
        self.warm = stay
        self._cold += sum(map(len, pages))
        behind = not self.pages or (bool(pages) and pages[0].first > self.pages[-1].first)
        self.pages.extend(pages)
        if not behind:
            self.pages = deque(sorted(self.pages, key=lambda page: page.first))

    def load(self, page: Page) -> None:
        """Read the copies of a page; they wait in memory again. Nothing, if it was read meanwhile."""
        if page.read:
            return
        if self.pages[0] is page:
            self.pages.popleft()
        else:
            self.pages.remove(page)
        self._cold -= len(page)
        copies = self._cooling.fetch(page)
        page.read = True
        if not self.warm or copies[-1].row < self.warm[0].row:
            self.warm.extendleft(reversed(copies))
        else:
            self.warm = deque(sorted([*self.warm, *copies], key=lambda copy: copy.row))

    def look(self, first: int = 0) -> "Iterator[Copy]":
        """All from a row on, in order, for somebody who only looks: nothing more is in memory after it."""
        warm = [copy for copy in self.warm if copy.row >= first]
        pages = (page for page in list(self.pages) if page.last >= first and not page.read)
        cold = (copy for page in pages for copy in self._cooling.look_into(page) if copy.row >= first)
        return merge(warm, cold, key=lambda copy: copy.row)

    def wake(self, row: int) -> "Copy | None":
        """The copy of that row, in memory; None if it does not wait here."""
        for page in list(self.pages):
            if page.first <= row <= page.last:
                self.load(page)
        return next((copy for copy in self.warm if copy.row == row), None)

    def _surface(self) -> None:
        """Have the first in memory."""
        while self.pages and not (self.warm and self.warm[0].row < self.pages[0].first):
            self.load(self.pages[0])
