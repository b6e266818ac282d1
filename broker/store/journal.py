"""The journal: commits that the database does not have yet, one record behind the other.

SQLite writes whole pages at each commit, and most of what a node keeps goes again within milliseconds, since
the next node has it. So a commit is a record here, synced. A journal that is full is folded into the
database: what is left of all its rows, in one commit there.

    node.journal          the records, from its beginning on
    node.journal-index    how many bytes of it are committed; not synced

A record: length of its payload (4 bytes), generation (8), CRC-32 (4) of store, generation, place and payload.
The payload is MessagePack: for each table its name, the rows to write and the keys to delete.

Law: the database says which generation of records comes after it (`files.GENERATION`), and a fold raises that
in its own commit. So records of a former generation, which lie there until others are written over them, are
never read again, and one of a later generation shows that the database is older than it was. The index never
says more than what is on disk, being written after the sync: a journal that was cut short or removed is
noticed. Nothing comes into the journal that the database would refuse when it is folded.
"""

import errno
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, get_type_hints

import msgspec

from broker.core.rows import KEYS, BundleRow, Transaction
from broker.store import files
from broker.store.errors import StoreCorrupt
from config.whole_files import sync_directory

LIMIT: Final = 1024 * 1024
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_NUMBER: Final = (1 << 63) - 1
_LEAST: Final = 64 * 1024
_HEADER: Final = struct.Struct(">IQI")
_BOUND: Final = struct.Struct(">16sQQ")
_INDEX: Final = struct.Struct(">QQI")
_TABLES: Final[dict[str, type[Any]]] = {table.__name__: table for table in KEYS}
_NUMBERS: Final = {
    table: [itemgetter(at) for at, kind in enumerate(get_type_hints(table).values()) if kind is int]
    for table in KEYS
}
_KEYED: Final[dict[type[Any], Callable[[Any], int]]] = {
    table: itemgetter(at) if keys > 1 else int
    for table, keys in KEYS.items()
    for at, kind in enumerate(list(get_type_hints(table).values())[:keys])
    if kind is int
}
_HEADER_OF: Final = itemgetter(BundleRow._fields.index("header"))
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[tuple[str, list[list[Any]], list[Any]]]).decode


def encode(transaction: Transaction) -> bytes:
    """The payload of a record. Raises ValueError for a row that the database would refuse."""
    changes = []
    for table, rows, gone in transaction.tables():
        _check_changes(table, rows, gone)
        changes.append((table.__name__, rows, gone))
    return _encode(changes)


def _check_changes(table: type[Any], rows: list[Any], gone: list[Any]) -> None:
    if gone and (key := _KEYED.get(table)) and max(map(key, gone)) > _MOST_NUMBER:
        raise _too_large(table)
    if rows:
        for numbers in _NUMBERS[table]:
            if max(map(numbers, rows)) > _MOST_NUMBER:
                raise _too_large(table)
        if None in map(_HEADER_OF, rows) if table is BundleRow else any(None in row for row in rows):
            raise ValueError(f"a {table.__name__} lacks a value")


def _too_large(table: type[Any]) -> ValueError:
    return ValueError(f"a number of a {table.__name__} is too large: above {_MOST_NUMBER}")


def decode(payload: bytes) -> Transaction:
    """The transaction of a payload. A column that it lacks has its default. Raises ValueError, TypeError."""
    transaction = Transaction()
    for name, rows, gone in _decode(payload):
        table = _TABLES.get(name)
        if table is None:
            raise ValueError(f"no table is called {name!r}")
        for key in gone:
            transaction.delete(table, tuple(key) if KEYS[table] > 1 else key)
        for row in rows:
            transaction.put(table(*row))
    for table, rows, gone in transaction.tables():
        _check_changes(table, rows, gone)
    return transaction


def _check(store_id: bytes, generation: int, place: int, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_BOUND.pack(store_id, generation, place)))


class Records(NamedTuple):
    """All that a journal holds. `whole`: bytes up to the last record that is whole. `committed`: bytes by the
    index, 0 = it says nothing. `later`: it is of a later state than the database, and not read.
    """

    transactions: list[Transaction]
    whole: int = 0
    committed: int = 0
    later: bool = False

    @property
    def lost(self) -> int:
        """Committed bytes that are not there."""
        return max(self.committed - self.whole, 0)


def read(path: Path, store_id: bytes, generation: int) -> Records:
    """Read the records of that generation in the journal at `path`; those before it count as none.

    Raises `StoreCorrupt`, OSError.
    """
    data = _data(path)
    records = list(_records(data, store_id, generation))
    counted, committed = _committed(files.companion(path, "-index"), store_id)
    if counted > generation or (not records and _first(data, store_id) > generation):
        return Records([], later=True)
    try:
        transactions = [decode(payload) for payload, _ in records]
    except (ValueError, TypeError) as error:
        raise StoreCorrupt(path, f"a record of it is not one of this version: {error}") from None
    whole = records[-1][1] if records else 0
    return Records(transactions, whole, committed if counted == generation else 0)


