"""The benchmark of the switch works, at the smallest sizes. Nothing here is timed."""

import json
from pathlib import Path

import pytest

from benchmarks import switch


@pytest.mark.network
def test_a_small_run_measures_every_way(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    options = ["--messages", "40", "--clients", "2", "--others", "3", "--wakes", "5", "--rounds", "1"]
    said: list[str] = []
    assert switch.main([*options, "--json", str(result), "--directory", str(tmp_path)], say=said.append) == 0
    rows = json.loads(result.read_text())["rows"]
    assert {row["way"] for row in rows} == {"http", "general", "pipelined", "stream", "flood", "wake"}
    assert all(row["rate"] > 0 for row in rows)
    shares = [row["shares"] for row in rows if "shares" in row]
    assert shares
    assert all(0.98 <= sum(share.values()) <= 1.02 for share in shares)
    assert sum(line.startswith("waking one beside") for line in said) == 2
    assert list(tmp_path.iterdir()) == [result]


def test_the_best_of_each_is_compared() -> None:
    rows = [
        {"way": "wake", "where": where, "others": others, "node_cpu_us": cost}
        for where, others, cost in (
            ("", 0, 100.0),
            ("", 0, 80.0),
            ("other queues", 9, 90.0),
            ("other queues", 9, 88.0),
        )
    ]
    (text,) = switch.ratios(rows)
    assert "1.10 times" in text


def test_a_run_too_short_to_measure_says_so_instead_of_a_ratio() -> None:
    rows = [
        {"way": "wake", "where": where, "others": 0, "node_cpu_us": cost}
        for where, cost in (("", -0.4), ("other queues", 90.0))
    ]
    (text,) = switch.ratios(rows)
    assert text.endswith("too few wakes to tell from an idle node")
