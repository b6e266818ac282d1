"""The benchmark of a thousand leaves works with three of them, and counts. Nothing here is timed."""

from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import tables, thousand


@pytest.mark.network
def test_three_leaves_go_through_all_phases(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said: list[str] = []
    options = ["--leaves", "3", "--interests", "2", "--processes", "1", "--directory", str(tmp_path)]
    assert thousand.main([*options, "--json", str(result)], say=said.append) == 0, said
    found = found_and_shown(result, tables.thousand)
    assert (found["orders-advisories"], found["orders-spilled"]) == (2, 0)
    assert (found["probe-advisories"], found["branch_resync_advisories"]) == (2, 0)
    assert found["leaf_kib"] > 0 < found["root_replaced_s"]
    assert list(tmp_path.iterdir()) == [result]
