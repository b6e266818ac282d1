"""Queries over tables that lie in this process: DuckDB reads Arrow tables where they are.

Law: Spark goes over the log; all that is small beside it is one query here, and there is no second version of
it. `at` is a word of DuckDB's own, and stands in quotes.

Queries may run at the same time; each has a connection to itself, in which its tables have their names.

Wrinkle: a sum of whole numbers has 128 bits there. It comes back with 64, as every count here has.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as arrow
from pyarrow import Table

_SETTINGS: Final = (
    "SET TimeZone = 'UTC'",
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
)
"""The order of nulls is Spark's."""
_AGAIN_S: Final = 0.05
"""Seconds between two words to a query that it shall end: one that has not begun does not hear the first."""
_WIDE: Final = arrow.decimal128(38, 0)


_free: Final[list[duckdb.DuckDBPyConnection]] = []
"""Connections that no query has now; there are as many as queries have ever run at the same time."""


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """One in which no other query has tables."""
    try:
        connection = _free.pop()
    except IndexError:
        connection = duckdb.connect()
        for setting in _SETTINGS:
            connection.execute(setting)
    try:
        yield connection
    finally:
        _free.append(connection)


def query(text: str, /, **given: Any) -> Table:
    """Run a query. `given`: tables by the name that the text has for them; all else are its `$parameters`."""
    tables = {name: value for name, value in given.items() if isinstance(value, Table)}
    values = {name: value for name, value in given.items() if name not in tables}
    with _connection() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        try:
            found = _heard(connection, lambda: connection.sql(text, params=values).to_arrow_table())
        finally:
            for name in tables:
                connection.unregister(name)
    fields = [field.with_type(arrow.int64()) if field.type == _WIDE else field for field in found.schema]
    return found.cast(arrow.schema(fields))


def _heard(connection: duckdb.DuckDBPyConnection, work: Callable[[], Table]) -> Table:
    """Do work of a connection so that Ctrl-C ends it.

    Wrinkle: Python hears of an interrupt in its first thread alone, and DuckDB, which waits there for its own
    threads, now and then only when the query has ended. So that thread waits for another one.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    found: Future[Table] = Future()
    thread = threading.Thread(target=_settle, args=(found, work), name="query")
    try:
        thread.start()
        return found.result()
    except KeyboardInterrupt:
        while thread.is_alive():
            connection.interrupt()
            thread.join(_AGAIN_S)
        raise


def _settle(found: "Future[Table]", work: Callable[[], Table]) -> None:
    try:
        found.set_result(work())
    except Exception as error:
        found.set_exception(error)


def quoted(text: str) -> str:
    """As a query spells it."""
    return "'" + text.replace("'", "''") + "'"


def rows(table: Table) -> list[dict[str, Any]]:
    """A small table as dictionaries; times are in UTC."""
    return table.to_pylist()  # type: ignore[no-any-return]


def value(table: Table) -> Any:
    """The one value of a table of one row and column."""
    return table.column(0)[0].as_py()
