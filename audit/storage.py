"""Where a history keeps its tables: files of Parquet in dated folders, or Delta tables (`delta`).

    ROOT/tables/TABLE/tree=…/day=…/RUN.parquet    of a run, with `run` and `version`
    ROOT/tables/counts/tree=…/day=…/STREAM.parquet    of a follower, with `run` and `batch`
    ROOT/runs/tree=…/day=…/RUN.parquet            that the run is whole

Law: a file is there whole, or not at all. Law: a batch of a follower that comes again leaves what it left the
first time: its day's file is written anew, with the batches before it. So there is one file a day, and
nothing to compact. Caller's duty: one follower a stream.
"""

import os
import secrets
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pyarrow as arrow
import pyarrow.compute as pc
from pyarrow import Table, fs, parquet

from audit.listing import RESULTS
from audit.places import opened
from audit.views import COUNTS, DIALECTS, RUNS, views


class Storage(Protocol):
    """The port of a history. Each method raises `OSError` where the place cannot be read or written."""

    root: str

    def runs(self, tree: str, day: date) -> list[str]:
        """The runs of this day that are whole, the oldest first. `tree`: '' = of any."""

    def put(self, name: str, tree: str, day: date, run: str, table: Table) -> None:
        """Add a table of a run."""

    def count(self, tree: str, stream: str, batch: int, days: Mapping[date, Table]) -> None:
        """Add a batch of a follower, by days, once: when it comes again, nothing changes."""

    def remove(self, tree: str, day: date, runs: list[str]) -> None:
        """Take runs away that another has replaced: first from `runs`, then their tables."""

    def finish(self) -> None:
        """Write the views of all tables that are there, and put small files together."""


class Place:
    """A folder wherever pyarrow reaches: names below it, and whole files."""

    def __init__(self, root: str) -> None:
        self.system, self.root = opened(root)

    def __repr__(self) -> str:
        return f"<Place {self.url()}>"

    def url(self, dialect: str = "") -> str:
        """As other tools spell it; Spark has a name of its own for S3."""
        if isinstance(self.system, fs.LocalFileSystem):
            return self.root
        scheme = "s3a" if (self.system.type_name, dialect) == ("s3", "spark") else self.system.type_name
        return f"{scheme}://{self.root}"

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if it is not there."""
        found = self.system.get_file_info(fs.FileSelector(f"{self.root}/{folder}", allow_not_found=True))
        return sorted(file.base_name for file in found)

    def tables(self) -> list[str]:
        """The names of tables. Files beside them, and names that begin with a dot, are somebody else's."""
        found = self.system.get_file_info(fs.FileSelector(f"{self.root}/tables", allow_not_found=True))
        folders = (file.base_name for file in found if file.type == fs.FileType.Directory)
        return sorted(name for name in folders if not name.startswith("."))

    def below(self, folder: str) -> list[str]:
        """The paths of all files below a folder."""
        all_of = fs.FileSelector(f"{self.root}/{folder}", recursive=True, allow_not_found=True)
        return [str(file.path) for file in self.system.get_file_info(all_of) if file.is_file]

    def form(self) -> str:
        """'parquet' or 'delta'; '' if there is nothing yet. Wrinkle: a Delta table that another writer begins
        in this moment has files before it has a log; so all are looked at."""
        inside = [self.names(folder) for folder in (RUNS, *(f"tables/{name}" for name in self.tables()))]
        if any("_delta_log" in names for names in inside):
            return "delta"
        return "parquet" if any(inside) else ""

    def put(self, name: str, data: bytes) -> None:
        """Write a file that is there whole, or not at all: an object store does so by itself. Several may
        write the same one at once, as they do the views."""
        path = f"{self.root}/{name}"
        if not isinstance(self.system, fs.LocalFileSystem):
            with self.system.open_output_stream(path) as file:
                file.write(data)
            return
        part = Path(path).with_name(f".{Path(path).name}.{secrets.token_hex(4)}.part")
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def put_views(self, form: str) -> None:
        """Write the statements that make a view of each table that is there; and that it is none of logs."""
        self.put(RESULTS, b"")
        names = [RUNS] if self.names(RUNS) else []
        names += self.tables()
        for dialect in DIALECTS:
            text = views(names, self.url(dialect), dialect, form)
            self.put(f"views.{dialect}.sql", text.encode())


class ParquetFiles:
    """Files of Parquet: see the module."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.root = place.root

    def __repr__(self) -> str:
        return f"<ParquetFiles {self.root}>"

    def runs(self, tree: str, day: date) -> list[str]:
        of = f"/{_folder(tree, day)}/" if tree else f"/day={day}/"
        found = self._place.below(RUNS)
        return sorted(Path(path).stem for path in found if of in path and path.endswith(".parquet"))

    def put(self, name: str, tree: str, day: date, run: str, table: Table) -> None:
        sink = arrow.BufferOutputStream()
        parquet.write_table(table, sink)
        self._place.put(_file(name, tree, day, run), sink.getvalue().to_pybytes())

    def count(self, tree: str, stream: str, batch: int, days: Mapping[date, Table]) -> None:
        for day, table in days.items():
            path = f"{self.root}/{_file(COUNTS, tree, day, stream)}"
            if self._place.system.get_file_info(path).type != fs.FileType.NotFound:
                with self._place.system.open_input_file(path) as file:
                    there = parquet.read_table(file)
                before = there.filter(pc.less(there["batch"], batch))
                table = arrow.concat_tables([before, table], promote_options="permissive")
            self.put(COUNTS, tree, day, stream, table)

    def remove(self, tree: str, day: date, runs: list[str]) -> None:
        names = [RUNS, *(name for name in self._place.tables() if name != COUNTS)]
        for run in runs:
            for name in names:
                path = f"{self.root}/{_file(name, tree, day, run)}"
                if self._place.system.get_file_info(path).type != fs.FileType.NotFound:
                    self._place.system.delete_file(path)

    def finish(self) -> None:
        self._place.put_views("parquet")


def _file(name: str, tree: str, day: date, run: str) -> str:
    return f"{folder_of(name)}/{_folder(tree, day)}/{run}.parquet"


def folder_of(name: str) -> str:
    """Where a table lies below the root."""
    return name if name == RUNS else f"tables/{name}"


def _folder(tree: str, day: date) -> str:
    return f"tree={quote(tree, safe='')}/day={day}"
