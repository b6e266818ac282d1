"""A bundle that a node keeps, and an entry of it in a queue: one duty to deliver it from there."""

from typing import TYPE_CHECKING, Final

from broker.core.messages.queue_names import Spool
from broker.core.rows import CopyRow
from treeconnector import bundles
from treeconnector.bundles import Flag, Header

if TYPE_CHECKING:
    from broker.core.messages.queue import Queue

IN_DOUBT: Final = Flag.REROUTED | Flag.MAYBE_DUPLICATE


class StoredBundle:
    """A bundle that is kept. `safe`: its messages may be given to consumers (we, or upstream, committed it).

    `encoded`: the header's bytes, while they are known. `uses`: how many of its entries count in which spool;
    only `Spools` reads it. `doubted`: consumers here may have been given it before a crash.
    """

    __slots__ = (
        "body",
        "doubted",
        "encoded",
        "entries",
        "header",
        "messages",
        "row",
        "safe",
        "since",
        "size",
        "uses",
    )

    def __init__(self, row: int, header: Header, body: bytes | None, size: int, since: float) -> None:
        self.row = row
        self.header = header
        self.encoded: bytes | None = None
        self.body = body
        self.size = size
        self.since = since
        self.entries = 0
        self.safe = False
        self.doubted = False
        self.uses = 0
        self.messages: list[bundles.Message] | None = None

    def __repr__(self) -> str:
        return f"<StoredBundle {self.row} {self.header} copies={self.entries}>"

    @property
    def head(self) -> bytes:
        """The header as bytes: as they came, or were written last."""
        if self.encoded is None:
            self.encoded = bundles.encode_header(self.header)
        return self.encoded


class QueueEntry:
    """One duty to deliver a bundle. `done`, `given`: masks of messages dealt with, and with consumers now.

    `spool`: where it is counted; None = with its place.
    """

    __slots__ = (
        "backed_off",
        "came",
        "deliveries",
        "done",
        "given",
        "note",
        "number",
        "queue",
        "row",
        "since",
        "spool",
        "stored",
        "transfer",
    )

    def __init__(self, row: int, stored: StoredBundle, queue: "Queue", came: str, since: float) -> None:
        self.row = row
        self.stored = stored
        self.queue = queue
        self.came = came
        self.since = since
        self.spool: Spool | None = None
        self.number = 0
        self.done = 0
        self.given = 0
        self.deliveries = 0
        self.transfer = 0
        self.note = ""
        self.backed_off = False

    def __repr__(self) -> str:
        return f"<QueueEntry {self.row} of {self.stored.header} in {self.queue.name} number={self.number}>"

    @property
    def all(self) -> int:
        return (1 << self.stored.header.count) - 1

    @property
    def open(self) -> int:
        """How many messages are not dealt with yet."""
        return self.stored.header.count - self.done.bit_count()


def may_be_told(entry: QueueEntry) -> bool:
    """Does its sender want to hear at once that nobody serves the queue, and has nobody had it?"""
    flags = entry.stored.header.flags
    return bool(flags & Flag.TELL) and not (flags & IN_DOUBT or entry.given or entry.deliveries)


def entry_row(entry: QueueEntry) -> CopyRow:
    return CopyRow(
        entry.row,
        entry.stored.row,
        entry.queue.name,
        entry.number,
        bundles.mask_bytes(entry.done),
        entry.came,
        entry.deliveries,
        entry.transfer,
        int(entry.since * 1000),
        entry.note,
    )
