"""Writes tables: Parquet in OUT/tables, one folder a table, and CSV summaries in OUT/csv.

Law: a CSV has at most `CSV_ROWS` rows, and its last line says so if there are more; Parquet has all.

Wrinkle: Spark hands times to Python in the machine's own zone; here they come as microseconds, so that every
table is in UTC wherever it is made.
"""

import csv
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from audit.errors import UsageError
from audit.findings import MOST_ROWS
from audit.listing import results

Row = dict[str, Any]
CSV_ROWS: Final = MOST_ROWS
LARGE: Final[dict[str, tuple[str, ...]]] = {
    "spilled": ("at", "node", "peer", "kind", "destination", "op", "origin", "cause"),
    "consumer_events": ("at", "cause", "op", "node", "kind", "destination"),
    "consumers": ("node", "kind", "destination"),
    "volume": ("hour", "node", "peer", "direction", "kind", "op", "restored"),
    "judged": ("node", "origin", "kind", "direction", "rooted"),
}
"""Tables that may have as many rows as the log, with the order of their summaries. Of a large log Spark
writes them, in as many files as it has them."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def url(path: Path) -> str:
    """A path of this machine as Spark takes it: with its scheme, and not quoted."""
    return f"file://{path.absolute()}"


class Output:
    """Writes below one folder. `tables`: what was written so far, its first rows, as dictionaries; what was
    not written has none. `small`: no table has many rows."""

    def __init__(self, folder: Path, *, small: bool = False) -> None:
        self.folder = folder
        self._small = small
        self.tables: defaultdict[str, list[Row]] = defaultdict(list)
        try:
            (folder / "csv").mkdir(parents=True, exist_ok=True)
            results(folder / "tables")
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written to: {error.strerror or error}") from None

    def __repr__(self) -> str:
        return f"<Output {self.folder} tables={len(self.tables)}>"

    def write(self, name: str, table: DataFrame) -> None:
        """Write a table in both forms."""
        rows = collect(table, CSV_ROWS + 1)
        path = (self.folder / "tables" / name).absolute()
        if len(rows) > CSV_ROWS or find_spec("pyarrow") is None:
            table.write.mode("overwrite").parquet(url(path))
        else:
            _write_arrow(table, rows, path)
        self._summarize(name, table, rows)

    def keep(self, name: str, table: DataFrame) -> DataFrame:
        """Write a table that others are made of, and return it worked out.

        Wrinkle: a large one is read again from where it was written. For a small one that is a detour.
        """
        if self._small or name not in LARGE:
            kept = table.localCheckpoint()
            self.write(name, kept.orderBy(*LARGE[name]) if name in LARGE else kept)
            return kept
        path = url((self.folder / "tables" / name).absolute())
        table.write.mode("overwrite").parquet(path)
        kept = table.sparkSession.read.schema(table.schema).parquet(path)
        self._summarize(name, table, collect(kept.orderBy(*LARGE[name]), CSV_ROWS + 1))
        return kept

    def _summarize(self, name: str, table: DataFrame, rows: list[Row]) -> None:
        self.tables[name] = rows
        write_csv(self.folder / "csv" / f"{name}.csv", table.columns, rows)


def collect(table: DataFrame, most: int) -> list[Row]:
    """The first rows, with times in UTC."""
    times = {field.name for field in table.schema if isinstance(field.dataType, TimestampType)}
    columns = [F.unix_micros(name).alias(name) if name in times else F.col(name) for name in table.columns]
    rows = [row.asDict() for row in table.select(*columns).limit(most).collect()]
    for row in rows:
        for name in times:
            row[name] = None if row[name] is None else _EPOCH + timedelta(microseconds=row[name])
    return rows


def _write_arrow(table: DataFrame, rows: list[Row], path: Path) -> None:
    """The same file that Spark would write, without starting a job for it."""
    import pyarrow as arrow
    from pyarrow import parquet

    types = {
        "string": arrow.string(),
        "int": arrow.int32(),
        "bigint": arrow.int64(),
        "double": arrow.float64(),
        "boolean": arrow.bool_(),
        "timestamp": arrow.timestamp("us", tz="UTC"),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in table.dtypes])
    path.mkdir(parents=True, exist_ok=True)
    for old in path.iterdir():
        old.unlink()
    parquet.write_table(arrow.Table.from_pylist(rows, schema), path / "part-00000.parquet")


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
