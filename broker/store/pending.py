"""Rows that are committed to the journal and not in the database yet.

A key's last word wins, as in a transaction. Bundles and copies have rows that increase and are never used
again: one that came after all that the database has had, and goes, is as if it had never been.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from broker.core.rows import BundleRow, CopyRow, StoredEntry, Transaction

NUMBERED: Final = (BundleRow, CopyRow)

ReadBundle = Callable[[int], tuple[bytes, int, bytes | None]]
"""Header, length of the body in bytes, and the body if it is wanted; of a bundle that is not there b"", 0."""


def with_body(before: BundleRow | None, change: BundleRow | None) -> BundleRow | None:
    """The change, but a new header keeps the body that was put before it."""
    if change is not None and change.body is None and before is not None:
        return change._replace(body=before.body)
    return change


class Pending:
    """The next fold writes this into the database. `last`: of `NUMBERED`, the highest row that it has had."""

    __slots__ = ("last", "transaction")

    def __init__(self, last: dict[type[Any], int]) -> None:
        self.transaction = Transaction()
        self.last = last

    def __repr__(self) -> str:
        return f"<Pending {self.transaction}>"

    def copy(self) -> "Pending":
        """The same rows, to be added to."""
        other = Pending(self.last)
        for table, changes in self.transaction.changes.items():
            other.transaction.changes[table] = changes.copy()
        return other

    def add(self, transaction: Transaction) -> None:
        """Take what was committed."""
        for table, changes in transaction.changes.items():
            into = self.transaction.changes[table]
            if table not in NUMBERED:
                into.update(changes)
                continue
            last = self.last[table]
            for row, change in changes.items():
                if change is None and row > last:
                    into.pop(row, None)
                elif table is BundleRow:
                    into[row] = with_body(into.get(row), change)
                else:
                    into[row] = change

    def gone(self) -> list[int]:
        """The bundles that only the database still has."""
        return [row for row, bundle in self.transaction.changes[BundleRow].items() if bundle is None]

    def bodies(self, rows: Sequence[int]) -> tuple[dict[int, bytes], list[int]]:
        """Those that are here, and the rows that only the database can have."""
        bundles = self.transaction.changes[BundleRow]
        found, elsewhere = {}, []
        for row in rows:
            if row not in bundles:
                elsewhere.append(row)
            elif (bundle := bundles[row]) is not None:
                if bundle.body is None:
                    elsewhere.append(row)
                else:
                    found[row] = bundle.body
        return found, elsewhere

    def copies(
        self, rows: Sequence[int], stored: list[StoredEntry], with_bodies: bool, read: ReadBundle
    ) -> list[StoredEntry]:
        """Those of `rows` as they are, ascending; `stored`: as the database has them."""
        copies, bundles = self.transaction.changes[CopyRow], self.transaction.changes[BundleRow]
        if not copies and not bundles:
            return stored
        found = {each.copy.row: each for each in stored}
        for row in self._changed(rows):
            before, copy = found.pop(row, None), copies[row]
            if copy is not None:
                found[row] = StoredEntry(copy, *(before[1:] if before else read(copy.bundle)))
        return [_as_changed(found[row], bundles, with_bodies) for row in sorted(found)]

    def _changed(self, rows: Sequence[int]) -> Iterator[int]:
        copies = self.transaction.changes[CopyRow]
        if len(rows) < len(copies):
            return (row for row in rows if row in copies)
        asked = rows if isinstance(rows, range) else frozenset(rows)
        return (row for row in copies if row in asked)


def _as_changed(entry: StoredEntry, bundles: dict[int, BundleRow | None], with_bodies: bool) -> StoredEntry:
    bundle = bundles.get(entry.copy.bundle)
    if bundle is None:
        return entry
    if bundle.body is None:
        return entry._replace(header=bundle.header)
    body = bundle.body if with_bodies else None
    return StoredEntry(entry.copy, bundle.header, len(bundle.body), body)
