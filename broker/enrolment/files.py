"""Folders that only their owner enters."""

from pathlib import Path
from typing import Final

from config.whole_files import give

PRIVATE_FOLDER: Final = 0o700


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner enters, where it is not there yet."""
    if not path.is_dir():
        path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        give(path, path.parent)
    return path
