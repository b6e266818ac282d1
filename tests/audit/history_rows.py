"""Asks a history through its views, of either form."""

import re
from pathlib import Path
from typing import Any

import duckdb
from deltalake import DeltaTable

TABLE = re.compile(r"delta_scan\('((?:[^']|'')*)'\)")


def kept_rows(root: Path, text: str) -> list[tuple[Any, ...]]:
    """DuckDB loads its `delta_scan` from elsewhere; here the library reads in its place."""
    with duckdb.connect() as connection:

        def read(found: re.Match[str]) -> str:
            place = found[1].replace("''", "'")
            name = f"delta_{Path(place).name}"
            connection.register(name, DeltaTable(place).to_pyarrow_table())
            return name

        views = TABLE.sub(read, (root / "views.duckdb.sql").read_text())
        connection.execute(views.replace("create or replace view", "create or replace temporary view"))
        return connection.sql(text).fetchall()
