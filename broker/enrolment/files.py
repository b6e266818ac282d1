"""Folders that only their owner enters."""

from pathlib import Path
from typing import Final

PRIVATE_FOLDER: Final = 0o700


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner enters, where it is not there yet."""
    path.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    return path
