"""Ballast: some bytes of the disk that the store has beforehand, and lets go when another program fills it.

With them the node commits what it deletes and acknowledges, so it drains on a disk where nothing is free.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

BALLAST: Final = 2 * 1024 * 1024
_NAME: Final = "node.ballast"


class Ballast:
    """A file of `BALLAST` bytes beside the database, there or not."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / _NAME
        self._laid = self._file.exists()

    def __repr__(self) -> str:
        return f"<Ballast {'laid' if self._laid else 'gone'}>"

    @property
    def missing(self) -> int:
        """Bytes that are still to be laid."""
        return 0 if self._laid else BALLAST

    def lay(self) -> None:
        """Take the bytes. No space for that is no error."""
        if self._laid:
            return
        with contextlib.suppress(OSError):
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, BALLAST)
                self._laid = True
            finally:
                os.close(descriptor)
        if not self._laid:
            self.drop()

    def drop(self) -> bool:
        """Let the bytes go. Returns whether there were any."""
        had, self._laid = self._laid, False
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
        return had
