"""A mark beside the database of the state that was confirmed: so a log that somebody removed is noticed.

What is committed lies in the log alone until it is copied into the database. After a kill that log may be
removed, and SQLite opens the older state without a word. Hence a growing number is committed with each start,
with the first commit behind each copy of the log, and every minute; after the commit it is also written into
`node.mark`. A database whose number is lower than that has lost state for certain.

Law: the file never says more than what is on disk, so there is no false alarm: whoever folds the log in has
the number in the database. The file is not synced, and a torn one counts as none: only an alarm is missed.
A node that stops as it should removes it; a recovery that is under way says so in it.
"""

import contextlib
import os
import sqlite3
import time
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from broker.store import files
from broker.store.errors import StoreCorrupt

EVERY: Final = 60.0
_MOST_BYTES: Final = 200


class Mark(NamedTuple):
    """`number` was committed at `at` (ms since 1970) in that store. `recovering`: it is being salvaged."""

    store_id: bytes
    number: int
    at: int
    recovering: bool = False


def encode(mark: Mark) -> bytes:
    words = (mark.store_id.hex(), f"{mark.number:020}", f"{mark.at:020}", str(int(mark.recovering)))
    text = " ".join(words).encode()
    return b"%s %08x\n" % (text, zlib.crc32(text))


def decode(data: bytes) -> Mark | None:
    """None for anything that was not written as a whole."""
    text, _, check = data.rstrip(b"\n").rpartition(b" ")
    try:
        store_id, number, at, recovering = text.decode("ascii").split(" ")
        if int(check, 16) != zlib.crc32(text):
            return None
        return Mark(bytes.fromhex(store_id), int(number), int(at), recovering == "1")
    except ValueError:
        return None


def read(directory: Path) -> Mark | None:
    """The mark in a store's directory; None if there is none that makes sense."""
    try:
        with (directory / files.MARK).open("rb") as file:
            return decode(file.read(_MOST_BYTES))
    except FileNotFoundError:
        return None


def write(directory: Path, mark: Mark) -> None:
    descriptor = os.open(directory / files.MARK, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, encode(mark), 0)
    finally:
        os.close(descriptor)


def remove(directory: Path) -> None:
    (directory / files.MARK).unlink(missing_ok=True)


def kept(own: dict[str, bytes]) -> Mark:
    """The mark in the database itself, from its own values; number 0 where there is none yet."""
    value = own.get(files.MARKED, b"")
    return Mark(
        own.get(files.STORE_ID, b""), int.from_bytes(value[:8], "big"), int.from_bytes(value[8:16], "big")
    )


def lost(own: dict[str, bytes], confirmed: Mark | None) -> str:
    """Say that the database with these values is older than what was confirmed; '' if it is not."""
    found = kept(own)
    if confirmed is None or confirmed.store_id != found.store_id or confirmed.number <= found.number:
        return ""
    state = f"state {found.number}{f' of {moment(found.at)}' if found.at else ''}"
    return (
        f"it has {state}, and the node had confirmed state {confirmed.number} of {moment(confirmed.at)}: "
        f"its log {files.NAME}-wal was removed (put it back if you have it), or an older copy was put here"
    )


def moment(milliseconds: int) -> str:
    """A time for people, in UTC."""
    try:
        found = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
    return found.strftime("%Y-%m-%d %H:%M:%S UTC")


def check_missing(directory: Path) -> None:
    """Refuse to start with an empty database where a full one has been."""
    path = directory / files.NAME
    wal = files.companion(path, "-wal")
    mark = read(directory)
    broken = files.broken_files(directory)
    if wal.exists() and wal.stat().st_size:
        raise StoreCorrupt(path, f"it is gone while its log {wal.name} is there")
    if mark is not None and not mark.recovering:
        raise StoreCorrupt(
            path,
            f"it is gone, and {files.MARK} says that it was in use at {moment(mark.at)} "
            f"(put it back if you have it; to begin with nothing instead, remove {files.MARK})",
        )
    if broken:
        raise StoreCorrupt(
            path,
            f"a recovery of {broken[-1].name} has not ended (to begin with nothing instead, "
            f"move {broken[-1].name} elsewhere)",
        )


class Marks:
    """The marks of one open store. `put` within a transaction, then `confirm` once it is committed."""

    def __init__(self, directory: Path, last: Mark) -> None:
        self._directory = directory
        self._last = last
        self._put_at = 0.0
        self._copies = 0
        self._unconfirmed = False

    def __repr__(self) -> str:
        return f"<Marks {self._directory / files.MARK} number={self._last.number}>"

    def due(self, copies: int, copying: bool) -> bool:
        """Whether the next commit needs one. `copies` of the log so far; `copying`: one is under way."""
        return copying or copies != self._copies or time.monotonic() - self._put_at >= EVERY

    def put(self, writer: sqlite3.Connection, copies: int = 0) -> None:
        self._copies, self._put_at = copies, time.monotonic()
        at = time.time_ns() // 1_000_000
        self._last = self._last._replace(number=self._last.number + 1, at=at)
        value = self._last.number.to_bytes(8, "big") + at.to_bytes(8, "big")
        writer.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (files.MARKED, value))
        self._unconfirmed = True

    def confirm(self) -> None:
        """What was put is on disk. A file that cannot be written is as old as it was: no error."""
        if self._unconfirmed:
            self._unconfirmed = False
            with contextlib.suppress(OSError):
                write(self._directory, self._last)
