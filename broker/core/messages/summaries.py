"""Summaries: what a page's row says of its entries, so that a start need not read these.

Rows of a page are packed: nothing where none is left out, else a bit for each or four bytes an entry.
"""

from array import array
from collections.abc import Sequence
from typing import Final

import msgspec

from broker.core.messages.queue_names import Spool

PAGE: Final = 256
WIDEST: Final = 1 << 32
"""How far apart the rows of one page may lie."""
NEVER: Final = float("inf")
_SPARSE: Final = 32
SPOOLS: Final = (None, Spool.UP, Spool.DOWN, Spool.REROUTED)
CODES: Final = {spool: code for code, spool in enumerate(SPOOLS)}
COPY: Final = 4096
BUNDLE: Final = 128
ROW: Final = 48
"""A bundle and each entry of it take so many bytes beside the body, as measured on disk."""


class EntryShare(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One copy's part in a bundle that has several. `spool`: where it counts. `identity`: if that is kept."""

    bundle: int
    size: int
    spool: int
    identity: bytes

    @property
    def counts_in(self) -> Spool | None:
        return SPOOLS[self.spool]


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


decode: Final = msgspec.msgpack.Decoder(Summary).decode
encode: Final = msgspec.msgpack.Encoder().encode


def packed(first: int, last: int, rows: list[int]) -> bytes:
    width = last - first + 1
    if width == len(rows):
        return b""
    offsets = array("I", [row - first for row in rows])
    if is_sparse(width, len(rows)):
        return offsets.tobytes()
    bits = bytearray(width + 7 >> 3)
    for offset in offsets:
        bits[offset >> 3] |= 1 << (offset & 7)
    return bytes(bits)


def unpacked(first: int, last: int, count: int, packed: bytes) -> Sequence[int]:
    width = last - first + 1
    if not packed:
        return range(first, last + 1)
    if is_sparse(width, count):
        return [first + offset for offset in array("I", packed)]
    return [first + at for at in range(width) if packed[at >> 3] >> (at & 7) & 1]


def is_sparse(width: int, count: int) -> bool:
    """So far apart that four bytes for each are fewer than a bit for each row between them."""
    return width > _SPARSE * count
