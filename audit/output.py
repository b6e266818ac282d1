"""Writes tables: Parquet in OUT/tables, one folder a table, and CSV summaries in OUT/csv.

Law: a CSV has at most `CSV_ROWS` rows, and its last line says so if there are more; Parquet has all.
"""

import csv
import itertools
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy
import pyarrow as arrow
from pyarrow import Table, parquet

from audit.errors import AuditError, UsageError
from audit.findings import MOST_ROWS, FirstRows
from audit.listing import RESULTS, results
from audit.queries import query, rows

CSV_ROWS: Final = MOST_ROWS
LARGE: Final[dict[str, tuple[str, ...]]] = {
    "nodes": ("depth", "node"),
    "spilled": ("at", "node", "peer", "kind", "destination", "op", "origin", "cause"),
    "consumer_events": ("at", "cause", "op", "node", "kind", "destination"),
    "consumers": ("node", "kind", "destination"),
    "volume": ("hour", "node", "peer", "direction", "kind", "op", "restored"),
    "judged": ("node", "origin", "kind", "direction", "rooted"),
}
"""Tables that may have as many rows as the log or the chain, with the order of their rows."""
_PART: Final = "part-00000.parquet"
_BLOCK: Final = 2**17
"""Rows that are put in order at once, so that a large table never lies in memory twice."""


class Output:
    """Writes below one folder. `tables`: what was written so far, its first rows, as dictionaries; what was
    not written has none. Of all but the `LARGE`, and of the nodes, the whole stays (`findings.FirstRows`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables: defaultdict[str, Sequence[Mapping[str, Any]]] = defaultdict(list)
        tables = folder / "tables"
        self._earlier = sorted(tables.glob(f"*/{_PART}")) if (tables / RESULTS).exists() else []
        try:
            (folder / "csv").mkdir(parents=True, exist_ok=True)
            results(tables)
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written to: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"<Output {self.folder} tables={len(self.tables)}>"

    def write(self, name: str, table: Table) -> Table:
        """Write a table in both forms, in its order; returns it as it was given. Raises `AuditError` where it
        cannot be written."""
        with self.writing():
            self._write(name, table)
        return table

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Whatever cannot be written here meanwhile, as on a full disk, is told with the folder's name."""
        try:
            yield
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else error
            raise AuditError(f"{self.folder}: cannot be written to: {why}") from error

    def _write(self, name: str, table: Table) -> None:
        if not self.tables:
            self._remove_earlier()
        blocks = _ordered(table, LARGE[name]) if name in LARGE else iter([table])
        path = self.folder / "tables" / name
        path.mkdir(parents=True, exist_ok=True)
        first = next(blocks)
        with parquet.ParquetWriter(path / _PART, first.schema) as writer:
            for block in itertools.chain([first], blocks):
                writer.write_table(block)
        shown = rows(first.slice(0, CSV_ROWS + 1))
        self.tables[name] = shown if name in LARGE and name != "nodes" else FirstRows(shown, table)
        write_csv(self.folder / "csv" / f"{name}.csv", table.column_names, self.tables[name])

    def _remove_earlier(self) -> None:
        """Not every run has every table: of an earlier one none stays, nor its report."""
        for old in self._earlier:
            old.unlink()
            (self.folder / "csv" / f"{old.parent.name}.csv").unlink(missing_ok=True)
            with suppress(OSError):  # somebody has put something of his own there
                old.parent.rmdir()
            (self.folder / "report.html").unlink(missing_ok=True)


def _ordered(table: Table, keys: Sequence[str]) -> Iterator[Table]:
    """Its rows in the order of these columns, some at a time, with all words written out."""
    numbered = table.select(keys).append_column("row", arrow.array(numpy.arange(len(table))))
    text = _ORDER.replace("KEYS", ", ".join(f'"{key}"' for key in keys))
    order = query(text, numbered=numbered)["row"]
    words = [
        field.type.value_type if arrow.types.is_dictionary(field.type) else field.type
        for field in table.schema
    ]
    plain = arrow.schema(list(zip(table.column_names, words, strict=True)))
    for start in range(0, max(len(table), 1), _BLOCK):
        yield table.take(order.slice(start, _BLOCK)).cast(plain)


_ORDER: Final = "select row from numbered order by KEYS"


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([_cell(row[column]) for column in columns] for row in rows[:CSV_ROWS])
        if len(rows) > CSV_ROWS:
            writer.writerow([f"more than {CSV_ROWS} rows: see tables/{path.stem}"])


def _cell(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix("+00:00")
    return "" if value is None else value
