"""Nodes and applications are killed and stopped, and disks and clocks fail, at random and under load: nothing
is lost, nothing comes twice unmarked, nothing comes late.
"""

from pathlib import Path

from nightly import expect_nothing_wrong

TRIALS = [
    "kill",
    "kill",
    "kill-application",
    "stop",
    "stop-application",
    "clock",
    "full-disk",
    "failing-disk",
]


async def test_nothing_is_lost_doubled_or_late(tmp_path: Path) -> None:
    faults = ["--rounds", "18", "--calm", "9", "--pause", "1", "--longest", "15", "--seed", "88"]
    found = await expect_nothing_wrong(tmp_path, TRIALS, "--no-brokers", *faults)
    assert found["confirmed"] > 1000
    assert found["faults"] > 8
