"""Opens files that a person has named, and never waits for one, nor reads more of it than it may have.

Law: only a plain file is opened. A pipe would be waited for until somebody writes, which may be never; a
device such as /dev/zero never ends. Both can stand behind any name, through a symbolic link too.
"""

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file for reading. Raises `OSError`, also where it is anything else; `strerror` says so."""
    # O_NONBLOCK: to open a pipe that nobody writes to would wait
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, f"it is {_kind(mode)}: expected a plain file", str(path))
        return os.fdopen(descriptor, "rb")
    except OSError:
        os.close(descriptor)
        raise


def read_plain(path: Path, most: int) -> bytes:
    """Read a plain file; one byte more than `most` tells that it is too large. Raises `OSError`."""
    with open_plain(path) as opened:
        return opened.read(most + 1)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device"
