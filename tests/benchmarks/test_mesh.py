"""The benchmark of three roots under kills and cuts works with two stores. Nothing here is timed."""

import json
from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import mesh, tables


@pytest.mark.network
def test_two_stores_lose_nothing_while_each_root_is_killed(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said: list[str] = []
    options = ["--regions", "2", "--stores", "1", "--rate", "20", "--seconds", "0.5", "--json", str(result)]
    assert mesh.main(options, say=said.append) == 0, said
    found = found_and_shown(result, tables.mesh)
    assert json.loads(said[-1]) == found
    assert (found["nodes"], found["messages"] > 0) == (7, True)
    troubles = ["quiet", *(f"{core} killed" for core in mesh.CORES), "lines of region-0 cut"]
    assert list(found["longest_pause_s"]) == troubles
