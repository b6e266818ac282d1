"""A table of sites in CSV, looked through before Spark starts: what a person mistypes is said at once.

Only files of this machine are looked at, and only for what is plain to see; `deployment` makes the tree, and
refuses the rest.
"""

import csv
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from audit.errors import UsageError

NEEDED: Final = ("name", "parent", "role")
_SEPARATORS: Final = (",", ";", "\t")
_MOST_NAMED: Final = 5


def heading(line: str) -> tuple[str, list[str]]:
    """The separator that the first line of a table has, and the names of its columns as they are written."""
    separator = max(_SEPARATORS, key=line.count)
    return separator, [cell.strip().strip('"') for cell in line.lstrip("\ufeff").split(separator)]


def column_name(written: str) -> str:
    """How the name of a column is compared."""
    return written.strip().lower().replace(" ", "_").replace("-", "_")


def refuse_columns(path: str, columns: Collection[str]) -> None:
    """Raises `UsageError` that names the columns that are missing."""
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise UsageError(
            f"{path}: no column {', '.join(missing)}: expected a table of sites with name, parent and role"
        )


def refuse_missing(path: str, expected: str) -> None:
    """Raises `UsageError` where a path of this machine leads to nothing."""
    if "://" not in path and not path.startswith("file:") and not Path(path).exists():
        raise UsageError(f"{path}: there is no such file: expected {expected}")


def check(path: str) -> None:
    """Raises `UsageError` where there is no such table, or no such columns in it, or a parent has no row of
    its own: with file, line and parent."""
    refuse_missing(path, "a table of sites")
    if not Path(path).is_file() or path.endswith(".parquet"):
        return
    with Path(path).open(encoding="utf-8-sig", errors="replace") as lines:
        sites = list(_sites(path, lines))
    names = {name for _, name, _ in sites}
    orphans = [(line, name, one) for line, name, above in sites for one in above.split() if one not in names]
    if not orphans:
        return
    told = [f"line {line}: {name!r} has the parent {one!r}" for line, name, one in orphans[:_MOST_NAMED]]
    told += [f"{len(orphans) - _MOST_NAMED:,} more"] if len(orphans) > _MOST_NAMED else []
    raise UsageError(
        f"{path}: {'; '.join(told)}: no such name in the table: add its row, or correct the name"
    )


def _sites(path: str, lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """(line, name, parent) of each site."""
    first, separator, columns = "", "", dict[str, int]()
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\n")
        if not text.strip() or text.lstrip().startswith("#") or text == first:
            continue
        if not first:
            first = text
            separator, written = heading(text)
            columns = {column_name(name): place for place, name in enumerate(written)}
            refuse_columns(path, columns)
            continue
        cells = next(csv.reader([text], delimiter=separator)) if '"' in text else text.split(separator)
        cells += [""] * (len(columns) - len(cells))
        name, parent = (cells[columns[one]].strip() for one in ("name", "parent"))
        if name:
            yield number, name, parent
