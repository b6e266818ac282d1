"""Everything that a start reads from the store: all rows, without the bodies of bundles."""

import sqlite3
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from broker.core.rows import KEYS, BundleRow, MetaRow
from broker.store.schema import STATEMENTS, StoredBundle

RowType = TypeVar("RowType")
_PAGE_ROWS: Final = 4096
_OWN_PREFIX: Final = "store."


class Loaded:
    """All rows of a store. `bundles` come with the length of their body; `Store.bodies` reads the rest."""

    __slots__ = ("_rows", "bundles")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.bundles: list[StoredBundle] = list(map(StoredBundle._make, pages(connection, BundleRow)))
        self._rows: dict[type[Any], list[Any]] = {
            table: list(map(table._make, pages(connection, table)))
            for table in KEYS
            if table is not BundleRow
        }
        self._rows[MetaRow] = [row for row in self._rows[MetaRow] if not row.name.startswith(_OWN_PREFIX)]

    def __repr__(self) -> str:
        counts = (f"{table.__name__}={len(rows)}" for table, rows in self._rows.items() if rows)
        return f"<Loaded bundles={len(self.bundles)} {' '.join(counts)}>"

    @property
    def meta(self) -> list[MetaRow]:
        """Single values that the node keeps; not what the store keeps for itself."""
        return self.rows(MetaRow)

    def rows(self, table: type[RowType]) -> list[RowType]:
        """Rows of one type, in the order of their keys. For `BundleRow` ask `bundles`: KeyError."""
        return self._rows[table]


def pages(connection: sqlite3.Connection, table: type[Any]) -> Iterator[tuple[Any, ...]]:
    """Read a table in key order, a page at a time: no cursor stays open between two pages."""
    statements = STATEMENTS[table]
    rows = connection.execute(statements.first, (_PAGE_ROWS,)).fetchall()
    while rows:
        yield from rows
        if len(rows) < _PAGE_ROWS:
            return
        last = rows[-1][: statements.keys]
        rows = connection.execute(statements.page, (*last, _PAGE_ROWS)).fetchall()
