"""The audits of day after day, as dated tables that other tools read.

    ROOT/tables/TABLE/tree=…/day=…/RUN.parquet    the tables of an audit, with `run` and `version`
    ROOT/runs/tree=…/day=…/RUN.parquet            that the run is whole: written last
    ROOT/views.duckdb.sql, ROOT/views.spark.sql   a view for each table: of each day the last whole run

Law: a day is added once; to audit it anew is another run, which replaces the old one. A run that was broken
off is in no view, since `runs` does not have it. ROOT is a folder, or whatever pyarrow has a file system
for: `s3://` (also as `s3a://`), `gs://`, `abfs://`, `hdfs://`; no jar is needed.
"""

import os
import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as arrow
from pyarrow import Table, fs, parquet

from audit.errors import AuditError, UsageError
from audit.listing import RESULTS

_DUCKDB: Final = "duckdb"
_SPARK: Final = "spark"
_UNITED: Final = "hive_partitioning = true, union_by_name = true"
_LEFT_OUT: Final = ("trees",)
"""Tables of other trees than the one whose history it is."""
_COUNTS: Final = ("nodes", "files", "rows", "advisories", "bytes")


class Day:
    """One day of one tree in a history. `done`: its whole runs, the oldest first. `tree`: '' = whichever has
    this day. Raises `UsageError` for a place that cannot be reached."""

    def __init__(self, root: str, day: date, tree: str = "") -> None:
        self.day = day
        self._tree = tree
        try:
            place = root.replace("s3a://", "s3://", 1)
            uri = place if "://" in place else Path(place).absolute().as_uri()
            self._system, self._root = _opened(uri)
            self.done = self._runs(tree)
        except (OSError, ValueError) as error:
            raise UsageError(f"--history {root}: cannot be reached: {error}") from None

    def __repr__(self) -> str:
        return f"<Day {self.day} of {self._root} runs={len(self.done)}>"

    def _runs(self, tree: str) -> list[str]:
        """The runs that are whole, of this day."""
        runs = fs.FileSelector(f"{self._root}/runs", recursive=True, allow_not_found=True)
        of = f"/{_folder(tree, self.day)}/" if tree else f"/day={self.day}/"
        found = (file.path for file in self._system.get_file_info(runs) if file.is_file)
        return sorted(Path(path).stem for path in found if of in path and path.endswith(".parquet"))

    def append(self, tables: Path, summary: Mapping[str, Any]) -> str:
        """Add the tables that an audit wrote (`tables`, a folder of each), and return the run's name. Raises
        `AuditError` if it cannot be written; then no view has anything of it."""
        tree = self._tree or summary["tree"] or "unnamed"
        run = f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(3)}"
        marks = {"run": run, "version": _version()}
        row = marks | {name: summary[name] for name in _COUNTS} | summary["verdicts"]
        row |= {"whole": summary["judged"]["whole"], "audited_at": datetime.now(UTC)}
        try:
            old = self._runs(tree)
            self._put(RESULTS, b"")
            names = sorted(path.name for path in tables.iterdir() if path.is_dir())
            names = [name for name in names if name not in _LEFT_OUT]
            for name in names:
                table = parquet.read_table(tables / name / "part-00000.parquet")
                self._put_table(f"tables/{name}", tree, run, _marked(table, marks))
            self._put_table("runs", tree, run, Table.from_pylist([row]))
            for dialect in (_DUCKDB, _SPARK):
                self._put(f"views.{dialect}.sql", views(names, self._root_of(dialect), dialect).encode())
            self._remove(tree, old, names)
        except OSError as error:
            raise AuditError(f"{self._root}: cannot be written to: {error}") from error
        self.done = [run]
        return run

    def _root_of(self, dialect: str) -> str:
        scheme = "" if isinstance(self._system, fs.LocalFileSystem) else f"{self._system.type_name}://"
        return f"s3a://{self._root}" if (scheme, dialect) == ("s3://", _SPARK) else f"{scheme}{self._root}"

    def _put_table(self, place: str, tree: str, run: str, table: Table) -> None:
        sink = arrow.BufferOutputStream()
        parquet.write_table(table, sink)
        self._put(f"{place}/{_folder(tree, self.day)}/{run}.parquet", sink.getvalue().to_pybytes())

    def _put(self, name: str, data: bytes) -> None:
        """Write a file that is there whole, or not at all: an object store does so by itself."""
        path = f"{self._root}/{name}"
        if not isinstance(self._system, fs.LocalFileSystem):
            with self._system.open_output_stream(path) as file:
                file.write(data)
            return
        part = Path(path).with_name(f".{Path(path).name}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)

    def _remove(self, tree: str, runs: list[str], names: list[str]) -> None:
        """Take runs away that another has replaced: first from `runs`, then their tables."""
        for run in runs:
            for place in ("runs", *(f"tables/{name}" for name in names)):
                path = f"{self._root}/{place}/{_folder(tree, self.day)}/{run}.parquet"
                if self._system.get_file_info(path).type != fs.FileType.NotFound:
                    self._system.delete_file(path)


def _opened(uri: str) -> tuple[fs.FileSystem, str]:
    system, root = fs.FileSystem.from_uri(uri)
    return system, str(root).rstrip("/")


def _folder(tree: str, day: date) -> str:
    return f"tree={quote(tree, safe='')}/day={day}"


def _marked(table: Table, marks: Mapping[str, str]) -> Table:
    for name, value in marks.items():
        table = table.append_column(name, arrow.repeat(value, len(table)))
    return table


def _version() -> str:
    try:
        return version("sapwood-node")
    except PackageNotFoundError:  # one file on a cluster
        return "unknown"


_RUNS: Final = (
    "create or replace {kind}view sapwood_{name} as select * from {source}"
    " where run in (select max(run) from {source} group by tree, day);"
)
_TABLE: Final = (
    "create or replace {kind}view sapwood_{name} as select * from {source}"
    " where run in (select run from sapwood_runs);"
)


def views(names: list[str], root: str, dialect: str) -> str:
    """Statements that make a view of each table, `sapwood_TABLE`, and `sapwood_runs`."""
    clean = root.replace("'", "''")
    made = ["-- Made anew with each day that is added."]
    for name in ("runs", *names):
        folder = "runs" if name == "runs" else f"tables/{name}"
        if dialect == _DUCKDB:
            source = f"read_parquet('{clean}/{folder}/*/*/*.parquet', {_UNITED})"
        else:
            source = f"sapwood_all_{name}"
            made.append(
                f"create or replace temporary view {source} using parquet"
                f" options (path '{clean}/{folder}', mergeSchema 'true');"
            )
        kind = "" if dialect == _DUCKDB else "temporary "
        text = _RUNS if name == "runs" else _TABLE
        made.append(text.format(kind=kind, name=name, source=source))
    return "\n".join(made) + "\n"
