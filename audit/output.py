"""Writes tables: Parquet in OUT/tables, one folder a table, and CSV summaries in OUT/csv.

Law: a CSV has at most `CSV_ROWS` rows, and its last line says so if there are more; Parquet has all.
"""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pyarrow import Table, parquet

from audit.errors import UsageError
from audit.findings import MOST_ROWS
from audit.listing import results
from audit.queries import query, rows

Row = dict[str, Any]
CSV_ROWS: Final = MOST_ROWS
LARGE: Final[dict[str, tuple[str, ...]]] = {
    "spilled": ("at", "node", "peer", "kind", "destination", "op", "origin", "cause"),
    "consumer_events": ("at", "cause", "op", "node", "kind", "destination"),
    "consumers": ("node", "kind", "destination"),
    "volume": ("hour", "node", "peer", "direction", "kind", "op", "restored"),
    "judged": ("node", "origin", "kind", "direction", "rooted"),
}
"""Tables that may have as many rows as the log, with the order of their rows."""


class Output:
    """Writes below one folder. `tables`: what was written so far, its first rows, as dictionaries; what was
    not written has none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tables: defaultdict[str, list[Row]] = defaultdict(list)
        try:
            (folder / "csv").mkdir(parents=True, exist_ok=True)
            results(folder / "tables")
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written to: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"<Output {self.folder} tables={len(self.tables)}>"

    def write(self, name: str, table: Table) -> Table:
        """Write a table in both forms; returns it in its order."""
        if name in LARGE:
            table = query(_ORDERED.replace("KEYS", ", ".join(f'"{key}"' for key in LARGE[name])), found=table)
        path = self.folder / "tables" / name
        path.mkdir(parents=True, exist_ok=True)
        for old in path.iterdir():
            old.unlink()
        parquet.write_table(table, path / "part-00000.parquet")
        self.tables[name] = rows(table.slice(0, CSV_ROWS + 1))
        write_csv(self.folder / "csv" / f"{name}.csv", table.column_names, self.tables[name])
        return table


_ORDERED: Final = "select * from found order by KEYS"


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
