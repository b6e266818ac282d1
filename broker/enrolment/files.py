"""Files that are whole or not there, with the rights that they need from their first byte."""

import os
from pathlib import Path
from typing import Final

from broker.store.files import sync_directory

PRIVATE: Final = 0o600
PUBLIC: Final = 0o644
PRIVATE_FOLDER: Final = 0o700


def write(path: Path, data: bytes, mode: int) -> None:
    """Put `data` into a file, in place of what it holds, at once and durably. Raises `OSError`."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as opened:
        os.fchmod(descriptor, mode)
        opened.write(data)
        opened.flush()
        os.fsync(descriptor)
    new.rename(path)
    sync_directory(path.parent)


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner enters, where it is not there yet."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    return path
