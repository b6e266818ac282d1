"""A disk that is a dictionary: what survives a crash of the core above it.

Law: after each commit it is as the real store would want it: a header changes only where its bundle is, and
no copy refers to a bundle that has gone.
"""

import copy
import uuid
from collections.abc import Iterable
from typing import Any, NamedTuple

from broker.core.rows import KEYS, BundleRow, CopyRow, Transaction


class StoredBundle(NamedTuple):
    """A bundle as a start reads it: the size of its body instead of the body."""

    row: int
    header: bytes
    size: int


class Disk:
    """What survives a crash: tables of committed rows, and who they belong to."""

    def __init__(self) -> None:
        self.tables: dict[type[Any], dict[Any, Any]] = {table: {} for table in KEYS}
        self.store_id = uuid.uuid4().bytes
        self.start = 0

    def __repr__(self) -> str:
        counts = (f"{table.__name__}={len(rows)}" for table, rows in self.tables.items() if rows)
        return f"<Disk start={self.start} {' '.join(counts)}>"

    def backup(self) -> "Disk":
        """A copy, as a disk image or yesterday's backup is one."""
        made = copy.copy(self)
        made.tables = {table: dict(rows) for table, rows in self.tables.items()}
        return made

    def apply(self, transaction: Transaction) -> None:
        """Commit, and check what a real store would check."""
        for table, rows, gone in transaction.tables():
            for key in gone:
                self.tables[table].pop(key, None)
            for row in rows:
                if table is BundleRow and row.body is None:
                    assert row.row in self.tables[table], f"a header changes whose bundle is not there: {row}"
                    row = row._replace(body=self.tables[table][row.row].body)
                keys = KEYS[table]
                self.tables[table][row[0] if keys == 1 else row[:keys]] = row
        for row in self.tables[CopyRow].values():
            assert row.bundle in self.tables[BundleRow], f"a copy of a bundle that is not there: {row}"

    @property
    def bundles(self) -> list[StoredBundle]:
        rows = sorted(self.tables[BundleRow].values())
        return [StoredBundle(row.row, row.header, len(row.body)) for row in rows]

    def rows(self, table: type[Any]) -> list[Any]:
        found = self.tables[table]
        return [found[key] for key in sorted(found)]

    def bodies(self, rows: Iterable[int]) -> dict[int, bytes]:
        found = self.tables[BundleRow]
        return {row: found[row].body for row in rows if row in found}
