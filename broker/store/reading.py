"""Reads again for a running node, on a connection that sees what is committed."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence

from broker.core.rows import StoredEntry
from broker.store import files, schema
from broker.store.pending import Pending


@contextlib.contextmanager
def _one_state(reader: sqlite3.Connection) -> Iterator[None]:
    """All that is read within is of one commit."""
    reader.execute("BEGIN")
    try:
        yield
    finally:
        reader.execute("COMMIT")


def bodies(reader: sqlite3.Connection, rows: Sequence[int]) -> dict[int, bytes]:
    """By row, of those bundles that are in the database."""
    with _one_state(reader):
        found = ((row, reader.execute(schema.GET_BODY, (row,)).fetchone()) for row in rows)
        return {row: body[0] for row, body in found if body is not None}


def count_bundles(reader: sqlite3.Connection, rows: Sequence[int]) -> int:
    """How many of those bundles are in the database."""
    with _one_state(reader):
        return sum(len(reader.execute(schema.HAS_BUNDLE, (row,)).fetchall()) for row in rows)


def bundle_bytes(reader: sqlite3.Connection, rows: Sequence[int]) -> int:
    """How long the bodies of those bundles are in all."""
    with _one_state(reader):
        found = (reader.execute(schema.BUNDLE_BYTES, (row,)).fetchone() or (0,) for row in rows)
        return sum(int(length) for (length,) in found)


def copies(
    reader: sqlite3.Connection, rows: Sequence[int], with_bodies: bool, pending: Pending
) -> list[StoredEntry]:
    """Those of `rows` that are there, ascending, as they are by what is `pending`."""
    runs = [(rows[0], rows[-1])] if isinstance(rows, range) else [(row, row) for row in rows]
    query = schema.COPIES_WITHIN[with_bodies]

    def bundle(row: int) -> tuple[bytes, int, bytes | None]:
        header, size, body = reader.execute(schema.GET_BUNDLE, (row,)).fetchone() or (b"", 0, None)
        return header, size, body if with_bodies else None

    with _one_state(reader):
        found = (row for run in runs for row in reader.execute(query, run))
        return pending.copies(rows, list(map(schema.stored_copy, found)), with_bodies, bundle)


def used_bytes(reader: sqlite3.Connection) -> int:
    """Bytes of the database in use, as last committed; the log is not counted."""
    (pages,) = reader.execute("PRAGMA page_count").fetchone()
    (free,) = reader.execute("PRAGMA freelist_count").fetchone()
    return int(pages - free) * files.PAGE_BYTES
