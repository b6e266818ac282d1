"""Why the store cannot be used. Every text names the file and what to do.

StoreError (sapwood.protocol.errors)
├── StoreFull       the disk is full, or somebody's quota of it
├── StoreIOFailed   the disk, or the database library, failed to read or write
├── StoreCorrupt    the file is no sound database: `sapwood node recover`
├── StoreBusy       another process has it
└── StoreMismatch   made for another node or tree, or by a newer Sapwood

Law: after an error at a write or commit nothing more is accepted. What was acknowledged before is on disk.
"""

import contextlib
import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from sapwood.protocol.errors import StoreError

_PRIMARY_CODE: Final = 0xFF
_NEARLY_FULL: Final = 64 * 1024
NO_SPACE: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
_MAY_BE_FULL: Final = frozenset((sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN))
_UNREAD: Final = "or the disk failed to read it: look for that in the system's log first (journalctl -k)"


class StoreFull(StoreError):
    """The disk is full, or this user's quota of it."""


class StoreIOFailed(StoreError):
    """The disk, or the database library, failed to read or write."""


class StoreCorrupt(StoreError):
    """The file is no sound database."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(
            f"{path} is damaged: {found}. It is left as it is and not used; "
            "`sapwood node recover` saves what can be read and sets it aside"
        )


class StoreBusy(StoreError):
    """Another process has the store open."""


class StoreMismatch(StoreError):
    """A sound database, but not one that this node may use."""


def disk_free(directory: Path) -> int:
    """Bytes that an unprivileged process may still write beside the database."""
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def mapped(error: BaseException, path: Path) -> StoreError:
    """The store's own error for anything that was raised while a database at `path` was used."""
    if isinstance(error, StoreError):
        return error
    if isinstance(error, PermissionError):
        where = f" for {error.filename}" if error.filename else ""
        return StoreIOFailed(
            f"{path}: {error.strerror}{where}: let user id {os.getuid()} write there (chown), or use another"
            " folder (data)"
        )
    if isinstance(error, OSError):
        return _full(path) if error.errno in NO_SPACE else _failed(path, str(error))
    code = (getattr(error, "sqlite_errorcode", None) or 0) & _PRIMARY_CODE
    if code == sqlite3.SQLITE_FULL or (code in _MAY_BE_FULL and _no_space(path)):
        return _full(path)
    if code == sqlite3.SQLITE_CORRUPT:  # SQLite says the same of EIO at a read (os_unix.c, IOERR_CORRUPTFS)
        return StoreCorrupt(path, f"{error}, {_UNREAD}")
    if code == sqlite3.SQLITE_NOTADB:
        return StoreCorrupt(path, str(error))
    if code == sqlite3.SQLITE_BUSY:
        return StoreBusy(f"{path} is locked by another program ({error}): end it and start the node again")
    return _failed(path, f"{error} [{getattr(error, 'sqlite_errorname', None) or type(error).__name__}]")


def _no_space(path: Path) -> bool:
    """SQLite tells a quota and a want of inodes from no other fault, and the disk's free bytes tell neither:
    so write some.
    """
    probe = path.with_name(f"{path.name}-probe")
    try:
        probe.unlink(missing_ok=True)  # of a node that was killed here
        with probe.open("xb") as file:
            probe.unlink()
            file.write(os.urandom(_NEARLY_FULL))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno in NO_SPACE
    return False


def _full(path: Path) -> StoreFull:
    with contextlib.suppress(OSError):
        status = os.statvfs(path.parent)
        if status.f_files and not status.f_favail:
            return StoreFull(
                f"{path}: the disk has no inode left for another file, whatever space is free (df -i)."
                " Remove files there and start the node again; nothing that was acknowledged is lost"
            )
    return StoreFull(
        f"{path}: the disk is full. Make space and start the node again; "
        "nothing that was acknowledged is lost"
    )


def _failed(path: Path, found: str) -> StoreIOFailed:
    return StoreIOFailed(
        f"{path}: read or write failed: {found}. Check the disk and its mount, then start the node again; "
        "nothing that was acknowledged is lost"
    )
