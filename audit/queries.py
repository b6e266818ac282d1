"""Queries over tables that lie in this process: DuckDB reads Arrow tables where they are.

Law: Spark goes over the log; all that is small beside it is one query here, and there is no second version of
it. `at` is a word of DuckDB's own, and stands in quotes.

Each thread has a connection of its own, in which tables have their names.

Wrinkle: a sum of whole numbers has 128 bits there. It comes back with 64, as every count here has.
"""

import threading
from typing import Any, Final

import duckdb
import pyarrow as arrow
from pyarrow import Table

_SETTINGS: Final = (
    "SET TimeZone = 'UTC'",
    "SET default_null_order = 'nulls_first_on_asc_last_on_desc'",
)
"""The order of nulls is Spark's."""
_WIDE: Final = arrow.decimal128(38, 0)


_here: Final = threading.local()


def _connection() -> duckdb.DuckDBPyConnection:
    if not hasattr(_here, "connection"):
        connection = duckdb.connect()
        for setting in _SETTINGS:
            connection.execute(setting)
        _here.connection = connection
    return _here.connection  # type: ignore[no-any-return]


def query(text: str, /, **given: Any) -> Table:
    """Run a query. `given`: tables by the name that the text has for them; all else are its `$parameters`."""
    connection = _connection()
    tables = {name: value for name, value in given.items() if isinstance(value, Table)}
    values = {name: value for name, value in given.items() if name not in tables}
    for name, table in tables.items():
        connection.register(name, table)
    try:
        found = connection.sql(text, params=values).to_arrow_table()
    finally:
        for name in tables:
            connection.unregister(name)
    fields = [field.with_type(arrow.int64()) if field.type == _WIDE else field for field in found.schema]
    return found.cast(arrow.schema(fields))


def rows(table: Table) -> list[dict[str, Any]]:
    """A small table as dictionaries; times are in UTC."""
    return table.to_pylist()  # type: ignore[no-any-return]


def value(table: Table) -> Any:
    """The one value of a table of one row and column."""
    return table.column(0)[0].as_py()
