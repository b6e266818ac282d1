"""A table of sites as a person wrote it: CSV with a header (comma, semicolon or tab; rows that begin with `#`
do not count) or Parquet, with the columns `name`, `parent` and `role`, and where there are meshes `mesh`;
others are ignored. That is the table that `sapwood config fleet` reads.

Plain mistakes are refused here, with their line; `deployment` makes the tree, and refuses the rest.
"""

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy
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
_BLOCK: Final = 4 * 1024 * 1024
"""Characters of lines that are taken at once."""


def read(path: str, far: Far | None = None) -> Table:
    """The sites (`SITES`) of a table. `far`: how to read one that is not on this machine. Raises `UsageError`
    where there is no such table, or no such columns in it, or a parent has no row of its own."""
    near = urlsplit(path).path if path.startswith("file:") else path
    try:
        if path.rstrip("/").endswith(".parquet"):
            sites = _of_columns(path, far(path) if far and not is_local(path) else parquet.read_table(near))
        else:
            lines = far(path).column(0).chunks if far and not is_local(path) else _lines(Path(near))
            sites = _of_lines(path, lines)
    except (OSError, arrow.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read as a table of sites: {error}") from None
    _refuse_orphans(path, sites)
    return sites


def _lines(path: Path) -> Iterator[arrow.Array]:
    """The lines of a file, or of all files of a folder, some at a time: a long table takes little memory."""
    files = sorted(path.glob("[!._]*")) if path.is_dir() else [path]
    for each in files:
        with each.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
            while some := file.readlines(_BLOCK):
                yield arrow.array([line.removesuffix("\n") for line in some], arrow.large_string())


def _of_lines(path: str, blocks: Iterable[arrow.Array]) -> Table:
    found, before, first = [], 0, ""
    separator, columns = "", dict[str, int]()
    for block in blocks:
        numbers = arrow.array(numpy.arange(before + 1, before + len(block) + 1))
        told = Table.from_arrays([block, numbers], names=["text", "line"])
        before += len(block)
        bare = compute.utf8_trim_whitespace(block)
        comment = compute.or_(compute.equal(bare, ""), compute.starts_with(bare, "#"))
        told = told.filter(compute.invert(comment))
        if not first and len(told):
            first = told.column("text")[0].as_py()
            separator, written = heading(first)
            columns = {column_name(name): place for place, name in enumerate(written, 1)}
            refuse_columns(path, columns)
        told = told.filter(compute.not_equal(told.column("text"), first))  # each file of a folder has it
        if len(told):
            found.append(_cells(told, separator, columns))
    if not first:
        raise UsageError(f"{path}: is empty: expected a table of sites with name, parent and role")
    return arrow.concat_tables(found) if found else SITES.empty_table()


def _cells(told: Table, separator: str, columns: Mapping[str, int]) -> Table:
    """`SITES` of lines (text, line). `columns`: where each stands."""
    found = query(
        """with cut as (
            select line, string_split(text, $separator) as cells from told where not contains(text, '"')
            union all select line, cells from quoted)
        select cells[$name] as name, cells[$parent] as parent, cells[$role] as role, cells[$mesh] as mesh,
            line
        from cut order by line""",
        told=told,
        quoted=_quoted(told, separator),
        separator=separator,
        **{name: columns.get(name, 0) for name in COLUMNS},
    )
    return _sites(found.column(name) for name in SITES.names)


def _quoted(told: Table, separator: str) -> Table:
    """(line, cells) of those lines that quote."""
    few = told.filter(compute.match_substring(told.column("text"), '"'))
    return arrow.table(
        {
            "line": few.column("line"),
            "cells": arrow.array(
                [next(csv.reader([text], delimiter=separator)) for text in few.column("text").to_pylist()],
                arrow.list_(arrow.string()),
            ),
        }
    )


def _of_columns(path: str, table: Table) -> Table:
    named = {column_name(column): column for column in table.column_names}
    refuse_columns(path, named)
    return _sites(
        table.column(named[field.name]) if field.name in named else arrow.nulls(len(table), field.type)
        for field in SITES
    )


def _sites(columns: Iterable[arrow.ChunkedArray]) -> Table:
    """The columns of `SITES` with spaces cut off; a row without a name is none."""
    *texts, lines = columns
    bare = [compute.utf8_trim_whitespace(text.cast(arrow.string())) for text in texts]
    cells = [compute.if_else(compute.equal(text, ""), None, text) for text in bare]
    sites = Table.from_arrays([*cells, lines], schema=SITES)
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


def _refuse_orphans(path: str, sites: Table) -> None:
    found = query(
        """with spelt as (select distinct parent as spelt from sites),
        named as (select spelt, unnest(string_split_regex(spelt, '\\s+')) as parent from spelt),
        missing as (select spelt, parent from named anti join sites on named.parent = sites.name)
        select line, name, missing.parent from sites join missing on sites.parent = spelt
        order by line, name""",
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
