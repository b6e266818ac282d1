"""Folders that only their owner enters."""

import os
from pathlib import Path
from typing import Final

from config.whole_files import give

PRIVATE_FOLDER: Final = 0o700


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner enters, where it is not there yet."""
    if not path.is_dir():
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            give(descriptor, os.stat("..", dir_fd=descriptor))
        finally:
            os.close(descriptor)
    return path
