"""A queue: where entries wait in order, who reads there, and where they go; the bundles of the entries.

Of the entries that wait, the *backlog*, some are in memory, the rest are rows on disk that are read in pages.
An entry in memory is *warm*. A *page* stands for entries that are not: only the numbers of their rows
are kept, and what is asked of all of them together. Rows ascend, whether warm or not; what comes back from a
page stands where it stood. Only the dead letters wait in the order in which they died, and all in memory.

Law: what is iterated over becomes warm on the way. Who looks at a whole queue says `warm` where that is
enough, or takes it a part at a time.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from heapq import merge
from operator import attrgetter
from typing import Any, Final, Protocol

from msgspec.structs import replace

from broker.core.messages.queue_names import FAN_OUT, SUBSCRIPTION, Spool
from broker.core.messages.resting import Resting, RestingTotal
from broker.core.messages.summaries import SPOOLS, Summary, is_sparse, unpacked
from broker.core.messages.tally import Tally
from broker.core.rows import CopyRow
from broker.core.settings import DEFAULT_POLICY, QueuePolicy
from sapwood.protocol.bundles import Header, Message, encode_header, mask_bytes
from sapwood.protocol.destinations import Destination, Kind

_row = attrgetter("row")


@dataclass(slots=True, eq=False, repr=False)
class StoredBundle:
    """A bundle that is kept: once, however many entries refer to it. `since`: when it came.

    `encoded`: the header's bytes, while they are known. `safe`: its messages may be given to consumers (we,
    or upstream, committed it). `doubted`: consumers here may have been given it before a crash. `uses`: how
    many of its entries count in which spool; only `Spools` reads it.
    """

    row: int
    header: Header
    body: bytes | None
    size: int
    since: float
    encoded: bytes | None = None
    safe: bool = False
    doubted: bool = False
    entries: int = 0
    uses: int = 0
    messages: list[Message] | None = None

    def __repr__(self) -> str:
        return f"<StoredBundle {self.row} {self.header} copies={self.entries}>"

    @property
    def head(self) -> bytes:
        """The header as bytes: as they came, or were written last."""
        if self.encoded is None:
            self.encoded = encode_header(self.header)
        return self.encoded

    def readdress(self, destination: Destination) -> None:
        """It is for another destination. Others may keep its header as it was: it has a new one."""
        self.header = replace(self.header, destination=destination)
        self.encoded = None


@dataclass(slots=True, eq=False, repr=False)
class QueueEntry:
    """One duty to deliver a bundle. `done`, `given`: masks of messages dealt with, and with consumers now.

    `spool`: where it is counted; None = with its place.
    """

    row: int
    stored: StoredBundle
    queue: "Queue"
    came: str
    since: float
    spool: Spool | None = None
    number: int = 0
    done: int = 0
    given: int = 0
    deliveries: int = 0
    transfer: int = 0
    note: str = ""
    backed_off: bool = False

    def __repr__(self) -> str:
        return f"<QueueEntry {self.row} of {self.stored.header} in {self.queue.name} number={self.number}>"

    @property
    def all(self) -> int:
        return (1 << self.stored.header.count) - 1

    @property
    def open(self) -> int:
        """How many messages are not dealt with yet."""
        return self.stored.header.count - self.done.bit_count()


def entry_row(entry: QueueEntry) -> CopyRow:
    return CopyRow(
        entry.row,
        entry.stored.row,
        entry.queue.name,
        entry.number,
        mask_bytes(entry.done) if entry.done else b"",
        entry.came,
        entry.deliveries,
        entry.transfer,
        int(entry.since * 1000),
        entry.note,
    )


class Page:
    """Entries that wait on disk. `read`: they are in memory again, and this is over."""

    __slots__ = (
        "_rows",
        "_spools",
        "count",
        "due",
        "first",
        "last",
        "owner",
        "queue",
        "read",
        "since",
        "size",
        "tells",
    )

    def __init__(self, queue: "Queue", first: int, summary: Summary) -> None:
        self.queue, self.first = queue, first
        self.owner: Backlog = queue.waiting
        self.last, self.count, self.size = summary.last, summary.count, summary.size
        self.since, self.due, self.tells = summary.since, summary.due, summary.tells
        self._rows, self._spools = summary.rows, summary.spools
        self.read = False

    def __repr__(self) -> str:
        return f"<Page of {self.queue.name} rows={self.first}..{self.last} of {len(self)}>"

    def __len__(self) -> int:
        return self.count

    @property
    def rows(self) -> Sequence[int]:
        """Numbers of the copies' rows, ascending; a `range` where none is left out."""
        return unpacked(self.first, self.last, self.count, self._rows)

    def stretches(self) -> Iterator[tuple[int, int]]:
        """The same, as rows and the bits of these and the rows after them."""
        if is_sparse(self.last - self.first + 1, self.count):
            yield from ((row, 1) for row in self.rows)
        elif self._rows:
            yield self.first, int.from_bytes(self._rows, "little")
        else:
            yield self.first, (1 << self.count) - 1

    def spool(self, index: int) -> Spool | None:
        """Where the entry at `index` is counted."""
        return SPOOLS[self._spools[index if len(self._spools) > 1 else 0]]


