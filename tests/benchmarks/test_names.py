"""The benchmark of names works, at the smallest sizes, and counts. Nothing here is timed."""

import json
from pathlib import Path

import pytest

from benchmarks import names


def test_it_measures_look_ups_and_joins(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "found.json"
    arguments = ["--nodes", "250", "--small", "120", "--joins", "3", "--rounds", "1", "--json", str(file)]
    assert names.main(arguments, said.append) == 0
    found = json.loads(file.read_text())
    assert found["look_ups"][0]["what"] == "dict, by name"
    assert [chain["stores"] for chain in found["joining"]] == [120, 250]
    for chain in found["joining"]:
        heard = {level: (row["advisories"], row["whereabouts"]) for level, row in chain["levels"].items()}
        assert heard == {"store": (0, 0), "region": (1, 0), "root": (1, 1)}
    assert "times as much" in said[-1]


def test_a_wrong_count_fails() -> None:
    with pytest.raises(SystemExit, match="nodes: 5, expected 4"):
        names._expect(5, 4, "nodes")
