"""The benchmark of an idle store works, at its smallest. Nothing here is held against a limit."""

import json
from pathlib import Path

from benchmarks import footprint


def test_each_process_is_measured(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said: list[str] = []
    arguments = ["--rounds", "1", "--idle", "0.2", "--json", str(result), "--directory", str(tmp_path)]
    assert footprint.main(arguments, say=said.append) == 0
    figures = json.loads(result.read_text())["figures"]
    assert set(figures) == {"leaf, Mosquitto", "leaf, no site broker", "mosquitto, bridge", "python, asyncio"}
    assert all(0 < row["private"] <= row["rss"] and row["cpu_s"] > 0 for row in figures.values())
    assert sum(line.startswith("| leaf") for line in said) == 2
    assert list(tmp_path.iterdir()) == [result]
