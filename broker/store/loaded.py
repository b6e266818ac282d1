"""Everything that a start reads from the store: all rows, but of bundles and copies, of which there may be
millions: these are read one after the other.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from broker.core.messages.pages import BLOCK, Covered
from broker.core.rows import KEYS, BundleRow, CopyRow, MetaRow, StoredEntry
from broker.store.schema import (
    COPIES_AFTER,
    COPY_ROWS,
    COUNT_COPIES,
    LONE,
    SHARED,
    STATEMENTS,
    LoadedBundle,
    stored_copy,
)

RowType = TypeVar("RowType")
Read = Callable[[str, tuple[int, ...]], list[tuple[Any, ...]]]
_PAGE_ROWS: Final = 4096
_OWN_PREFIX: Final = "store."
_LARGE: Final = (BundleRow, CopyRow)
_LAST_ROW: Final = (1 << 63) - 1


class Loaded:
    """All rows of a store. `bundles` come with the length of their body; `Store.bodies` reads the rest.

    `read` executes a query later, at the store itself.
    """

    __slots__ = ("_read", "_rows")

    def __init__(self, connection: sqlite3.Connection, read: Read) -> None:
        self._read = read
        self._rows: dict[type[Any], list[Any]] = {
            table: list(map(table._make, pages(_reading(connection), table)))
            for table in KEYS
            if table not in _LARGE
        }
        self._rows[MetaRow] = [row for row in self._rows[MetaRow] if not row.name.startswith(_OWN_PREFIX)]

    def __repr__(self) -> str:
        counts = (f"{table.__name__}={len(rows)}" for table, rows in self._rows.items() if rows)
        return f"<Loaded {' '.join(counts)}>"

    @property
    def meta(self) -> list[MetaRow]:
        """Single values that the node keeps; not what the store keeps for itself."""
        return self.rows(MetaRow)

    @property
    def bundles(self) -> list[LoadedBundle]:
        return list(map(LoadedBundle._make, pages(self._read, BundleRow)))

    def rows(self, table: type[RowType]) -> list[RowType]:
        """Rows of one type, in the order of their keys. For `BundleRow` ask `bundles`: KeyError."""
        if table is CopyRow:
            return [CopyRow._make(row) for row in pages(self._read, CopyRow)]  # type: ignore[misc]
        return self._rows[table]

    def copies(self, but: Covered | None = None) -> Iterator[StoredEntry]:
        """All copies in the order of their rows, with the headers of their bundles; not those in `but`.

        Where a block of rows has no others than these, that is told by their number alone.
        """
        last = -1
        for block, bits in sorted(but.blocks.items()) if but is not None else ():
            first = block * BLOCK
            yield from self._between(last, first - 1)
            last = first + BLOCK - 1
            if bits.bit_count() < BLOCK:
                yield from self._others(first, last, bits)
        yield from self._between(last, _LAST_ROW)

    def _between(self, last: int, end: int) -> Iterator[StoredEntry]:
        """Those after `last`, up to `end`."""
        while last < end and (rows := self._read(COPIES_AFTER, (last, end, _PAGE_ROWS))):
            yield from map(stored_copy, rows)
            last = rows[-1][0]

    def _others(self, first: int, last: int, bits: int) -> Iterator[StoredEntry]:
        ((count,),) = self._read(COUNT_COPIES, (first, last))
        if count == bits.bit_count():
            return
        known = bits.to_bytes(BLOCK // 8, "little")
        for (row,) in self._read(COPY_ROWS, (first, last)):
            at = row - first
            if not known[at >> 3] >> (at & 7) & 1:
                yield from self._between(row - 1, row)

    def shared_bundles(self) -> Iterator[int]:
        """Rows of the bundles that have several copies."""
        return (row for (row,) in self._read(SHARED, ()))

    def lone_bundles(self) -> Iterator[int]:
        """Rows of the bundles that have none."""
        return (row for (row,) in self._read(LONE, ()))


def _reading(connection: sqlite3.Connection) -> Read:
    return lambda query, values: connection.execute(query, values).fetchall()


def pages(read: Read, table: type[Any]) -> Iterator[tuple[Any, ...]]:
    """Read a table in key order, a page at a time: no cursor stays open between two pages."""
    statements = STATEMENTS[table]
    rows = read(statements.first, (_PAGE_ROWS,))
    while rows:
        yield from rows
        if len(rows) < _PAGE_ROWS:
            return
        last = rows[-1][: statements.keys]
        rows = read(statements.page, (*last, _PAGE_ROWS))
