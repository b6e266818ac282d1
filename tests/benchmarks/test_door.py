"""The benchmark of the MQTT door works, at the smallest size. Nothing here is timed."""

import json
from pathlib import Path

import pytest
from shown_tables import found_and_shown

from benchmarks import door, tables


@pytest.mark.network
def test_each_system_gets_all_messages_through(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    said: list[str] = []
    assert door.main(["--messages", "60", "--pairs", "1", "--json", str(result)], say=said.append) == 0
    _, *rows, ratios = map(json.loads, said)
    assert [row["system"] for row in rows] == ["door", "mosquitto", "mosquitto-saving"]
    assert all((row["lost"], row["duplicated"]) == (0, 0) and row["rate"] > 0 for row in rows)
    assert ratios["door of door"] == 1
    assert found_and_shown(result, tables.door)["rows"] == rows
