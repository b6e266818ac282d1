"""The benchmark of calls works, at the smallest sizes. Nothing here is timed."""

from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import calls, tables


@pytest.mark.network
def test_a_small_run_measures_both_ways(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said: list[str] = []
    options = ["--calls", "20", "--together", "2", "--rounds", "2", "--json", str(result)]
    assert calls.main(options, say=said.append) == 0
    rows = found_and_shown(result, tables.calls)["rows"]
    assert [row["way"] for row in rows] == ["plain", "generated"] * 2
    assert all(row["cpu_us"] > 0 and row["us"] > 0 for row in rows)
    assert said[-1].startswith("a generated call costs ")
