"""The files of a store's directory: who holds them, how they are made, opened and checked.

    node.db, node.db-wal, node.db-shm   the database
    node.lock                           held (flock) by the one process that may use it
    node.db.new                         a database that is being made; never used
    node.db.broken-1                    what a recovery set aside
    node.mark                           the state that was confirmed, while a node runs (see `marks`)
    node.journal, node.journal-index    what the database does not have yet, while a node runs (see `journal`)

Law: `node.db` comes into being complete, by a rename. A missing `node.db` beside one that was set aside,
beside a log or beside a mark, is a recovery that did not end, or damage, and is never filled with an
empty one.

Wrinkle: no file of an open database is opened and closed here, because closing *any* descriptor of it
drops the locks that this process holds on it (POSIX). Hence headers are read before connecting.
"""

import fcntl
import os
import sqlite3
import uuid
from pathlib import Path
from typing import Final
from urllib.parse import quote

from broker.store import log_index, migrations, schema
from broker.store.errors import StoreBusy, StoreCorrupt
from config.whole_files import give, sync_directory

NAME: Final = "node.db"
LOCK: Final = "node.lock"
NEW: Final = "node.db.new"
BROKEN: Final = "node.db.broken-"
MARK: Final = "node.mark"
JOURNAL: Final = "node.journal"
PAGE_BYTES: Final = 4096
APPLICATION: Final = 0x53415057  # "SAPW"
STORE_ID, START, TREE, NODE, RECOVERED, MARKED, GENERATION = (
    "store.id",
    "store.start",
    "store.tree",
    "store.node",
    "store.recovered-from",
    "store.mark",
    "store.journal",
)
_MAGIC: Final = b"SQLite format 3\x00"
_HEADER_BYTES: Final = 100
_WRITER_CACHE_KIB: Final = 8192
_READER_CACHE_KIB: Final = 512


def lock(directory: Path) -> int:
    """Make the directory if need be and lock it for this process; return the descriptor to close later."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / LOCK
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if os.fstat(descriptor).st_nlink == 1:  # with another name it is another's file
        give(descriptor, directory.stat())
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise StoreBusy(
            f"{directory / NAME} is in use by process {holder}: "
            "a data folder belongs to one process; stop that one, or use another folder (data)"
        ) from None
    os.truncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def companion(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        companion(path, ending).unlink(missing_ok=True)


def broken_files(directory: Path) -> list[Path]:
    """Databases that were set aside, oldest first."""
    found = [path for path in directory.glob(BROKEN + "*") if path.name[len(BROKEN) :].isdecimal()]
    return sorted(found, key=lambda path: int(path.name[len(BROKEN) :]))


def connect(path: Path, *, reader: bool = False) -> sqlite3.Connection:
    """Open an existing database; never makes a file. Raises sqlite3 errors."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute(f"PRAGMA cache_size = -{_cache_kib(reader)}")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        if reader:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _cache_kib(reader: bool) -> int:
    return _READER_CACHE_KIB if reader else _WRITER_CACHE_KIB


def without_spare_pages(connection: sqlite3.Connection, *, reader: bool = False) -> sqlite3.Connection:
    """Let the cache of a connection grow page by page. For those that stay; no transaction is open.

    Wrinkle: SQLite allocates 20 pages together when a cache gets its first (pcache1InitBulk), unless the
    cache is meant for fewer than three; a node at rest needs three or four.
    """
    connection.execute("PRAGMA cache_size = 1")
    connection.execute("PRAGMA shrink_memory")
    connection.execute("PRAGMA user_version").fetchall()
    connection.execute(f"PRAGMA cache_size = -{_cache_kib(reader)}")
    return connection


def create(path: Path, *, tree: str, node: str, recovered_from: bytes = b"") -> sqlite3.Connection:
    """Make an empty database of the newest schema with a new store id; start number 0.

    Nothing is synced, whatever is written to it, until it is closed and `publish` gives it its name.
    """
    remove(path)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    give(descriptor, path.parent.stat())
    os.close(descriptor)
    connection = connect(path)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = 2")
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        schema.create_tables(connection)
        values = {
            STORE_ID: uuid.uuid4().bytes,
            START: encode_number(0),
            TREE: tree.encode(),
            NODE: node.encode(),
            RECOVERED: recovered_from,
            GENERATION: b"",
        }
        connection.executemany("INSERT INTO meta VALUES (?, ?)", values.items())
        migrations.set_version(connection, migrations.VERSION)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def publish(new: Path, path: Path) -> None:
    """Give a complete, closed database its name."""
    descriptor = os.open(new, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    new.rename(path)
    sync_directory(path.parent)


def encode_number(number: int) -> bytes:
    return number.to_bytes(8, "big")


def number(own: dict[str, bytes], name: str) -> int:
    """A number among the values that the store keeps for itself; 0 = there is none."""
    return int.from_bytes(own.get(name, b""), "big")


def set_value(connection: sqlite3.Connection, name: str, value: bytes) -> None:
    """Change one of the values that the store keeps for itself."""
    connection.execute("UPDATE meta SET value = ? WHERE name = ?", (value, name))


def own_values(connection: sqlite3.Connection) -> dict[str, bytes]:
    """What the store keeps in the table `meta` for itself."""
    return dict(connection.execute("SELECT name, value FROM meta WHERE name GLOB 'store.*'").fetchall())


def check_unopened(path: Path) -> None:
    """Refuse a file that is no SQLite database, and one whose log was cut short, which an opening would hide.

    Only before anything in this process has it open.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise StoreCorrupt(path, f"it does not begin as a database does ({path.stat().st_size} bytes long)")
    if cut := log_index.cut(path):
        log = companion(path, "-wal").name
        raise StoreCorrupt(path, f"its log {log} was cut short (put it back if you have it): {cut}")
