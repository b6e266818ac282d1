"""Keeps the write-ahead log short without making commits wait.

The log's pages are copied into the database by a connection of its own in a thread of its own, once the
log is longer than `LIMIT`. As the writer goes on meanwhile, the copy never quite catches up and the log
would never begin anew; so the rest, which is small by then, is copied by the writer between two commits.

Wrinkle: how much of the log is in use is read from the shared-memory index (field mxFrame of
https://www.sqlite.org/walformat.html#the_wal_index_file_format), since the file keeps its length when the
log begins anew: that makes fsync cheap. Its descriptor is closed only after all connections are.

Wrinkle: a commit that makes the log's file longer costs twice the fsync of one that does not (the file
system's own journal is written too). So the file is made longer ahead of time, by zeros behind its end, which
no reader of the log takes for frames: by as much as is in use, up to a quarter of a MiB, for the next fsync
writes them too; not at all while that is little. It ends when the log has its full length, which is small for
that reason: from then on it begins anew in a file that is long enough.
"""

import contextlib
import os
import sqlite3
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from broker.store import files
from broker.threads import Threads

LIMIT: Final = 8 * 1024 * 1024
IDLE_LIMIT: Final = 1024 * 1024
_FRAME_BYTES: Final = files.PAGE_BYTES + 24
_MAX_FRAME_AT: Final = 16
_BEGINNING: Final = 1024 * 1024
_ROUNDS: Final = 4
_AHEAD: Final = memoryview(bytes(256 * 1024))
_NEAR: Final = 256 * 1024
_LITTLE: Final = 128 * 1024


class Checkpoints:
    """Decides when the log is copied and does it. One for an open store."""

    def __init__(self, path: Path, limit: int = LIMIT) -> None:
        self._path = path
        self._limit = limit
        self._index = os.open(files.companion(path, "-shm"), os.O_RDONLY)
        self._log = os.open(files.companion(path, "-wal"), os.O_RDWR)
        self._laid = 0
        self._thread = Threads("sapwood-checkpoint")
        self._aside: Future[None] | None = None
        self._rest = False
        self.count = 0

    def __repr__(self) -> str:
        return f"<Checkpoints {self._path} log={self.log_bytes()} done={self.count}>"

    def log_bytes(self) -> int:
        """Bytes of the log in use, copied into the database or not."""
        frames = os.pread(self._index, 4, _MAX_FRAME_AT)
        return int.from_bytes(frames, sys.byteorder) * _FRAME_BYTES

    @property
    def copying(self) -> bool:
        """Whether a copy is under way: what is committed now may or may not be in it."""
        return self._aside is not None or self._rest

    def after_commit(self, writer: sqlite3.Connection) -> None:
        """Called after each commit, where no transaction is open; starts or ends a copy if it is time."""
        self._reap()
        length = self.log_bytes()
        needed = length + min(length // 2, _NEAR)
        if needed > self._laid and length >= _LITTLE:
            self._lay(needed)
        if self._aside is not None:
            return
        if self._rest:
            self._rest = False
            self._copy(writer, "PASSIVE")
        elif length > self._limit:
            self._aside = self._thread.submit(self._copy_aside)

    def _lay(self, needed: int) -> None:
        """Make the file longer than what is in use. No space for that is no error: a commit will tell."""
        self._laid = os.fstat(self._log).st_size
        if needed > self._laid:
            with contextlib.suppress(OSError):
                self._laid += os.pwrite(self._log, _AHEAD[:needed], self._laid)

    def worth_shortening(self, writer: sqlite3.Connection) -> bool:
        """Whether the log, or the file beyond its pages, is long enough to be cut in an idle moment."""
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        spare = self._path.stat().st_size - pages * files.PAGE_BYTES
        return (self._aside is None or self._aside.done()) and max(spare, self.log_bytes()) > IDLE_LIMIT

    def shorten(self, writer: sqlite3.Connection) -> bool:
        """Copy all and cut the log, if it is worth it; say whether that was of use. For idle times."""
        self._reap()
        if not self.worth_shortening(writer):
            return False
        self._rest = False
        self._copy(writer, "TRUNCATE")
        self._laid = 0
        return not self.worth_shortening(writer)  # a file that others made longer stays so: no second time

    def close(self) -> None:
        """Wait for a copy under way. The connections must be closed next, then `release` called."""
        self._thread.shutdown()
        self._aside = None

    def release(self) -> None:
        if self._index >= 0:
            os.close(self._index)
            os.close(self._log)
            self._index = -1

    def _reap(self) -> None:
        """Notice that a copy has ended, and raise what it raised."""
        if self._aside is not None and self._aside.done():
            ended, self._aside = self._aside, None
            ended.result()

    def _copy_aside(self) -> None:
        connection = files.connect(self._path)
        try:
            self._catch_up(connection)
        finally:
            connection.close()

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        """Copy until what the writer added meanwhile is small; leave that to the writer."""
        copied = 0
        for _ in range(_ROUNDS):
            frames, before = self._copy(connection, "PASSIVE"), copied
            copied = frames
            if (frames - before) * _FRAME_BYTES < _BEGINNING:
                break
        self._rest = True

    def _copy(self, connection: sqlite3.Connection, mode: str) -> int:
        """Return the frames that have been copied since the log began."""
        _, _, copied = connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        self.count += 1
        return int(copied)
