"""A database of the version before is opened, with every row that was in it."""

import json
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest

from broker.store import Store

VERSIONS = sorted(file.parent for file in Path(__file__).parent.glob("*/tree.zip"))
OF_A_START = "meta"


def rows(database: Path, table: str, columns: list[str]) -> list[list[Any]]:
    """The columns that there were then: a migration may add others."""
    connection = sqlite3.connect(database)
    chosen = ", ".join(f'"{column}"' for column in columns)
    found = connection.execute(f'SELECT {chosen} FROM "{table}"').fetchall()
    connection.close()
    return sorted(
        ([value.hex() if isinstance(value, bytes) else value for value in row] for row in found), key=repr
    )


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("name", ["hq", "north", "york"])
def test_no_row_is_lost_or_changed_by_opening_it(folder: Path, name: str, tmp_path: Path) -> None:
    zipfile.ZipFile(folder / "tree.zip").extractall(tmp_path)
    then = json.loads((folder / "tree.json").read_text())["rows"][name]
    store = Store.open(tmp_path / name, tree="test", node=name)
    store.close()
    database = tmp_path / name / "node.db"
    for table, said in then.items():
        if table != OF_A_START:
            assert rows(database, table, said["columns"]) == said["rows"], table
    meta = dict(rows(database, OF_A_START, then[OF_A_START]["columns"]))
    kept = {key: value for key, value in then[OF_A_START]["rows"] if not key.startswith("store.")}
    assert kept.items() <= meta.items()


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_every_table_of_that_version_had_rows(folder: Path) -> None:
    """The fixture covers all tables: else the test above could pass on an empty one."""
    sites = json.loads((folder / "tree.json").read_text())["rows"].values()
    empty = [table for table in next(iter(sites)) if not any(site[table]["rows"] for site in sites)]
    assert empty == []