class PageReader(Protocol):
    """Reads pages. `room`: so many entries of one queue stay in memory; with more, some go.

    `resting`: how many rest in all queues.
    """

    resting: RestingTotal

    @property
    def room(self) -> int: ...
    def fetch(self, page: "Page") -> "list[QueueEntry]":
        """Its entries, as they were; the page is over."""

    def look_into(self, page: "Page") -> "list[QueueEntry]":
        """Its entries for somebody who only looks: nothing of it stays in memory."""


_NOTHING: Final[deque[QueueEntry]] = deque(maxlen=0)


class Backlog:
    """The entries that wait in one place. `warm`: those in memory, in order.

    `room`: with more than that in memory it is time to let some go.
    """

    __slots__ = ("_cold", "_paging", "pages", "room", "warm")

    def __init__(self, paging: PageReader) -> None:
        self.warm = _NOTHING
        self.pages: list[Page] = []
        self.room = paging.room
        self._paging = paging
        self._cold = 0

    def __repr__(self) -> str:
        return f"<Backlog {len(self)} of them {self._cold} on disk alone>"

    def __len__(self) -> int:
        return len(self.warm) + self._cold

    def __bool__(self) -> bool:
        return bool(self.warm) or bool(self.pages)

    def __contains__(self, entry: QueueEntry) -> bool:
        return entry in self.warm

    def __iter__(self) -> Iterator[QueueEntry]:
        """All in order, the first page of them read when it is reached."""
        if not self.pages:
            yield from self.warm
            return
        passed = 0
        while True:
            edge = self.pages[0].first if self.pages else None
            for entry in self.warm:
                if edge is not None and entry.row > edge:
                    break
                if entry.row > passed:
                    passed = entry.row
                    yield entry
            if not self.pages:
                return
            self.load(self.pages[0])

    def __reversed__(self) -> Iterator[QueueEntry]:
        """All in reverse order, read in the same way."""
        if not self.pages:
            yield from reversed(self.warm)
            return
        passed: int | None = None
        while True:
            edge = max(page.last for page in self.pages) if self.pages else 0
            for entry in reversed(self.warm):
                if entry.row < edge:
                    break
                if passed is None or entry.row < passed:
                    passed = entry.row
                    yield entry
            if not self.pages:
                return
            self.load(max(self.pages, key=lambda page: page.last))

    def __getitem__(self, index: int) -> QueueEntry:
        """Only of the first (0) and the last (-1)."""
        if index == 0:
            self._surface()
            return self.warm[0]
        return next(iter(reversed(self)))

    @property
    def since(self) -> float | None:
        """Since when the first has been here; None if there is none."""
        page, entry = self.pages[0] if self.pages else None, self.warm[0] if self.warm else None
        if page is not None and (entry is None or page.first < entry.row):
            return page.since
        return None if entry is None else entry.since

    def _own(self) -> deque[QueueEntry]:
        """A deque takes most of a kilobyte, and nothing ever waits in most places."""
        if self.warm is _NOTHING:
            self.warm = deque()
        return self.warm

    def append(self, entry: QueueEntry) -> None:
        """It comes after all others: its row is the newest."""
        self._own().append(entry)

    def add(self, entry: QueueEntry) -> None:
        """It is older than some that wait here already."""
        insort(self._own(), entry, key=lambda each: each.row)

    def popleft(self) -> QueueEntry:
        if self.pages:
            self._surface()
        return self.warm.popleft()

    def remove(self, entry: QueueEntry) -> None:
        if entry is self.warm[-1]:
            self.warm.pop()
        else:
            self.warm.remove(entry)

    def put_back(self, entries: Iterable[QueueEntry]) -> None:
        """Let entries wait again, oldest first, in front of what came after them."""
        ordered = sorted(entries, key=_row)
        if not ordered:
            return
        if not self.warm or ordered[-1].row < self.warm[0].row:
            self._own().extendleft(reversed(ordered))
            return
        again = {entry.row: entry for entry in self.warm}
        again.update((entry.row, entry) for entry in ordered)
        self.warm = deque(sorted(again.values(), key=_row))

    def take_these(self, gone: Set[QueueEntry]) -> list[QueueEntry]:
        """Take those in memory. Mostly they are the first; if not, the others are gone through once."""
        found: list[QueueEntry] = []
        warm = self.warm
        while warm and warm[0] in gone:
            found.append(warm.popleft())
        return found + self.take_out(gone.__contains__) if len(found) < len(gone) else found

    def take_out(self, gone: Callable[[QueueEntry], bool]) -> list[QueueEntry]:
        """Take some of those in memory; return them, in order."""
        found = [entry for entry in self.warm if gone(entry)]
        if found:
            self.warm = deque(entry for entry in self.warm if not gone(entry))
        return found

    # --- pages

    def let_go(self, stay: deque[QueueEntry], pages: list[Page]) -> None:
        """These stay in memory, and of the others there are pages from now on."""
        self.warm = stay
        self._cold += sum(map(len, pages))
        behind = not self.pages or (bool(pages) and pages[0].first > self.pages[-1].first)
        self.pages.extend(pages)
        if not behind:
            self.pages.sort(key=lambda page: page.first)

    def load(self, page: Page) -> None:
        """Read the entries of a page; they wait in memory again. Nothing, if it was read meanwhile."""
        if page.read:
            return
        self.pages.remove(page)
        self._cold -= len(page)
        entries = self._paging.fetch(page)
        page.read = True
        if not self.warm or entries[-1].row < self.warm[0].row:
            self._own().extendleft(reversed(entries))
        else:
            self.warm = deque(sorted([*self.warm, *entries], key=lambda entry: entry.row))

    def look(self, first: int = 0) -> Iterator[QueueEntry]:
        """All from a row on, in order, for somebody who only looks: nothing more is in memory after it."""
        warm = [entry for entry in self.warm if entry.row >= first]
        pages = (page for page in list(self.pages) if page.last >= first and not page.read)
        cold = (entry for page in pages for entry in self._paging.look_into(page) if entry.row >= first)
        return merge(warm, cold, key=lambda entry: entry.row)

    def wake(self, row: int) -> QueueEntry | None:
        """The entry of that row, in memory; None if it does not wait here."""
        for page in list(self.pages):
            if page.first <= row <= page.last:
                self.load(page)
        return next((entry for entry in self.warm if entry.row == row), None)

    def _surface(self) -> None:
        """Have the first in memory."""
        while self.pages and not (self.warm and self.warm[0].row < self.pages[0].first):
            self.load(self.pages[0])


