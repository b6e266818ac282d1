"""The benchmark of a thousand leaves works with three of them, and counts. Nothing here is timed."""

import json
from pathlib import Path

import pytest

from benchmarks import thousand


@pytest.mark.network
def test_three_leaves_go_through_all_phases(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said: list[str] = []
    options = ["--leaves", "3", "--interests", "2", "--processes", "1", "--directory", str(tmp_path)]
    assert thousand.main([*options, "--json", str(result)], say=said.append) == 0, said
    found = json.loads(result.read_text())
    assert (found["orders-advisories"], found["orders-spilled"]) == (2, 0)
    assert (found["probe-advisories"], found["branch_resync_advisories"]) == (2, 0)
    assert found["leaf_kib"] > 0 < found["root_replaced_s"]
    assert list(tmp_path.iterdir()) == [result]
