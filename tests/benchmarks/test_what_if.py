"""The benchmark of what-ifs works on a small chain, whose sums it checks. Nothing here is timed."""

import os
from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import tables, what_if


def test_a_small_chain_is_counted_as_arithmetic_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)  # Java's archive of classes costs more than all else
    result = tmp_path / "result.json"
    said: list[str] = []
    options = [
        "--stores",
        "6",
        "--regions",
        "2",
        "--depth",
        "2",
        "--master",
        "local[1]",
        "--json",
        str(result),
    ]
    assert what_if.main(options, say=said.append) == 0
    (row,) = found_and_shown(result, tables.what_if)["sizes"]
    assert row["stores"] == 6
    assert row["tree"] < row["leaf_nodes"]
    assert row["peak_mib"] > 0
    assert "6 stores" in said[0]
