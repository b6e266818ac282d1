"""Folders for what joining brings, and those that only their owner enters."""

import os
from pathlib import Path
from typing import Final

from config.whole_files import give

PRIVATE_FOLDER: Final = 0o700


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner enters, where it is not there yet."""
    return made_folder(path, PRIVATE_FOLDER)


def made_folder(path: Path, mode: int = 0o777) -> Path:
    """Make it where it is not there yet; in the folder of another user root makes it that user's."""
    if not path.is_dir():
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            give(descriptor, os.stat("..", dir_fd=descriptor))
        finally:
            os.close(descriptor)
    return path
