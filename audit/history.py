"""The audits of day after day, and the counts of followers, as dated tables that other tools read.

Law: a day is added once; to audit it anew is another run, which replaces the old one. A run that was broken
off is in no view, since `runs`, which is written last, does not have it. Law: a follower's batch counts once,
however often it comes. `storage` says where and in what form; the root is a folder, or whatever pyarrow has a
file system for (`places`).
"""

import secrets
from collections.abc import Mapping
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import pyarrow as arrow
import pyarrow.compute as pc
from pyarrow import Table, dataset, parquet

from audit.errors import AuditError, UsageError
from audit.storage import ParquetFiles, Place, Storage
from audit.views import RUNS

_LEFT_OUT: Final = ("trees",)
"""Tables of other trees than the one whose history it is."""
_COUNTED: Final = ("nodes", "files", "rows", "advisories", "bytes")


class Day:
    """One day of one tree in a history. `done`: its whole runs, the oldest first. `tree`: '' = whichever has
    this day. `form`: of `options.FORMATS`. Raises `UsageError` for a place that cannot be reached."""

    def __init__(self, root: str, day: date, tree: str = "", form: str = "") -> None:
        self.day = day
        self._tree = tree
        self._storage = _storage(root, form)
        try:
            self.done = self._storage.runs(tree, day)
        except OSError as error:
            raise UsageError(f"--history {root}: cannot be reached: {error}") from None

    def __repr__(self) -> str:
        return f"<Day {self.day} of {self._storage.root} runs={len(self.done)}>"

    def append(self, tables: Path, summary: Mapping[str, Any]) -> str:
        """Add the tables that an audit wrote (`tables`, a folder of each), and return the run's name. Raises
        `AuditError` if it cannot be written; then no view has anything of it."""
        tree = self._tree or summary["tree"] or "unnamed"
        run = new_name()
        marks = {"run": run, "version": _version()}
        row = marks | {name: summary[name] for name in _COUNTED} | summary["verdicts"]
        row |= {"whole": summary["judged"]["whole"], "audited_at": datetime.now(UTC)}
        kept = self._storage
        try:
            old = kept.runs(tree, self.day)
            for path in sorted(path for path in tables.iterdir() if path.is_dir()):
                if path.name not in _LEFT_OUT:
                    table = parquet.read_table(path / "part-00000.parquet")
                    kept.put(path.name, tree, self.day, run, _marked(table, marks))
            kept.put(RUNS, tree, self.day, run, Table.from_pylist([row]))
            kept.remove(tree, self.day, old)
            kept.finish()
        except OSError as error:
            raise AuditError(f"{kept.root}: cannot be written to: {error}") from error
        self.done = [run]
        return run


class Counts:
    """The counts of a follower in a history. `stream`: its name, for as long as its checkpoints are there.
    Raises `UsageError` for a place that cannot be reached."""

    def __init__(self, root: str, tree: str, stream: str, form: str = "") -> None:
        self._storage = _storage(root, form)
        self._tree = tree
        self._stream = stream
        self._days: set[date] = set()

    def __repr__(self) -> str:
        return f"<Counts {self._stream} of {self._storage.root}>"

    def take(self, batch: int, folder: Path) -> None:
        """Add what Spark wrote of a batch, once. Raises `AuditError` if it cannot be written: then the batch
        comes again."""
        found = dataset.dataset(folder, format="parquet").to_table()
        days = pc.cast(pc.floor_temporal(found["since"], unit="day"), arrow.date32())
        marks = {"run": self._stream, "version": _version()}
        marked = _marked(found.append_column("batch", arrow.repeat(batch, len(found))), marks)
        by_day = {day: marked.filter(pc.equal(days, day)) for day in sorted(pc.unique(days).to_pylist())}
        try:
            self._storage.count(self._tree, self._stream, batch, by_day)
            if by_day.keys() - self._days:
                self._storage.finish()
        except OSError as error:
            raise AuditError(f"{self._storage.root}: cannot be written to: {error}") from error
        self._days |= by_day.keys()


def _storage(root: str, form: str = "") -> Storage:
    """The storage at a place. `form`: of `options.FORMATS`; '' = as it is there, else Parquet. Raises
    `UsageError` for a place that cannot be reached, or has the other form."""
    try:
        place = Place(root)
        there = place.form()
    except (OSError, ValueError) as error:
        raise UsageError(f"--history {root}: cannot be reached: {error}") from None
    if form and there and form != there:
        raise UsageError(f"--history {root}: it is of the form {there}: expected --history-format {there}")
    if (form or there) != "delta":
        return ParquetFiles(place)
    from audit.delta import DeltaTables

    return DeltaTables(place)


def new_name() -> str:
    """A name of a run or a stream: later ones are greater."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}-{secrets.token_hex(3)}"


def _marked(table: Table, marks: Mapping[str, str]) -> Table:
    for name, value in marks.items():
        table = table.append_column(name, arrow.repeat(value, len(table)))
    return table


def _version() -> str:
    try:
        return version("sapwood-node")
    except PackageNotFoundError:  # one file on a cluster
        return "unknown"
