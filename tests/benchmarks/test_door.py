"""The benchmark of the MQTT door works, at the smallest size. Nothing here is timed."""

import json

import pytest

from benchmarks import door


@pytest.mark.network
def test_each_system_gets_all_messages_through() -> None:
    said: list[str] = []
    assert door.main(["--messages", "60", "--pairs", "1"], say=said.append) == 0
    _, *rows, ratios = map(json.loads, said)
    assert [row["system"] for row in rows] == ["door", "mosquitto", "mosquitto-saving"]
    assert all((row["lost"], row["duplicated"]) == (0, 0) and row["rate"] > 0 for row in rows)
    assert ratios["door of door"] == 1
