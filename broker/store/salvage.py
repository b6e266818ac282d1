"""Reads what can be read from a damaged database.

Tables keyed by a number are read in order; where that fails, the next readable key is looked for in steps
that double and then halve, so that one unreadable page costs the rows on it. The others are read from both
ends towards the damage.
Only what the tables still reach is read: a page that lies about unused may hold rows deleted long ago.

Law: nothing read here is trusted. A row whose types are wrong, or a bundle that does not unpack, is damaged.
"""

import os
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final, get_type_hints

from broker.core.rows import KEYS, BundleRow, CopyRow, RetainedRow
from broker.store import files
from broker.store.mending import mended
from broker.store.schema import STATEMENTS
from sapwood.protocol import bundles
from sapwood.protocol.errors import FrameError

NUMBERED: Final = (BundleRow, CopyRow)
_FARTHEST: Final = 1 << 48
_PAGE_COUNT_AT: Final = 28
_FREE_LIST_AT: Final = 32

Raw = tuple[Any, ...]


class TableReading:
    """One table's reading: `rows()` yields what is readable, `stretches` counts what was not.

    `nowhere`: keys of bundles whose destination's name had to be cut.
    """

    def __init__(self, connection: sqlite3.Connection, table: type[Any]) -> None:
        self._connection = connection
        self._table = table
        self.stretches = 0
        self.damaged = 0
        self.saved = 0
        self.nowhere: set[Any] = set()

    def __repr__(self) -> str:
        return f"<TableReading {self._table.__name__} saved={self.saved} unreadable={self.stretches}>"

    def rows(self) -> Iterator[Any]:
        """Yield rows as their type, sound ones only. `damaged` counts the others."""
        check = _checker(self._table, self.nowhere)
        for raw in self._numbered() if self._table in NUMBERED else self._both_ends():
            row = check(raw)
            if row is None:
                self.damaged += 1
            else:
                self.saved += 1
                yield row

    def _numbered(self) -> Iterator[Raw]:
        table = STATEMENTS[self._table].table
        select = f'SELECT * FROM "{table}" WHERE "row" >= ? ORDER BY "row"'  # noqa: S608
        start: int | None = 0
        while start is not None:
            last, failed = yield from self._read(select, (start,))
            if not failed:
                return
            self.stretches += 1
            start = self._next_readable(select + " LIMIT 1", start if last is None else last[0] + 1)

    def _next_readable(self, select: str, start: int) -> int | None:
        """The first key from which reading goes on, `start` being unreadable; None if there is none."""
        unreadable, readable = 0, 1
        while not self._readable(select, start + readable):
            unreadable, readable = readable, readable * 2
            if readable > _FARTHEST:
                return None
        while readable - unreadable > 1:
            middle = (unreadable + readable) // 2
            if self._readable(select, start + middle):
                readable = middle
            else:
                unreadable = middle
        return start + readable

    def _readable(self, select: str, key: int) -> bool:
        try:
            self._connection.execute(select, (key,)).fetchall()
        except sqlite3.Error:
            return False
        return True

    def _both_ends(self) -> Iterator[Raw]:
        statements = STATEMENTS[self._table]
        seen = set()
        reading = self._read(statements.first, (-1,))
        failed = False
        while True:
            try:
                row = next(reading)
            except StopIteration as ended:
                _, failed = ended.value
                break
            seen.add(row[: statements.keys])
            yield row
        if failed:
            self.stretches += 1
            backward = self._read(statements.backward, (-1,))
            yield from (row for row in backward if row[: statements.keys] not in seen)

    def _read(self, select: str, values: tuple[int, ...]) -> Generator[Raw, None, tuple[Raw | None, bool]]:
        """Yield rows until the end or the first error; return the last row and whether there was one."""
        last: Raw | None = None
        try:
            for last in self._connection.execute(select, values):
                yield last
        except sqlite3.Error:
            return last, True
        return last, False


def _checker(table: type[Any], nowhere: set[Any]) -> Callable[[Raw], Any]:
    """A function that makes a sound row of what was read, or None. Text comes as bytes."""
    hints = get_type_hints(table)
    kinds = [bytes if name == "body" else hints[name] for name in table._fields]

    def check(raw: Raw) -> Any:
        try:
            values = [
                value.decode() if kind is str else value for kind, value in zip(kinds, raw, strict=True)
            ]
        except (AttributeError, ValueError):
            return None
        if any(type(value) is not kind for kind, value in zip(kinds, values, strict=True)):
            return None
        row = table._make(values)
        if table not in (BundleRow, RetainedRow) or _unpacks(row.header, row.body):
            return row
        found = mended(row.header, row.body)
        if found is None:
            return None
        if found.cut:
            nowhere.add(row[0])
        return row._replace(header=found.header, body=found.body)

    return check


def _unpacks(header: bytes, body: bytes) -> bool:
    try:
        bundles.unpack(bundles.decode_header(header), body)
    except FrameError:
        return False
    return True


def open_damaged(path: Path, model: Path) -> sqlite3.Connection:
    """Open a damaged database to read from; `model` is an empty one of this version.

    Where its first page is unreadable, that of `model` is put in its place in a copy beside it: tables lie
    where they lie in every database of ours. The caller removes the copy (`path` + '.copy').
    """
    connection = _try_open(path)
    if connection is None:
        copy = files.companion(path, ".copy")
        _copy_with_first_page(path, copy, model)
        connection = files.connect(copy)
    connection.text_factory = bytes
    return connection


def _try_open(path: Path) -> sqlite3.Connection | None:
    connection = None
    try:
        connection = files.connect(path)
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        if {STATEMENTS[table].table for table in KEYS} <= tables:
            return connection
    except sqlite3.Error:
        pass
    if connection is not None:
        connection.close()
    return None


def _copy_with_first_page(path: Path, copy: Path, model: Path) -> None:
    files.remove(copy)
    shutil.copyfile(path, copy)
    wal = files.companion(path, "-wal")
    if wal.exists():
        shutil.copyfile(wal, files.companion(copy, "-wal"))
    empty = model.read_bytes()
    first = bytearray(empty[: files.PAGE_BYTES])
    whole = copy.stat().st_size // files.PAGE_BYTES * files.PAGE_BYTES
    os.truncate(copy, whole)
    with copy.open("ab") as file:  # a table whose first page is not there any more is an empty one
        file.write(empty[whole:])
    pages = copy.stat().st_size // files.PAGE_BYTES
    first[_PAGE_COUNT_AT : _PAGE_COUNT_AT + 4] = pages.to_bytes(4, "big")
    first[_FREE_LIST_AT : _FREE_LIST_AT + 8] = bytes(8)
    with copy.open("r+b") as file:
        file.write(first)
