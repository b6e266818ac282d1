"""Pages: entries that wait in one queue, on disk alone, and what is known of all of them together.

Law: the row of a page says of its entries what their own rows say. It is written when they leave memory and
goes when they come back, so in the transaction of whatever changes one of them, or before. A start reads
these rows instead of the entries'.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from broker.core.messages.deduplication import IdentitySet
from broker.core.messages.queue import Page, Queue, QueueEntry
from broker.core.messages.summaries import (
    BUNDLE,
    CODES,
    COPY,
    NEVER,
    ROW,
    EntryShare,
    Summary,
    decode,
    encode,
    packed,
    unpacked,
)
from broker.core.rows import PageRow
from sapwood.protocol.bundles import Flag

BLOCK: Final = 1 << 16
_FULL: Final = pow(2, BLOCK) - 1  # `<<` of two constants is a literal of 20,000 digits to mypyc


def may_be_told(entry: QueueEntry) -> bool:
    """Does its sender want to hear at once that nobody serves the queue, and has nobody had it?"""
    flags = entry.stored.header.flags
    had = flags & Flag.MAYBE_DUPLICATE or entry.given or entry.deliveries
    return bool(flags & Flag.TELL) and not had


def summary_of(queue: Queue, entries: Sequence[QueueEntry]) -> Summary:
    """What is known of entries that are about to leave memory, in the order of their rows."""
    kept, again, came, senders = IdentitySet(), list[bytes](), Counter[str](), Counter[str]()
    costs, shares, codes = [0, 0, 0, 0], list[EntryShare](), bytearray()
    due, messages, size = NEVER, 0, 0
    for entry in entries:
        stored, code = entry.stored, CODES[entry.spool]
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
        rows=packed(first, last, [entry.row for entry in entries]),
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


def rows_of(row: PageRow) -> Sequence[int]:
    """The rows of the entries that a page stands for."""
    summary = summary_in(row)
    return unpacked(row.first, summary.last, summary.count, summary.rows)


def row_of(page: Page, summary: Summary) -> PageRow:
    return PageRow(page.first, page.queue.name, encode(summary))


def summary_in(row: PageRow) -> Summary:
    return decode(row.summary)


class Covered:
    """Which rows of entries stand in pages: a bit for each, by `BLOCK` rows."""

    __slots__ = ("blocks",)

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
