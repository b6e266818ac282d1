"""A folder for the Unix socket of a channel, among the temporary files.

Law: nothing is left for ever. A process that is killed leaves its folder; the next one removes it. Each locks
its own as long as it lives.
"""

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
from itertools import islice
from pathlib import Path
from typing import Final

_PREFIX: Final = "sapwood-channel-"
_SOCKET: Final = "socket"
_LOOKED_AT: Final = 10_000
"""Names in the folder for temporary files, at most."""


class SocketFolder:
    """One. Raises `OSError`: there can be none."""

    def __init__(self) -> None:
        with contextlib.suppress(OSError):
            _remove_left()
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.path = str(self._folder / _SOCKET)
        self._lock = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)  # until the process ends
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def __repr__(self) -> str:
        return f"<SocketFolder {self._folder}>"

    def remove(self) -> None:
        """Idempotent."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _remove_left() -> None:
    with os.scandir(tempfile.gettempdir()) as found:
        for entry in islice(found, _LOOKED_AT):
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_left(entry.path)


def _remove_if_left(path: str) -> None:
    """Raises `OSError`: it is no folder, or its process lives and has locked it."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(folder).st_uid == os.geteuid() and _nobody_waits(f"{path}/{_SOCKET}"):
            shutil.rmtree(path)
    finally:
        os.close(folder)


def _nobody_waits(path: str) -> bool:
    """Is a socket there that nobody listens at? Processes of an older version have no lock."""
    with socket.socket(socket.AF_UNIX) as line:
        line.setblocking(False)
        try:
            line.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
    return False
