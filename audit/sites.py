"""A table of sites as a person wrote it: CSV with a header (comma, semicolon or tab; rows that begin with `#`
do not count) or Parquet, with the columns `name`, `parent` and `role`, and where there are meshes `mesh`;
others are ignored. That is the table that `sapwood config fleet` reads.

Plain mistakes are refused here, with their line; `deployment` makes the tree, and refuses the rest.
"""

import csv
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow as arrow
from pyarrow import Table, compute, parquet

from audit.errors import UsageError
from audit.listing import is_local
from audit.queries import query, rows

NEEDED: Final = ("name", "parent", "role")
COLUMNS: Final = (*NEEDED, "mesh")
SITES: Final = arrow.schema([*((name, arrow.string()) for name in COLUMNS), ("line", arrow.int64())])
"""`line`: where the site stands in its table of CSV, else null. An empty cell is null."""
Far = Callable[[str], Table]
"""Reads a table of another file system: of CSV its lines, as one column."""
_SEPARATORS: Final = (",", ";", "\t")
_MOST_NAMED: Final = 5
_AT_ONCE: Final = 100_000


def read(path: str, far: Far | None = None) -> Table:
    """The sites (`SITES`) of a table. `far`: how to read one that is not on this machine. Raises `UsageError`
    where there is no such table, or no such columns in it, or a parent has no row of its own."""
    near = urlsplit(path).path if path.startswith("file:") else path
    try:
        if path.rstrip("/").endswith(".parquet"):
            sites = _of_columns(path, far(path) if far and not is_local(path) else parquet.read_table(near))
        else:
            lines = far(path).column(0).to_pylist() if far and not is_local(path) else _lines(Path(near))
            sites = _of_lines(path, lines)
    except (OSError, arrow.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read as a table of sites: {error}") from None
    _refuse_orphans(path, sites)
    return sites


def _lines(path: Path) -> Iterator[str]:
    for file in sorted(path.glob("[!._]*")) if path.is_dir() else [path]:
        with file.open(encoding="utf-8-sig", errors="replace") as lines:
            yield from lines


def _of_lines(path: str, lines: Iterable[str]) -> Table:
    sites, parts = _sites(path, lines), []
    while some := list(islice(sites, _AT_ONCE)):
        cells = zip(*some, strict=True)
        parts.append(
            Table.from_arrays(
                [arrow.array(one, f.type) for one, f in zip(cells, SITES, strict=True)], schema=SITES
            )
        )
    return arrow.concat_tables(parts) if parts else SITES.empty_table()


def _of_columns(path: str, table: Table) -> Table:
    named = {column_name(column): column for column in table.column_names}
    refuse_columns(path, named)
    cells = []
    for field in SITES:
        if field.name not in named:
            cells.append(arrow.nulls(len(table), field.type))
            continue
        text = compute.utf8_trim_whitespace(table.column(named[field.name]).cast(arrow.string()))
        cells.append(compute.if_else(compute.equal(text, ""), None, text))
    sites = Table.from_arrays(cells, schema=SITES)
    return sites.filter(sites.column("name").is_valid())


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


def _refuse_orphans(path: str, sites: Table) -> None:
    found = query(
        """with named as (select line, name, unnest(string_split_regex(parent, '\\s+')) as parent from sites)
        select * from named where parent not in (select name from sites) order by line, name""",
        sites=sites,
    )
    if not len(found):
        return
    told = [
        (f"line {row['line']}: " if row["line"] else "") + f"{row['name']!r} has the parent {row['parent']!r}"
        for row in rows(found.slice(0, _MOST_NAMED))
    ]
    told += [f"{len(found) - _MOST_NAMED:,} more"] if len(found) > _MOST_NAMED else []
    raise UsageError(
        f"{path}: {'; '.join(told)}: no such name in the table: add its row, or correct the name"
    )


def _sites(path: str, lines: Iterable[str]) -> Iterator[tuple[str | int | None, ...]]:
    """The cells of each site, in the order of `SITES`."""
    numbered = ((number, line.rstrip("\n")) for number, line in enumerate(lines, 1))
    told = ((number, text) for number, text in numbered if text.strip() and not text.lstrip().startswith("#"))
    first = next(told, None)
    if first is None:
        raise UsageError(f"{path}: is empty: expected a table of sites with name, parent and role")
    separator, written = heading(first[1])
    columns = {column_name(name): place for place, name in enumerate(written)}
    refuse_columns(path, columns)
    places = [columns.get(name, len(columns)) for name in COLUMNS]
    empty = [""] * len(columns)
    for number, text in told:
        if text == first[1]:  # of the next file of a folder
            continue
        cells = next(csv.reader([text], delimiter=separator)) if '"' in text else text.split(separator)
        cells = [*(cells + empty)[: len(columns)], ""]
        row = [cells[place].strip() or None for place in places]
        if row[0]:
            yield *row, number
