"""Writes a file in place of what it holds: whole or not at all, with its rights from the first byte on.

Law: a file that was put durably is there after a power cut. So the data is on disk before it has the name,
and the name before the caller goes on.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644


def put(path: Path, data: bytes, mode: int = PRIVATE, *, durably: bool = True) -> None:
    """Put `data` into a file, and make its folder if need be. Caller's duty: one at a time for one file.

    `durably`: wait for the disk; else a power cut may leave the file before, or an empty one. Raises
    `OSError`, and the file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            give(descriptor, path.parent.stat())
            file.write(data)
            file.flush()
            if durably:
                os.fsync(descriptor)
        new.rename(path)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    if durably:
        sync_directory(path.parent)


def give(descriptor: int, folder: os.stat_result) -> None:
    """Where root has made a file or folder in the folder of another user, as a node's own, it is that user's.

    It stays root's where root may not give anything away. Caller's duty: the descriptor was opened without
    following a link, which that user may have laid to a file of root's.
    """
    if os.geteuid() == 0 and folder.st_uid:
        with contextlib.suppress(OSError):
            os.fchown(descriptor, folder.st_uid, folder.st_gid)


def sync_directory(directory: Path) -> None:
    """Have the names in a folder on disk. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
