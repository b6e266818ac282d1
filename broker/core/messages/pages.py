"""Pages: entries that wait in one queue, on disk alone, and what is known of all of them together.

Law: the row of a page says of its entries what their own rows say. It is written when they leave memory and
goes when they come back, so in the transaction of whatever changes one of them, or before. A start reads
these rows instead of the entries'.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from broker.core.messages.deduplication import IdentitySet
from broker.core.messages.entries import may_be_told
from broker.core.messages.queue_names import Spool
from broker.core.messages.spools import BUNDLE, COPY, ROW
from broker.core.rows import PageRow

if TYPE_CHECKING:
    from broker.core.messages.backlog import Backlog
    from broker.core.messages.entries import QueueEntry
    from broker.core.messages.queue import Queue

PAGE: Final = 256
WIDEST: Final = 1 << 32
"""How far apart the rows of one page may lie."""
NEVER: Final = float("inf")
BLOCK: Final = 1 << 16
_FULL: Final = (1 << BLOCK) - 1
_SPARSE: Final = 32
_SPOOLS: Final = (None, Spool.UP, Spool.DOWN, Spool.REROUTED)
_CODES: Final = {spool: code for code, spool in enumerate(_SPOOLS)}


class EntryShare(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One copy's part in a bundle that has several. `spool`: where it counts. `identity`: if that is kept."""

    bundle: int
    size: int
    spool: int
    identity: bytes

    @property
    def counts_in(self) -> Spool | None:
        return _SPOOLS[self.spool]


class Summary(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a page's row says of its entries. Only grows by fields at its end.

    `rows`: empty = all from the first to the last; else a bit for each of these, or four bytes an entry.
    `size`: bytes of their bodies. `bundle`: the highest row of a bundle. `since`: of the first entry. `due`:
    when the first of them expires. `tells`: does a sender of one want to hear when nobody serves it?

    `spools`: where each entry counts, once where that is the same. `costs`: of those whose bundle is theirs
    alone, by spool. `came`, `senders`: what is counted for whom. `ids`: of their bundles, by maker and run;
    `again`: those that are there once more. `shares`: of the bundles that have several entries.
    """

    last: int
    count: int
    rows: bytes
    messages: int
    size: int
    bundle: int
    since: float
    due: float
    tells: bool
    spools: bytes
    costs: tuple[int, int, int, int]
    came: dict[str, int]
    senders: dict[str, int]
    ids: dict[bytes, dict[int, bytes]]
    again: list[bytes]
    shares: list[EntryShare]


_decode: Final = msgspec.msgpack.Decoder(Summary).decode
_encode: Final = msgspec.msgpack.Encoder().encode


def summary_of(queue: "Queue", entries: "Sequence[QueueEntry]") -> Summary:
    """What is known of entries that are about to leave memory, in the order of their rows."""
    kept, again, came, senders = IdentitySet(), list[bytes](), Counter[str](), Counter[str]()
    costs, shares, codes = [0, 0, 0, 0], list[EntryShare](), bytearray()
    due, messages, size = NEVER, 0, 0
    for entry in entries:
        stored, code = entry.stored, _CODES[entry.spool]
        codes.append(code)
        messages += entry.open
        size += stored.size
        if entry.came:
            came[entry.came] += stored.size + COPY
        if entry.note and queue.destination is not None:
            senders[entry.note] += entry.open
        if stored.entries > 1:
            identity = stored.header.identity if queue.keeps else b""
            shares.append(EntryShare(stored.row, stored.size, code, identity))
        else:
            costs[code] += stored.size + BUNDLE + ROW
            if queue.keeps:
                identity = stored.header.identity
                (again.append if identity in kept else kept.add)(identity)
        if stored.header.expires_last:
            due = min(due, stored.since + stored.header.expires_last / 1000)
    first, last = entries[0].row, entries[-1].row
    return Summary(
        last=last,
        count=len(entries),
        rows=_packed(first, last, [entry.row for entry in entries]),
        messages=messages,
        size=size,
        bundle=max(entry.stored.row for entry in entries),
        since=entries[0].since,
        due=due,
        tells=any(map(may_be_told, entries)),
        spools=bytes(codes) if len(set(codes)) > 1 else bytes(codes[:1]),
        costs=(costs[0], costs[1], costs[2], costs[3]),
        came=came,
        senders=senders,
        ids=kept.as_bytes(),
        again=again,
        shares=shares,
    )


def _packed(first: int, last: int, rows: list[int]) -> bytes:
    width = last - first + 1
    if width == len(rows):
        return b""
    offsets = array("I", [row - first for row in rows])
    if _is_sparse(width, len(rows)):
        return offsets.tobytes()
    bits = bytearray(width + 7 >> 3)
    for offset in offsets:
        bits[offset >> 3] |= 1 << (offset & 7)
    return bytes(bits)


def _unpacked(first: int, last: int, count: int, packed: bytes) -> Sequence[int]:
    width = last - first + 1
    if not packed:
        return range(first, last + 1)
    if _is_sparse(width, count):
        return [first + offset for offset in array("I", packed)]
    return [first + at for at in range(width) if packed[at >> 3] >> (at & 7) & 1]


def _is_sparse(width: int, count: int) -> bool:
    """So far apart that four bytes for each are fewer than a bit for each row between them."""
    return width > _SPARSE * count


def rows_of(row: PageRow) -> Sequence[int]:
    """The rows of the entries that a page stands for."""
    summary = summary_in(row)
    return _unpacked(row.first, summary.last, summary.count, summary.rows)


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
        return _unpacked(self.first, self.last, self.count, self._rows)

    def stretches(self) -> Iterator[tuple[int, int]]:
        """The same, as rows and the bits of these and the rows after them."""
        if _is_sparse(self.last - self.first + 1, self.count):
            yield from ((row, 1) for row in self.rows)
        elif self._rows:
            yield self.first, int.from_bytes(self._rows, "little")
        else:
            yield self.first, (1 << self.count) - 1

    def spool(self, index: int) -> Spool | None:
        """Where the entry at `index` is counted."""
        return _SPOOLS[self._spools[index if len(self._spools) > 1 else 0]]


def row_of(page: Page, summary: Summary) -> PageRow:
    return PageRow(page.first, page.queue.name, _encode(summary))


def summary_in(row: PageRow) -> Summary:
    return _decode(row.summary)


class Covered:
    """Which rows of entries stand in pages: a bit for each, by `BLOCK` rows."""

    def __init__(self, pages: Iterable[Page] = ()) -> None:
        self.blocks: dict[int, int] = {}
        for page in pages:
            for row, bits in page.stretches():
                self._add(row, bits)

    def __repr__(self) -> str:
        return f"<Covered {sum(bits.bit_count() for bits in self.blocks.values())} rows>"

    def __bool__(self) -> bool:
        return bool(self.blocks)

    def __contains__(self, row: int) -> bool:
        return bool(self.blocks.get(row // BLOCK, 0) >> row % BLOCK & 1)

    def _add(self, row: int, bits: int) -> None:
        block, at = divmod(row, BLOCK)
        bits <<= at
        while bits:
            self.blocks[block] = self.blocks.get(block, 0) | bits & _FULL
            bits >>= BLOCK
            block += 1
