"""The benchmark of requests works, at the smallest size. Nothing here is held against a limit."""

import json
from pathlib import Path

from shown_tables import found_and_shown

from benchmarks import requests, tables


def test_each_form_is_answered_and_measured_beside_calls(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said: list[str] = []
    arguments = ["--requests", "3", "--json", str(result), "--directory", str(tmp_path)]
    assert requests.main(arguments, say=said.append) == 0
    rows = found_and_shown(result, tables.requests)["rows"]
    assert [row["form"] for row in rows] == list(requests.FORMS)
    assert [json.loads(line) for line in said] == rows
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in rows)
    assert all(0 < row["tree_p50_ms"] <= row["tree_p99_ms"] and row["p99_times"] > 0 for row in rows)
    assert list(tmp_path.iterdir()) == [result]