def salvage(path: Path, store_id: bytes, generation: int) -> Records:
    """As `read`, but where the journal belongs to a later state, what it holds of that."""
    found = read(path, store_id, generation)
    if found.later:
        return read(path, store_id, _first(_data(path), store_id))._replace(later=True)
    return found


def _data(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except FileNotFoundError:
        return b""


def _first(data: bytes, store_id: bytes) -> int:
    """The generation of the first record, whatever it is; 0 if that is not whole."""
    generation = int.from_bytes(data[4:12], "big")
    return generation if any(_records(data, store_id, generation)) else 0


def _records(data: bytes, store_id: bytes, expected: int) -> Iterator[tuple[bytes, int]]:
    place = 0
    while place + _HEADER.size <= len(data):
        length, generation, check = _HEADER.unpack_from(data, place)
        begin = place + _HEADER.size
        payload = data[begin : begin + length]
        if generation != expected or check != _check(store_id, generation, place, payload):
            return
        place = begin + length
        yield payload, place


def _committed(path: Path, store_id: bytes) -> tuple[int, int]:
    """Which generation the index counts, and how many bytes; (0, 0) = it says nothing."""
    try:
        with path.open("rb") as file:
            generation, end, check = _INDEX.unpack(file.read(_INDEX.size))
    except (FileNotFoundError, struct.error):
        return 0, 0
    return (generation, end) if check == _check(store_id, generation, end, b"") else (0, 0)


def refusal(path: Path, found: Records, *, was_open: bool) -> str:
    """Why a start must not go on from the database with what was found at `path`; '' = it may.

    `was_open`: the node did not end as it should, so that there must be a journal.
    """
    if found.later:
        return (
            f"it is older than its journal {path.name}: its log {files.NAME}-wal was removed (put it back if"
            " you have it), or an older copy was put here"
        )
    here = path.exists()
    if found.lost:
        return (
            f"its journal {path.name} was {'cut short' if here else 'removed'} (put it back if you have it):"
            f" of {found.committed} bytes that were committed to it {found.whole} are left"
        )
    if was_open and not here:
        return f"its journal {path.name} was removed (put it back if you have it)"
    return ""


def remove(path: Path) -> None:
    """The mark was removed before, and must not come back after a power cut where this does not."""
    sync_directory(path.parent)
    for each in (path, files.companion(path, "-index")):
        each.unlink(missing_ok=True)


class Journal:
    """The journal of one open store, empty. `generation`: of the records that come now. `limit`: bytes.

    `append` may run in another thread; nothing else meanwhile.
    """

    def __init__(self, path: Path, store_id: bytes, generation: int, limit: int = LIMIT) -> None:
        self.path = path
        self.generation = generation
        self.length = 0
        self._store_id = store_id
        self._limit = limit
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        index = os.open(files.companion(path, "-index"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # A page without a block on the disk could not be written to: no space is an error, not a signal.
            os.pwrite(index, bytes(_INDEX.size), 0)
            self._index = mmap.mmap(index, _INDEX.size)
        finally:
            os.close(index)
        sync_directory(path.parent)
        self._laid = os.fstat(self._file).st_size

    def __repr__(self) -> str:
        return f"<Journal {self.path} generation={self.generation} length={self.length}>"

    def takes(self, payload: bytes) -> bool:
        """Whether there is room for a record with that payload."""
        end = self.length + _HEADER.size + len(payload)
        while self._laid < end <= self._limit and self._lay():
            pass
        return end <= min(self._laid, self._limit)

    def _lay(self) -> bool:
        """Make the file twice as long, so that a sync need not. No space for that: then it is full."""
        try:
            self._laid += os.pwrite(self._file, bytes(max(self._laid, _LEAST)), self._laid)
        except OSError:
            return False
        return True

    def append(self, payload: bytes) -> None:
        """Commit it; there is room. Blocks for one sync. Raises OSError."""
        check = _check(self._store_id, self.generation, self.length, payload)
        record = _HEADER.pack(len(payload), self.generation, check) + payload
        if os.pwrite(self._file, record, self.length) != len(record):
            raise OSError(errno.ENOSPC, "a record was written in part", str(self.path))
        os.fdatasync(self._file)
        self.length += len(record)
        check = _check(self._store_id, self.generation, self.length, b"")
        _INDEX.pack_into(self._index, 0, self.generation, self.length, check)

    def restart(self, generation: int) -> None:
        """All of it is in the database, which says that this generation comes next.

        The first record goes, so that a recovery which cannot read what the database says finds none.
        """
        self.generation, self.length = generation, 0
        if self._laid:
            os.pwrite(self._file, bytes(_HEADER.size), 0)

    def close(self) -> None:
        """The files stay."""
        os.close(self._file)
        self._index.close()
