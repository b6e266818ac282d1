"""Whether an existing database may be used: what can be told cheaply, before anything is written."""

import sqlite3
from pathlib import Path
from typing import Final

from broker.store import files, journal, marks, schema
from broker.store.errors import StoreCorrupt, StoreFull, StoreMismatch, mapped

_SAMPLE: Final = 16


def check_kind(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `StoreCorrupt` for a database that is another program's."""
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    if found != files.APPLICATION:
        raise StoreCorrupt(path, "it is a database, but not one of Sapwood's")


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Look at its length, the schema, both ends of each table and some bundles. Raises `StoreCorrupt`."""
    if found := schema.missing(connection):
        raise StoreCorrupt(path, found)
    if _folded(connection, path):
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if (length := path.stat().st_size) < pages * files.PAGE_BYTES:
            raise StoreCorrupt(path, f"{length} bytes long, expected {pages * files.PAGE_BYTES}")
    for statements in schema.STATEMENTS.values():
        connection.execute(statements.first, (1,)).fetchall()
        connection.execute(statements.backward, (1,)).fetchall()
    _check_bundles(connection)


def check_owner(path: Path, own: dict[str, bytes], tree: str, node: str) -> None:
    """`own`: what the database says of itself. Raises `StoreMismatch`, `StoreCorrupt`."""
    try:
        found = own[files.TREE].decode(), own[files.NODE].decode()
        known = own[files.STORE_ID] and own[files.START]
    except (KeyError, ValueError, AttributeError):
        known = b""
    if not known:
        raise StoreCorrupt(path, "it does not say whose it is")
    if found != (tree, node):
        raise StoreMismatch(
            f"{path} belongs to node {found[1]!r} of tree {found[0]!r}, not to {node!r} of {tree!r}: use "
            "another folder (data), or the name that it was made with"
        )


def confirmed(path: Path, own: dict[str, bytes]) -> journal.Records:
    """All that the journal has beyond the database at `path`, with its own values.

    Raises `StoreCorrupt` where something that was confirmed is in neither, OSError.
    """
    mark = marks.read(path.parent)
    generation = files.number(own, files.GENERATION)
    beside = path.with_name(files.JOURNAL)
    found = journal.read(beside, own.get(files.STORE_ID, b""), generation)
    was_open = bool(mark and generation and not mark.recovering)
    if lost := marks.lost(own, mark) or journal.refusal(beside, found, was_open=was_open):
        raise StoreCorrupt(path, lost)
    return found


def _folded(connection: sqlite3.Connection, path: Path) -> bool:
    """Copy the log into the database and cut it; False where a full disk lacks the room for that."""
    try:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        if isinstance(mapped(error, path), StoreFull):
            return False
        raise
    return not busy


def _check_bundles(connection: sqlite3.Connection) -> None:
    low, high = connection.execute('SELECT min("row"), max("row") FROM bundle').fetchone()
    if low is None:
        return
    for part in range(_SAMPLE):
        row = low + (high - low) * part // _SAMPLE
        connection.execute('SELECT * FROM bundle WHERE "row" >= ? ORDER BY "row" LIMIT 1', (row,)).fetchall()
