"""A bundle that a node keeps, and a copy of it: one duty to deliver it from one place."""

from typing import TYPE_CHECKING, Final

from broker.core.places import Spool
from broker.core.rows import CopyRow
from treeconnector import bundles
from treeconnector.bundles import Flag, Header

if TYPE_CHECKING:
    from broker.core.place import Place

IN_DOUBT: Final = Flag.REROUTED | Flag.MAYBE_DUPLICATE


class Stored:
    """A bundle that is kept. `safe`: its messages may be given to readers (we, or upstream, committed it).

    `encoded`: the header's bytes, while they are known. `uses`: how many of its copies count in which spool;
    only `Spools` reads it. `doubted`: readers here may have been given it before a crash.
    """

    __slots__ = (
        "body",
        "copies",
        "doubted",
        "encoded",
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
        self.copies = 0
        self.safe = False
        self.doubted = False
        self.uses = 0
        self.messages: list[bundles.Message] | None = None

    def __repr__(self) -> str:
        return f"<Stored {self.row} {self.header} copies={self.copies}>"

    @property
    def head(self) -> bytes:
        """The header as bytes: as they came, or were written last."""
        if self.encoded is None:
            self.encoded = bundles.encode_header(self.header)
        return self.encoded


class Copy:
    """One duty to deliver a bundle. `done`, `given`: masks of messages dealt with, and with readers now.

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
        "place",
        "row",
        "since",
        "spool",
        "stored",
        "transfer",
    )

    def __init__(self, row: int, stored: Stored, place: "Place", came: str, since: float) -> None:
        self.row = row
        self.stored = stored
        self.place = place
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
        return f"<Copy {self.row} of {self.stored.header} in {self.place.name} number={self.number}>"

    @property
    def all(self) -> int:
        return (1 << self.stored.header.count) - 1

    @property
    def open(self) -> int:
        """How many messages are not dealt with yet."""
        return self.stored.header.count - self.done.bit_count()


def may_be_told(copy: Copy) -> bool:
    """Does its sender want to hear at once that nobody serves the queue, and has nobody had it?"""
    flags = copy.stored.header.flags
    return bool(flags & Flag.TELL) and not (flags & IN_DOUBT or copy.given or copy.deliveries)


def copy_row(copy: Copy) -> CopyRow:
    return CopyRow(
        copy.row,
        copy.stored.row,
        copy.place.name,
        copy.number,
        bundles.mask_bytes(copy.done),
        copy.came,
        copy.deliveries,
        copy.transfer,
        int(copy.since * 1000),
        copy.note,
    )
