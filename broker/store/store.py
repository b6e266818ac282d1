"""The durable store of a node: one SQLite database, WAL, `synchronous=FULL`, and a journal before it.

Law: what `commit` (or `apply`) has returned from is on disk. After an error at a write or commit nothing
more is accepted and every call raises that error: the node stops, and a new start sees what was committed.
A database that is damaged, foreign or newer is refused, and never replaced.

A store is not thread-safe. `write` belongs on the thread that owns the node (a row costs the interpreter's
lock, and a thread would wait for it at every row); only `commit` and `tidy` may run in another thread, and
nothing but `bodies`, `copies`, `used_bytes` and `disk_free` may be called meanwhile. Changes of a commit are
taken over by the next call on the owning thread (`_settle`), so that nothing changes while it is read.

Wrinkles: `auto_vacuum` is set before WAL at creation (afterwards it would stay 0), and pages are given
back by `executescript`, since a single `execute` frees one page. What is read at a start is read by a
connection of its own, which takes its many statements with it when it is closed. A log left by a crash is
folded in at the start, since only then can the length of the file be compared with what the database says.
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, TypeVarTuple

from broker.core.rows import BundleRow, StoredEntry, Transaction
from broker.store import files, journal, marks, migrations, reading, schema, soundness
from broker.store.ballast import Ballast
from broker.store.checkpoints import LIMIT, Checkpoints
from broker.store.errors import StoreCorrupt, StoreFull, StoreIOFailed, disk_free, mapped
from broker.store.journal import Journal
from broker.store.loaded import Loaded
from broker.store.pending import NUMBERED, Pending
from sapwood.protocol.errors import StoreError

BEFORE_COMMIT: Final = "before commit"
AFTER_COMMIT: Final = "after commit"
Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
_VACUUM_PAGES: Final = 256
_VACUUM_FROM: Final = 1024
_VACUUM_BYTES: Final = _VACUUM_FROM * files.PAGE_BYTES


def _no_hook(_moment: str) -> None:
    """Nothing is injected."""


class Store:
    """An open database. Make one with `Store.open`, end with `close`.

    `store_id`: 16 bytes, made with the database. `start`: which start this is, 1 for the first; committed
    before `open` returned. `recovered_from`: the store id that it had before a recovery, else empty.
    `hook` is for tests: called with `BEFORE_COMMIT` and `AFTER_COMMIT`; what it raises breaks the store.
    """

    def __init__(
        self, directory: Path, lock: int, *, log_limit: int = LIMIT, journal_limit: int = journal.LIMIT
    ) -> None:
        """Callers use `open`; `lock` is the descriptor that `files.lock` returned."""
        self.path = directory / files.NAME
        self.store_id, self.recovered_from, self.start = b"", b"", 0
        self.hook: Callable[[str], None] = _no_hook
        self.commits = 0
        self._lock = lock
        self._log_limit = log_limit
        self._journal_limit = journal_limit
        self._ballast = Ballast(directory)
        self._failed: StoreError | None = None
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._starter: sqlite3.Connection | None = None
        self._checkpoints: Checkpoints | None = None
        self._marks: marks.Marks | None = None
        self._journal: Journal | None = None
        self._fresh: Transaction | None = None
        self._payload = b""  # of what is fresh, until it is committed
        self._folded = False
        self._last_rows: dict[type[Any], int] = dict.fromkeys(NUMBERED, 0)
        self._pending = Pending(self._last_rows)

    def __repr__(self) -> str:
        state = "failed" if self._failed else "open" if self._writer else "closed"
        return f"<Store {self.path} {state} start={self.start} commits={self.commits}>"

    @classmethod
    def open(
        cls,
        directory: Path | str,
        *,
        tree: str,
        node: str,
        log_limit: int = LIMIT,
        journal_limit: int = journal.LIMIT,
    ) -> "Store":
        """Open the database in `directory`, or make one there if there has been none.

        Raises `StoreBusy` if another process has it, `StoreMismatch` if it belongs to another tree or node
        or a newer Sapwood, `StoreCorrupt`, `StoreFull`, `StoreIOFailed`. `log_limit`: bytes of
        write-ahead log from which it is copied into the database. `journal_limit`: bytes of journal from
        which it is folded into the database, 0 = each commit is the database's own.
        """
        directory = Path(directory)
        try:
            store = cls(directory, files.lock(directory), log_limit=log_limit, journal_limit=journal_limit)
        except OSError as error:
            raise mapped(error, directory / files.NAME) from error
        try:
            store._open(tree, node)
        except BaseException as error:
            store.close()
            if isinstance(error, (sqlite3.Error, OSError)):
                raise mapped(error, store.path) from error
            raise
        return store

    def _open(self, tree: str, node: str) -> None:
        if not self.path.exists():
            marks.check_missing(self.path.parent)
            new = self.path.with_name(files.NEW)
            files.create(new, tree=tree, node=node).close()
            files.publish(new, self.path)
        files.check_unopened(self.path)
        starter = self._starter = files.connect(self.path)
        soundness.check_kind(starter, self.path)
        migrations.migrate(starter, self.path, migrations.MIGRATIONS)
        soundness.check(starter, self.path)
        self._writer = files.without_spare_pages(files.connect(self.path))
        self._begin_start(self._writer, tree, node)
        self._checkpoints = Checkpoints(self.path, self._log_limit)

    @staticmethod
    def owner(directory: Path) -> str:
        """The node whose database lies there; '' if there is none. Raises `StoreCorrupt`."""
        path = directory / files.NAME
        if not path.exists():
            return ""
        try:
            files.check_unopened(path)
            connection = files.connect(path, reader=True)
            try:
                return files.own_values(connection).get(files.NODE, b"").decode()
            finally:
                connection.close()
        except (sqlite3.Error, ValueError, OSError) as error:
            raise StoreCorrupt(path, f"it does not say whose it is: {error}") from None

    def rename(self, node: str) -> None:
        """It belongs to that node from now on. Caller's duty: nobody knows it under the old name."""
        assert self._writer is not None
        files.set_value(self._writer, files.NODE, node.encode())

    def _begin_start(self, writer: sqlite3.Connection, tree: str, node: str) -> None:
        own = files.own_values(writer)
        soundness.check_owner(self.path, own, tree, node)
        found = soundness.confirmed(self.path, own)
        self.recovered_from = own.get(files.RECOVERED, b"")
        self.store_id, self.start = own[files.STORE_ID], files.number(own, files.START) + 1
        place, generation = self.path.with_name(files.JOURNAL), files.number(own, files.GENERATION)
        self._marks = marks.Marks(self.path.parent, marks.kept(own))
        self._journal = Journal(place, self.store_id, generation + 1, self._journal_limit)
        writer.execute("BEGIN IMMEDIATE")
        for transaction in found.transactions:
            self._put(writer, transaction)
        files.set_value(writer, files.GENERATION, files.encode_number(self._journal.generation))
        files.set_value(writer, files.START, files.encode_number(self.start))
        self._marks.put(writer)
        writer.execute("COMMIT")
        self._marks.confirm()
        self._journal.restart(generation + 1)
        self._last_rows.update({table: schema.last_row(writer, table) for table in NUMBERED})

    def load(self) -> Loaded:
        """Read all rows but the bodies of bundles. For the start, before anything is written."""
        return self._guarded(self._load)

    def _load(self) -> Loaded:
        writer = self._writing()
        self._fold_all(writer)
        starter, self._starter = self._starter, None
        if starter is None:
            return Loaded(writer, self._read_later)
        try:
            return Loaded(starter, self._read_later)
        finally:
            starter.close()

    def apply(self, transaction: Transaction) -> None:
        """Write and commit. On return it is on disk; on `StoreError` it may or may not be, as a whole."""
        self.write(transaction)
        self.commit()

    def write(self, transaction: Transaction) -> None:
        """Hand a transaction to the database, to be committed by the next `commit`; not durable yet."""
        self._guarded(self._write, transaction)

    def commit(self) -> None:
        """Make durable what was written; may run in another thread. Blocks for one fsync."""
        self._guarded(self._commit)

    def _write(self, transaction: Transaction) -> None:
        self._settle()
        writer = self._writing()
        if writer.in_transaction:
            self._put(writer, transaction)
        elif self._fresh is not None or not self._journalled(transaction):
            self._fold(writer, transaction)

    def _journalled(self, transaction: Transaction) -> bool:
        """Whether the next commit is the journal's: it has room for it."""
        if self._journal is None:
            return False
        self._check_headers(transaction)
        payload = journal.encode(transaction)
        if not self._journal.takes(payload):
            return False
        self._fresh, self._payload = transaction, payload
        return True

    def _check_headers(self, transaction: Transaction) -> None:
        changes = transaction.changes.get(BundleRow, {})
        headers = [row for row, bundle in changes.items() if bundle is not None and bundle.body is None]
        if headers:
            found, elsewhere = self._pending.bodies(headers)
            there = reading.count_bundles(self._reading(), elsewhere) if elsewhere else 0
            self._refuse_lone_headers(len(headers) - len(found) - there, len(headers))

    def _refuse_lone_headers(self, missing: int, headers: int) -> None:
        if missing:
            raise StoreIOFailed(
                f"{self.path}: {missing} of {headers} bundles whose header changes are not in the store: a"
                " fault of this program; start the node again"
            )

    def _fold(self, writer: sqlite3.Connection, transaction: Transaction | None = None) -> None:
        """Begin a commit of the database's own, with all that only the journal has."""
        folded = self._pending.copy()
        for each in (self._fresh, transaction):
            if each is not None:
                folded.add(each)
        self._fresh, self._payload = None, b""
        writer.execute("BEGIN IMMEDIATE")
        self._put(writer, folded.transaction)
        if self._journal is not None and self._journal.length:
            following = files.encode_number(self._journal.generation + 1)
            files.set_value(writer, files.GENERATION, following)

    def _put(self, writer: sqlite3.Connection, transaction: Transaction) -> None:
        for table, rows, gone in transaction.tables():
            if table in NUMBERED and rows:
                self._last_rows[table] = max(self._last_rows[table], max(row[0] for row in rows))
            if missing := schema.change(writer, table, rows, gone):
                self._refuse_lone_headers(missing, sum(row.body is None for row in rows))

    def _settle(self) -> None:
        """Take over what the last commit has changed. A commit that is under way has said nothing yet."""
        if self._fresh is not None and not self._payload:
            self._pending.add(self._fresh)
            self._fresh = None
        if self._folded:
            self._folded = False
            self._pending = Pending(self._last_rows)

    def _commit(self) -> None:
        writer, log = self._writing(), self._journal
        if self._payload and log is not None:
            self.hook(BEFORE_COMMIT)
            log.append(self._payload)
            self.hook(AFTER_COMMIT)
            self.commits += 1
            self._payload = b""
            return
        if not writer.in_transaction:
            return
        checkpoints, own = self._checkpoints, self._marks
        if checkpoints is not None and own is not None and own.due(checkpoints.count, checkpoints.copying):
            own.put(writer, checkpoints.count)
        self.hook(BEFORE_COMMIT)
        writer.execute("COMMIT")
        self.hook(AFTER_COMMIT)
        self.commits += 1
        if log is not None and log.length:
            log.restart(log.generation + 1)
        self._folded = True
        if own is not None:
            own.confirm()
        if checkpoints is not None:
            checkpoints.after_commit(writer)

    def bodies(self, rows: Sequence[int]) -> dict[int, bytes]:
        """Bodies of committed bundles by row. A row that is not there is not in the answer."""
        return self._guarded(self._bodies, rows, reads=True)

    def _bodies(self, rows: Sequence[int]) -> dict[int, bytes]:
        self._settle()
        found, elsewhere = self._pending.bodies(rows)
        return found | reading.bodies(self._reading(), elsewhere) if elsewhere else found

    def copies(self, rows: Sequence[int], with_bodies: bool) -> list[StoredEntry]:
        """Committed copies by row, ascending; one that is not there is not in the answer."""
        return self._guarded(self._copies, rows, with_bodies, reads=True)

    def _copies(self, rows: Sequence[int], with_bodies: bool) -> list[StoredEntry]:
        self._settle()
        return reading.copies(self._reading(), rows, with_bodies, self._pending)

    def _read_later(self, query: str, values: tuple[int, ...]) -> list[tuple[Any, ...]]:
        return self._guarded(lambda: self._reading().execute(query, values).fetchall(), reads=True)

    def used_bytes(self) -> int:
        """Bytes of the database in use, as last committed; the log is not counted."""
        return self._guarded(lambda: reading.used_bytes(self._reading()), reads=True)

    def disk_free(self) -> int:
        """Bytes that may still be written on the disk that holds the database; the ballast comes first."""
        return self._guarded(lambda: max(disk_free(self.path.parent) - self._ballast.missing, 0), reads=True)

    def lay_ballast(self) -> bool:
        """Keep some space for later, if it is not kept already. Returns whether there was enough."""
        return self._ballast.lay(self._checkpoints.log_bytes() if self._checkpoints else 0)

    def try_again(self) -> bool:
        """After `StoreFull`: nothing of the last commit is kept, and there may be a further one.

        Space is made with the ballast, and by copying the log. Returns whether there was a ballast.
        """
        if not self.full:
            return False
        self._failed = None
        if self._payload:
            self._fresh, self._payload = None, b""
        dropped = self._ballast.drop()
        writer = self._writing()
        with contextlib.suppress(sqlite3.Error):  # whatever is wrong, the next commit meets it again
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            writer.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        return dropped

    def untidy(self) -> bool:
        """Whether `tidy` will find something to do. Cheap, but for a fold that it begins: those are rows."""
        return self._guarded(lambda: self._untidy(self._writing()))

    def tidy(self) -> bool:
        """For idle times: cut the log and give free pages back, a little at a time; may run in a thread.

        Returns whether it did something, so that there may be more to do.
        """
        return self._guarded(lambda: self._tidy(self._writing()))

    def _untidy(self, writer: sqlite3.Connection) -> bool:
        self._settle()
        if writer.in_transaction or self._fresh is not None:
            return False
        gone = self._pending.gone()
        if len(gone) >= _VACUUM_FROM or reading.bundle_bytes(self._reading(), gone) >= _VACUUM_BYTES:
            self._fold(writer)
            return True
        return self._free_pages(writer) >= _VACUUM_FROM or (
            self._checkpoints is not None and self._checkpoints.worth_shortening(writer)
        )

    def _tidy(self, writer: sqlite3.Connection) -> bool:
        if writer.in_transaction:
            self._commit()
            return True
        cut = self._checkpoints is not None and self._checkpoints.shorten(writer)
        free = self._free_pages(writer)
        if free < _VACUUM_FROM:
            return cut
        writer.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
        return self._free_pages(writer) < free

    @staticmethod
    def _free_pages(writer: sqlite3.Connection) -> int:
        return int(writer.execute("PRAGMA freelist_count").fetchone()[0])

    def close(self) -> None:
        """Close all and give the lock back. What was written and not committed is gone. Idempotent."""
        folded = self._fold_last()
        log, self._journal = self._journal, None
        if log is not None:
            log.close()
        checkpoints, self._checkpoints = self._checkpoints, None
        if checkpoints is not None:
            checkpoints.close()
        for connection in (self._starter, self._reader, self._writer):
            if connection is not None:
                connection.close()
        self._starter = self._reader = self._writer = None
        if checkpoints is not None:
            checkpoints.release()
            if folded and not files.companion(self.path, "-wal").exists():  # all is in the database
                marks.remove(self.path.parent)
                journal.remove(self.path.with_name(files.JOURNAL))
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _fold_last(self) -> bool:
        """Leave all in the database; say whether it is. If it is not, a start reads the journal."""
        writer = self._writer
        if writer is None or self._failed is not None:
            return False
        with contextlib.suppress(StoreError, sqlite3.Error):
            if writer.in_transaction:
                writer.execute("ROLLBACK")
            self._fold_all(writer)
            return True
        return False

    def _fold_all(self, writer: sqlite3.Connection) -> None:
        self._settle()
        self._fresh, self._payload = None, b""
        if self._pending.transaction or (self._journal is not None and self._journal.length):
            self._fold(writer)
            self._commit()
            self._settle()

    def _writing(self) -> sqlite3.Connection:
        if self._writer is None:
            raise StoreIOFailed(f"{self.path} is closed")
        return self._writer

    def _reading(self) -> sqlite3.Connection:
        """A connection that sees what is committed, while the other may be committing in a thread."""
        if self._reader is None:
            self._writing()
            self._reader = files.without_spare_pages(files.connect(self.path, reader=True), reader=True)
        return self._reader

    def _guarded(
        self, work: Callable[[*Arguments], Result], *arguments: *Arguments, reads: bool = False
    ) -> Result:
        """Do it, unless the store has failed; whatever it raises makes the store fail for good.

        `reads`: nothing is written, so a full disk is no hindrance. A commit in the thread may have met one,
        and the loop has not heard of it yet.
        """
        if self._failed is not None and not (reads and self.full):
            raise self._failed
        try:
            return work(*arguments)
        except Exception as error:
            self._failed = mapped(error, self.path)
            raise self._failed from error

    @property
    def full(self) -> bool:
        """Whether the store failed for want of space."""
        return isinstance(self._failed, StoreFull)
