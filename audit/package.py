"""Writes the audit as one file that spark-submit takes: `python -m audit.package sapwood_audit.py`.

    spark-submit --master … sapwood_audit.py LOG… --deployment sites.csv --out report

Wrinkle: the file is a zip that Python runs; it is called `.py` because spark-submit takes nothing else. Only
the driver needs it: executors run no Python.
"""

import sys
import zipfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

_MAIN: Final = "import sys\n\nfrom audit.cli import main\n\nsys.exit(main())\n"
_KEPT: Final = (".py", ".csv", ".css", ".js", ".properties")


def write(path: Path) -> Path:
    """Write the file and return its path. Same sources, same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted([("__main__.py", _MAIN.encode()), *_sources(files("audit"), "audit")]):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return path


def _sources(folder: Traversable, name: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "__pycache__":
            found += _sources(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(_KEPT):
            found.append((f"{name}/{entry.name}", entry.read_bytes()))
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m audit.package FILE.py")
    print(write(Path(sys.argv[1])))