@dataclass(slots=True, eq=False, repr=False)
class Queue:
    """Where entries wait, in order. `waiting`: those with messages that nobody has.

    `keeps`: for consumers here or to be routed; not for a link or for another node's subscribers, not dead.
    `resting`: by row, those that would go back where they came from, until a timer ends; for a link, those
    that the peer does not take now.
    `unfollowed`: entries below that row may have heirs that are to have them before they leave.
    `swept`: for a link, whether the child may have what is older is to be asked before it is sent.
    `next_hop`: the one neighbour that takes what is for here, as long as the table's `version` is `ways`.
    `idle_at`: how many messages had entered when it was seen idle last, -1 if something has waited since.
    `held_back`: neighbours that are asked to keep what is for here, and under which addresses they bring it.
    `asking`: some sender, of what waits here now or waited before it, asked to be told if nobody serves.
    `wanted`: how many neighbours have it among those that they take from next.
    `pattern`: that its subscription has, '' = it has several, or this is no subscription's.
    `spool`: where it counts, None = nowhere; `together`: bytes of entries with no spool of their own.
    """

    name: str
    destination: Destination | None
    _paging: PageReader
    keeps: bool = field(init=False)
    waiting: Backlog = field(init=False)
    resting: "Resting[QueueEntry]" = field(init=False)
    messages: int = 0
    size: int = 0
    spool: Spool | None = Spool.UP
    together: int = 0
    consumers: list[Any] = field(default_factory=list)
    turn: int = 0
    idle_at: int = -1
    next_hop: str = ""
    ways: int = -1
    targets: frozenset[str] = frozenset()
    held_back: dict[str, set[Destination]] = field(default_factory=dict)
    senders: dict[str, int] = field(default_factory=dict)
    created: bool = False
    home: bool = False
    asking: bool = False
    policy: QueuePolicy = DEFAULT_POLICY
    owner: str = ""
    wanted: int = 0
    swept: int = 0
    pattern: str = ""
    unfollowed: int = 0
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        for_a_node = self.destination is not None and self.destination.kind == Kind.TOPIC
        self.keeps = (self.destination is not None and not for_a_node) or self.name.startswith(
            (SUBSCRIPTION, FAN_OUT)
        )
        self.waiting = Backlog(self._paging)
        self.resting = Resting(self._paging.resting)

    def __repr__(self) -> str:
        return f"<Queue {self.name} messages={self.messages} readers={len(self.consumers)}>"

    @property
    def left(self) -> int:
        """How many messages have gone from here since the start, whatever way."""
        return self.tally.brought + self.tally.entered - self.messages

    def end_rest(self) -> None:
        """Let those that would only go back where they came from wait with the others again."""
        self.waiting.put_back(self.resting.take_all())

    def empty(self) -> Backlog:
        """Take all that waits or rests here, for whoever makes an end of it."""
        self.end_rest()
        taken, self.waiting = self.waiting, Backlog(self._paging)
        return taken
