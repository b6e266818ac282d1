"""Tasks of Spark that read Parquet by themselves, with DuckDB, where it lies on this machine.

Spark's own reader gives rows, of which compiled Java makes sums: of a few million rows most of the CPU goes
into compiling. DuckDB makes the same sums of columns, by the same text (`sums`), for less than half.

Law: only what is as it should be is read so: files of the log's own types, in a session of this machine, and
so large that a Python for each core is worth its start. All else, and whatever goes wrong, is Spark's.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as arrow
from pyarrow import Table
from pyarrow.parquet import read_schema
from pyspark.sql.types import LongType, StructField, StructType

from audit.clocks import clock
from audit.listing import LogFile, partitions
from audit.queries import quoted
from audit.schema import CHECKED, EVENTS, LOG, arrow_schema, checked
from audit.sums import MACROS, Sums

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LEAST: Final = 4 * 1024 * 1024
A_FILE: Final = 64 * 1024
"""Bytes of a log, and of its files on average, from which it is read so: each file is a query."""
A_CORE: Final = 2
"""Tasks a core: the last one is not waited for so long."""
SOURCE: Final = "source"
_OF_ROWS: Final = set(LOG.names) - {"tree", "region"}
"""Columns that no path may tell of."""
_SPECIAL: Final = set("%*?[]{}\\")
"""In a path these stand for others, to one of the two at least."""
_NOBODY: Final = "__HIVE_DEFAULT_PARTITION__"
_ROWS: Final = StructType([*EVENTS.fields, StructField(SOURCE, LongType())])


class _File(NamedTuple):
    """`number`: what stands for it in sums. `written`: when it was, in microseconds. `columns`: what is read
    of it, in the order of `LOG`."""

    path: str
    bytes: int
    number: int
    written: int
    columns: tuple[str, ...]


class Direct(NamedTuple):
    """The files of a log, by task."""

    spark: "SparkSession"
    tasks: tuple[tuple[_File, ...], ...]

    def by_file(self, sums: Sums) -> "DataFrame":
        """`sums` of each file, `source` being its place in the listing; clocks are compared with the file."""
        views = [[_view([file], _clock(file), _CHECKED) for file in task] for task in self.tasks]
        return self._frame(sums, views)

    def parts(self, sums: Sums, nodes: Table | None = None) -> "DataFrame":
        """`sums` of each task's files, whose clocks are right; of some nodes, or of all."""
        few = "" if nodes is None else f" where node in ({', '.join(map(quoted, _names(nodes)))})"
        views = []
        for task in self.tasks:
            alike: dict[tuple[str, ...], list[_File]] = {}
            for file in filter(_still_there, task):
                alike.setdefault(file.columns, []).append(file)
            views.append([_view(files, "null::varchar") + few for files in alike.values()])
        return self._frame(sums, views)

    def _frame(self, sums: Sums, views: Sequence[Sequence[str]]) -> "DataFrame":
        schema = sums.by_spark(self.spark.createDataFrame([], _ROWS)).schema
        cores = self.spark.sparkContext.defaultParallelism
        work = _task(views, sums.text(), arrow_schema(schema), max(1, cores // len(views)))
        return self.spark.range(0, len(views), 1, len(views)).mapInArrow(work, schema)


def direct(spark: "SparkSession", listing: Sequence[LogFile]) -> Direct | None:
    """The files, if all are to be read so."""
    size, master = sum(file.bytes for file in listing), str(spark.sparkContext.master)
    if size < max(LEAST, A_FILE * len(listing)) or master.partition("[")[0] != "local":
        return None
    files = [_found(file, number) for number, file in enumerate(listing)]
    cores = spark.sparkContext.defaultParallelism
    tasks: list[list[_File]] = [[] for _ in range(min(len(files), A_CORE * cores))]
    for file in sorted(filter(None, files), key=lambda file: -file.bytes):
        min(tasks, key=lambda task: sum(one.bytes for one in task)).append(file)
    return Direct(spark, tuple(map(tuple, tasks))) if all(files) else None


def _found(file: LogFile, number: int) -> _File | None:
    """None where Spark might read it otherwise, or not at all."""
    path, names = file.path.removeprefix("file://"), partitions(file.path)[1:]
    if not file.path.startswith("file:///") or set(path) & _SPECIAL or set(names) & _OF_ROWS:
        return None
    try:
        fields = read_schema(path)
        written = os.stat(path).st_mtime_ns // 1_000_000 * 1000  # Spark knows milliseconds
    except (arrow.ArrowException, OSError):
        return None
    there = {field.name: field.type for field in fields}
    if len({name.lower() for name in there}) < len(fields) or _spelt_otherwise(there):
        return None
    told = dict(folder.split("=", 1) for folder in path.split("/")[:-1][-len(names) :]) if names else {}
    columns = []
    for field in arrow_schema(LOG):
        name = _name(field.name)
        if field.name in there and (field.name in told or there[field.name] != field.type):
            return None
        value = told.get(field.name, _NOBODY)
        given = f"{'null' if value == _NOBODY else quoted(value)}::{_SQL[str(field.type)]} as {name}"
        columns.append(name if field.name in there else given)
    return _File(path, file.bytes, number, written, tuple(columns))


def _spelt_otherwise(names: Collection[str]) -> bool:
    """Spark takes columns whatever their case is."""
    return any(name.lower() in LOG.names and name not in LOG.names for name in names)


_SQL: Final = {
    "string": "varchar",
    "timestamp[us, tz=UTC]": "timestamptz",
    "int32": "integer",
    "int64": "bigint",
}


def _clock(file: _File) -> str:
    return clock(time="log.at", written=str(file.written))


_CHECKED: Final = f"* replace ({', '.join(f'{checked(name)} as {name}' for name in CHECKED)})"


def _view(files: Sequence[_File], clocked: str, all_columns: str = "*") -> str:
    columns = ", ".join(files[0].columns)
    paths = ", ".join(quoted(file.path) for file in files)
    found = f"read_parquet([{paths}], hive_partitioning = false)"
    source = f"{clocked} as clock, {files[0].number}::bigint as {SOURCE}"
    return f"select {all_columns}, {source} from (select {columns} from {found}) as log"  # noqa: S608


def _still_there(file: _File) -> bool:
    """Was it not rotated away? Spark reads no such file either."""
    return os.path.exists(file.path)


def _task(
    views: Sequence[Sequence[str]], text: str, schema: arrow.Schema, threads: int
) -> Callable[[Iterator[arrow.RecordBatch]], Iterator[arrow.RecordBatch]]:
    """Wrinkle: all that it needs goes with it; a task that looked for this module might not find it."""
    macros = MACROS

    def work(numbers: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        import tempfile

        import duckdb

        with (
            tempfile.TemporaryDirectory(prefix="sapwood-audit-") as overflow,
            duckdb.connect(config={"threads": threads, "temp_directory": overflow}) as connection,
        ):
            for macro in macros:
                connection.execute(macro)
            for number in (one for batch in numbers for one in batch.column(0).to_pylist()):
                for view in views[number]:
                    connection.execute(f"create or replace temp view log as {view}")
                    yield from connection.sql(text).to_arrow_table().cast(schema).to_batches()

    return work


def _names(nodes: Table) -> list[Any]:
    return nodes.column("node").to_pylist()  # type: ignore[no-any-return]


def _name(column: str) -> str:
    return f'"{column}"'
