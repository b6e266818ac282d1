import errno
import os
import sqlite3
from pathlib import Path

import pytest

from broker.store import StoreBusy, StoreCorrupt, StoreFull, StoreIOFailed
from broker.store.errors import mapped


def raised(code: int, text: str = "text") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode, error.sqlite_errorname = code, f"CODE_{code}"
    return error


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (raised(sqlite3.SQLITE_FULL), StoreFull, "the disk is full"),
        (raised(sqlite3.SQLITE_IOERR | 4 << 8), StoreIOFailed, r"read or write failed: text \[CODE_1034\]"),
        (
            raised(sqlite3.SQLITE_CORRUPT | 1 << 8),
            StoreCorrupt,
            "is damaged: text, or the disk failed to read",
        ),
        (raised(sqlite3.SQLITE_NOTADB), StoreCorrupt, "is damaged: text. It is left as it is"),
        (raised(sqlite3.SQLITE_BUSY), StoreBusy, "locked by another program"),
        (OSError(errno.ENOSPC, "No space"), StoreFull, "Make space and start"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), StoreFull, "Make space and start"),
        (
            OSError(errno.EACCES, "Permission denied", "/data"),
            StoreIOFailed,
            r"denied for /data: let user id \d+ write",
        ),
        (OverflowError("too large"), StoreIOFailed, r"too large \[OverflowError\]"),
    ],
)
def test_each_error_is_told_apart_and_names_the_file(tmp_path, error, kind, text):
    found = mapped(error, tmp_path / "node.db")
    assert type(found) is kind
    with pytest.raises(kind, match=text):
        raise found
    assert str(tmp_path / "node.db") in str(found)


def test_an_error_of_ours_stays_itself(tmp_path):
    error = StoreFull("full")
    assert mapped(error, tmp_path) is error


def test_sqlite_does_not_tell_a_quota_from_a_disk_that_fails(tmp_path, monkeypatch):
    def exceed(_descriptor: int) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    failed = raised(sqlite3.SQLITE_IOERR | 3 << 8, "disk I/O error")
    assert type(mapped(failed, tmp_path / "node.db")) is StoreIOFailed
    monkeypatch.setattr(os, "fsync", exceed)
    assert type(mapped(failed, tmp_path / "node.db")) is StoreFull
    assert not list(tmp_path.iterdir())


def test_a_look_for_space_writes_into_nothing_that_was_there(tmp_path):
    other = tmp_path / "other"
    other.write_bytes(b"kept")
    (tmp_path / "node.db-probe").symlink_to(other)
    assert type(mapped(raised(sqlite3.SQLITE_IOERR), tmp_path / "node.db")) is StoreIOFailed
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("other", b"kept")]


def test_a_disk_without_inodes_is_no_disk_that_fails(tmp_path, monkeypatch):
    """A log that cannot be made, for one; to make space would not help."""

    def lack(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    failed = raised(sqlite3.SQLITE_CANTOPEN, "unable to open database file")
    assert type(mapped(failed, tmp_path / "node.db")) is StoreIOFailed
    found = os.statvfs(tmp_path)
    of_inodes = os.statvfs_result((*found[:5], found.f_files or 1, 0, 0, *found[8:]))
    monkeypatch.setattr(os, "statvfs", lambda _path: of_inodes)
    monkeypatch.setattr(Path, "open", lack)
    full = mapped(failed, tmp_path / "node.db")
    monkeypatch.undo()
    assert type(full) is StoreFull
    assert "no inode left for another file, whatever space is free" in str(full)
