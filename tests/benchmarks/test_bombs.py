"""The benchmark of bombs works with one kind, at the smallest size. Nothing here is timed."""

import json
from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import bombs, tables


@pytest.mark.network
def test_a_sibling_is_measured_without_and_beside_a_bomber(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said: list[str] = []
    options = ["--kinds", "zeros", "--seconds", "0.5", "--rate", "20", "--json", str(result)]
    assert bombs.main(options, say=said.append) == 0
    _, quiet, bombed = map(json.loads, said)
    assert (quiet["kind"], quiet["mib_per_s"], quiet["links_lost"]) == ("none", 0, [])
    assert (bombed["kind"], bombed["mib_per_s"] > 0) == ("zeros", True)
    assert found_and_shown(result, tables.bombs)["rows"] == [quiet, bombed]
    assert all(0 < row["p50_ms"] <= row["p99_ms"] <= row["worst_ms"] for row in (quiet, bombed))
