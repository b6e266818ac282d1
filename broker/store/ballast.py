"""Ballast: some bytes of the disk that the store has beforehand, and lets go when another program fills it.

With them the node commits what it deletes and acknowledges, so it drains on a disk where nothing is free.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from broker.store.errors import NO_SPACE

BALLAST: Final = 2 * 1024 * 1024
_NAME: Final = "node.ballast"


class Ballast:
    """A file of `BALLAST` bytes or more beside the database, there or not."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / _NAME
        self._laid = self._file.stat().st_size if self._file.exists() else 0

    def __repr__(self) -> str:
        return f"<Ballast {self._laid}>"

    @property
    def missing(self) -> int:
        """Bytes that are still to be laid."""
        return max(BALLAST - self._laid, 0)

    def lay(self, log: int) -> bool:
        """Take the bytes, and as many as the write-ahead log has: its copy makes the database longer.

        Returns whether there was space for them. Nothing else that hinders it is an error.
        """
        if self._laid >= max(BALLAST, log + BALLAST // 2):
            return True
        wanted = BALLAST + log
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, wanted)
                self._laid = wanted
            except OSError:
                os.ftruncate(descriptor, self._laid)  # ext4 keeps all that there was, to the last byte
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._laid:
                self.drop()
            return error.errno not in NO_SPACE
        return True

    def drop(self) -> bool:
        """Let the bytes go. Returns whether there were any."""
        had, self._laid = self._laid, 0
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)
        return had > 0
