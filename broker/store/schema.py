"""The tables of a node's database, and the statements that write and read rows.

Law: a row type of `broker.core.rows` is a table with the same columns in the same order. `TABLES` is
what version `migrations.VERSION` looks like on disk; whoever changes a row type writes a migration (a test
holds the digest of `TABLES`).

Wrinkles: tables keyed by a number are ordinary (their key is the rowid), the others WITHOUT ROWID, so
that every table is one tree. A bundle's header comes before its body, so that a start reads headers and
body lengths without touching the pages of long bodies.
"""

import sqlite3
from typing import Any, Final, NamedTuple, get_type_hints

from broker.core.rows import KEYS, BundleRow, CopyRow, StoredEntry

_KINDS: Final = {int: "INTEGER", str: "TEXT", bytes: "BLOB", bytes | None: "BLOB"}


class LoadedBundle(NamedTuple):
    """A bundle as a start loads it: `size` is the length of its body in bytes, which stays on disk."""

    row: int
    header: bytes
    size: int


class Statements(NamedTuple):
    """What is said to one table. `page` takes the last key seen and a limit, `first` only the limit."""

    table: str
    columns: tuple[str, ...]
    keys: int
    put: str
    delete: str
    first: str
    page: str
    backward: str


def table_name(table: type[Any]) -> str:
    return table.__name__.removesuffix("Row").lower()


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _statements(table: type[Any], keys: int) -> Statements:
    name, columns = table_name(table), table._fields
    key = _quoted(columns[:keys])
    marks = ", ".join("?" * keys)
    chosen = '"row", "header", length("body")' if table is BundleRow else _quoted(columns)
    values = ", ".join("?" * len(columns))
    by_key = f"({key}) = ({marks})" if keys > 1 else f"{key} = ?"
    after = f"({key}) > ({marks})" if keys > 1 else f"{key} > ?"
    falling = ", ".join(f'"{column}" DESC' for column in columns[:keys])
    return Statements(
        table=name,
        columns=columns,
        keys=keys,
        put=f'INSERT OR REPLACE INTO "{name}" ({_quoted(columns)}) VALUES ({values})',  # noqa: S608
        delete=f'DELETE FROM "{name}" WHERE {by_key}',  # noqa: S608
        first=f'SELECT {chosen} FROM "{name}" ORDER BY {key} LIMIT ?',  # noqa: S608
        page=f'SELECT {chosen} FROM "{name}" WHERE {after} ORDER BY {key} LIMIT ?',  # noqa: S608
        backward=f'SELECT {chosen} FROM "{name}" ORDER BY {falling} LIMIT ?',  # noqa: S608
    )


def _definition(table: type[Any], keys: int) -> str:
    """The columns of a table, as SQL. Nothing is NULL: a bundle's body is only absent in a transaction."""
    hints, columns = get_type_hints(table), table._fields
    kinds = {name: _KINDS[hints[name]] for name in columns}
    if keys == 1 and kinds[columns[0]] == "INTEGER":
        others = (f'"{name}" {kinds[name]} NOT NULL' for name in columns[1:])
        return f'("{columns[0]}" INTEGER PRIMARY KEY, {", ".join(others)})'
    named = ", ".join(f'"{name}" {kind} NOT NULL' for name, kind in kinds.items())
    return f"({named}, PRIMARY KEY ({_quoted(columns[:keys])})) WITHOUT ROWID"


TABLES: Final[dict[str, str]] = {table_name(table): _definition(table, keys) for table, keys in KEYS.items()}
STATEMENTS: Final[dict[type[Any], Statements]] = {
    table: _statements(table, keys) for table, keys in KEYS.items()
}
SET_HEADER: Final = 'UPDATE "bundle" SET "header" = ? WHERE "row" = ?'
_OF_COPY: Final = len(CopyRow._fields)
_COPIES: Final = (
    'SELECT c.*, b."header", length(b."body"){} FROM "copy" AS c'
    ' LEFT JOIN "bundle" AS b ON b."row" = c."bundle" WHERE c."row" {}'
)
COPIES_AFTER: Final = _COPIES.format("", '> ? AND c."row" <= ? ORDER BY c."row" LIMIT ?')
COPY_ROWS: Final = 'SELECT "row" FROM "copy" WHERE "row" BETWEEN ? AND ? ORDER BY "row"'
COUNT_COPIES: Final = 'SELECT count(*) FROM "copy" WHERE "row" BETWEEN ? AND ?'
COPIES_WITHIN: Final = {
    bodies: _COPIES.format(', b."body"' * bodies, 'BETWEEN ? AND ? ORDER BY c."row"')
    for bodies in (False, True)
}
SHARED: Final = 'SELECT "bundle" FROM "copy" GROUP BY "bundle" HAVING count(*) > 1'
LONE: Final = 'SELECT "row" FROM "bundle" EXCEPT SELECT "bundle" FROM "copy"'
GET_BODY: Final = 'SELECT "body" FROM "bundle" WHERE "row" = ?'
HAS_BUNDLE: Final = 'SELECT 1 FROM "bundle" WHERE "row" = ?'
BUNDLE_BYTES: Final = 'SELECT length("body") FROM "bundle" WHERE "row" = ?'
GET_BUNDLE: Final = 'SELECT "header", length("body"), "body" FROM "bundle" WHERE "row" = ?'


def last_row(connection: sqlite3.Connection, table: type[Any]) -> int:
    """The highest key of a table that is keyed by a number; 0 where it is empty."""
    query = f'SELECT coalesce(max("row"), 0) FROM "{table_name(table)}"'  # noqa: S608
    return int(connection.execute(query).fetchone()[0])


def change(connection: sqlite3.Connection, table: type[Any], rows: list[Any], gone: list[Any]) -> int:
    """Delete and write rows of one table. Returns how many headers are of a bundle that is not there."""
    statements, missing = STATEMENTS[table], 0
    if gone:
        connection.executemany(statements.delete, zip(gone) if statements.keys == 1 else gone)
    if table is BundleRow and (headers := [(row.header, row.row) for row in rows if row.body is None]):
        missing = len(headers) - connection.executemany(SET_HEADER, headers).rowcount
        rows = [row for row in rows if row.body is not None]
    if rows:
        connection.executemany(statements.put, rows)
    return missing


def stored_copy(row: tuple[Any, ...]) -> StoredEntry:
    """What a query for copies answers. A bundle that is not there has no header."""
    header, size, *body = row[_OF_COPY:]
    return StoredEntry(CopyRow._make(row[:_OF_COPY]), header or b"", size or 0, body[0] if body else None)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make all tables, in the order of `TABLES`. The caller holds the transaction."""
    for name, columns in TABLES.items():
        connection.execute(f'CREATE TABLE "{name}" {columns}')


def missing(connection: sqlite3.Connection) -> str:
    """Say which table or column is not as this version has it; '' if all are."""
    for statements in STATEMENTS.values():
        rows = connection.execute("SELECT name FROM pragma_table_info(?)", (statements.table,)).fetchall()
        found = tuple(name for (name,) in rows)
        if found != statements.columns:
            return f"table {statements.table} has the columns {found}, expected {statements.columns}"
    return ""
