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

    def __init__(self, store_id: bytes = b"") -> None:
        self.tables: dict[type[Any], dict[Any, Any]] = {table: {} for table in KEYS}
        self.store_id = store_id or uuid.uuid4().bytes
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
            found, keys = self.tables[table], KEYS[table]
            for key in gone:
                found.pop(key, None)
            for row in rows:
                if table is BundleRow and row.body is None:
                    assert row.row in found, f"a header changes whose bundle is not there: {row}"
                    row = row._replace(body=found[row.row].body)
                found[row[0] if keys == 1 else row[:keys]] = row
        self._check(transaction)

    def _check(self, transaction: Transaction) -> None:
        """Only a bundle that goes, or a copy that comes, can leave a copy without its bundle."""
        bundles, copies = self.tables[BundleRow], self.tables[CopyRow]
        if None in transaction.changes[BundleRow].values():
            written = list(copies.values())
        else:
            written = [row for row in transaction.changes[CopyRow].values() if row is not None]
        for row in written:
            assert row.bundle in bundles, f"a copy of a bundle that is not there: {row}"

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
