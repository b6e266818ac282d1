"""Brings an older database to the schema of this version.

Law: `MIGRATIONS[i]` turns version i + 1 into version i + 2, in one transaction together with the new
version number, so that a crash leaves the old or the new version and nothing between. Migrations are
never changed once released, and never use `schema.TABLES`, which only knows the newest.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from broker.store.errors import StoreCorrupt, StoreMismatch

Migration = Callable[[sqlite3.Connection], None]


def _remember_rejections(connection: sqlite3.Connection) -> None:
    connection.execute(
        'CREATE TABLE "rejected" ("producer" TEXT NOT NULL, "first" INTEGER NOT NULL,'
        ' "last" INTEGER NOT NULL, "code" TEXT NOT NULL, "text" TEXT NOT NULL,'
        ' PRIMARY KEY ("producer", "first")) WITHOUT ROWID'
    )


def _remember_members(connection: sqlite3.Connection) -> None:
    connection.execute(
        'CREATE TABLE "invitation" ("id" BLOB NOT NULL, "name" TEXT NOT NULL, "role" TEXT NOT NULL,'
        ' "stored" BLOB NOT NULL, "ends" INTEGER NOT NULL, "until" INTEGER NOT NULL, "key" BLOB NOT NULL,'
        ' PRIMARY KEY ("id")) WITHOUT ROWID'
    )
    connection.execute(
        'CREATE TABLE "member" ("name" TEXT NOT NULL, "role" TEXT NOT NULL, "key" BLOB NOT NULL,'
        ' "former" BLOB NOT NULL, "ends" INTEGER NOT NULL, "revoked" INTEGER NOT NULL,'
        ' PRIMARY KEY ("name")) WITHOUT ROWID'
    )


def _remember_parts(connection: sqlite3.Connection) -> None:
    connection.execute('ALTER TABLE "seen" ADD COLUMN "part" BLOB NOT NULL DEFAULT x\'\'')


def _remember_pages(connection: sqlite3.Connection) -> None:
    connection.execute(
        'CREATE TABLE "page" ("first" INTEGER PRIMARY KEY, "place" TEXT NOT NULL, "summary" BLOB NOT NULL)'
    )


def _remember_clients(connection: sqlite3.Connection) -> None:
    connection.execute(
        'CREATE TABLE "client" ("session" TEXT NOT NULL, "name" TEXT NOT NULL, "value" BLOB NOT NULL,'
        ' PRIMARY KEY ("session", "name")) WITHOUT ROWID'
    )


def _remember_makers(connection: sqlite3.Connection) -> None:
    connection.execute('ALTER TABLE "queue" ADD COLUMN "maker" TEXT NOT NULL DEFAULT \'\'')


def _keep_a_journal(connection: sqlite3.Connection) -> None:
    """A version that knows no journal must not open a database that has one."""
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('store.journal', x'')")


MIGRATIONS: Final[tuple[Migration, ...]] = (
    _remember_rejections,
    _remember_members,
    _remember_parts,
    _remember_pages,
    _remember_clients,
    _remember_makers,
    _keep_a_journal,
)
VERSION: Final = len(MIGRATIONS) + 1


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def set_version(connection: sqlite3.Connection, version: int) -> None:
    connection.execute(f"PRAGMA user_version = {version:d}")


def newer(path: Path, found: int, newest: int = VERSION) -> StoreMismatch:
    return StoreMismatch(
        f"{path} was written by a newer Sapwood (schema {found}, this one knows {newest}): "
        "install that version again, or use another folder (data)"
    )


def migrate(
    connection: sqlite3.Connection, path: Path, migrations: Sequence[Migration] = MIGRATIONS
) -> list[int]:
    """Apply what is missing; return the versions that were reached. Refuses a newer database."""
    newest, found = len(migrations) + 1, version_of(connection)
    if found > newest:
        raise newer(path, found, newest)
    if found < 1:
        raise StoreCorrupt(path, "it says no schema version")
    reached = list(range(found + 1, newest + 1))
    for version in reached:
        _step(connection, migrations[version - 2], version)
    return reached


def _step(connection: sqlite3.Connection, migration: Migration, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        migration(connection)
        set_version(connection, version)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
