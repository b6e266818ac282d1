"""A history as Delta tables, written without Spark or a jar by `deltalake` (extra `delta`).

    ROOT/tables/TABLE, ROOT/runs    each a Delta table, partitioned by tree and day

Law: a batch of a follower is one commit, which carries the stream and the batch's number as Delta's own
application transaction; a batch that comes again finds its number there, and adds nothing.

Each batch of a follower is a small file: those of days that are over are put together into one, and files
that no version of the last week needs are deleted.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as arrow
from pyarrow import Table
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from audit.errors import SetUpError
from audit.queries import quoted
from audit.storage import Place, folder_of
from audit.views import COUNTS, RUNS

if TYPE_CHECKING:
    from deltalake import DeltaTable

try:
    import deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
except ImportError:
    raise SetUpError("a history of Delta tables needs: pip install 'sapwood-node[delta]'") from None

SMALL_FILES: Final = 16
"""So many of one day are put together."""
TRIES: Final = 10
"""Of one change, as long as other writers' come between."""
_BY: Final = ["tree", "day"]


class DeltaTables:
    """Delta tables: see the module."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.root = place.root
        endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
        self._options = {"allow_http": "true"} if endpoint.startswith("http://") else {}

    def __repr__(self) -> str:
        return f"<DeltaTables {self.root}>"

    def runs(self, tree: str, day: date) -> list[str]:
        table = self._table(RUNS)
        if table is None:
            return []
        of: list[tuple[str, str, object]] = [("day", "=", day)]
        of += [("tree", "=", tree)] if tree else []
        with _as_os_error():
            found = table.to_pyarrow_table(filters=of, columns=["run"])
        return sorted(set(found["run"].to_pylist()))

    def put(self, name: str, tree: str, day: date, run: str, table: Table) -> None:
        self._append(name, _dated(table, tree, day))

    def count(self, tree: str, stream: str, batch: int, days: Mapping[date, Table]) -> None:
        there = self._table(COUNTS)
        taken = there.transaction_version(stream) if there else None
        if taken is not None and taken >= batch:
            return
        whole = arrow.concat_tables(_dated(table, tree, day) for day, table in days.items())
        self._append(COUNTS, whole, deltalake.Transaction(stream, batch))

    def remove(self, tree: str, day: date, runs: list[str]) -> None:
        names = [RUNS, *(name for name in self._place.tables() if name != COUNTS)]
        listed = ", ".join(quoted(run) for run in runs)
        gone = f"tree = {quoted(tree)} and day = '{day}' and run in ({listed})"
        for name in names if runs else ():
            _anew(partial(self._delete, name, gone))

    def _delete(self, name: str, gone: str) -> None:
        table = self._table(name)
        if table is not None:
            table.delete(gone)

    def finish(self) -> None:
        self._place.put_views("delta")
        for name in (RUNS, *self._place.tables()):
            table = self._table(name)
            if table is not None:
                with _as_os_error(), suppress(CommitFailedError):
                    self._compact(table)

    def _compact(self, table: "DeltaTable") -> None:
        """Put the files of days together of which there are many, and let go of what is older than a week, or
        than the table says. Where another writer has done so meanwhile, there is nothing to do."""
        many = arrow.table(table.get_add_actions(flatten=True)).group_by(["partition.tree", "partition.day"])
        for row in many.aggregate([([], "count_all")]).to_pylist():
            if row["count_all"] >= SMALL_FILES:
                of = [("tree", "=", row["partition.tree"]), ("day", "=", str(row["partition.day"]))]
                table.optimize.compact(partition_filters=of)
        table.vacuum(dry_run=False)

    def _append(self, name: str, table: Table, mark: "deltalake.Transaction | None" = None) -> None:
        def add() -> None:
            there = self._table(name)
            if there:
                _refuse_loss(there, table)
            deltalake.write_deltalake(
                there or self._uri(name),
                table,
                mode="append",
                partition_by=_BY,
                schema_mode="merge",
                storage_options=self._options,
                commit_properties=deltalake.CommitProperties(app_transactions=[mark] if mark else None),
            )

        _anew(add)

    def _table(self, name: str) -> "DeltaTable | None":
        with _as_os_error():
            try:
                return deltalake.DeltaTable(self._uri(name), storage_options=self._options)
            except TableNotFoundError:
                return None

    def _uri(self, name: str) -> str:
        return f"{self._place.url()}/{folder_of(name)}"


@contextmanager
def _as_os_error() -> Iterator[None]:
    """The library's own errors, as those of a place that cannot be written, without their stacks."""
    try:
        yield
    except DeltaError as error:
        raise OSError(str(error).partition("\n")[0]) from error


def _refuse_loss(there: "DeltaTable", table: Table) -> None:
    """Raises `OSError` where a column has another type there, which does not hold what is to be added: the
    library would cut it to fit, 1.5 to 1."""
    for field in arrow.schema(there.schema().to_arrow()):
        try:
            if field.name in table.column_names and not arrow.types.is_null(field.type):
                table[field.name].cast(field.type)
        except arrow.ArrowException as error:
            raise OSError(f"{there.table_uri}: column {field.name} is {field.type} there: {error}") from None


def _anew(change: Callable[[], object]) -> None:
    """Make a change, and anew where another writer's came between: two that begin a table, say."""
    tries = Retrying(
        retry=retry_if_exception_type(CommitFailedError), stop=stop_after_attempt(TRIES), reraise=True
    )
    with _as_os_error():
        tries(change)


def _dated(table: Table, tree: str, day: date) -> Table:
    whole = table.append_column("tree", arrow.repeat(tree, len(table)))
    return whole.append_column("day", arrow.repeat(arrow.scalar(day), len(table)))
