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


async def test_an_interrupted_run_waits_for_what_is_on_its_way(tmp_path: Path) -> None:
    """Ctrl-C ends the faults, and the verdict counts nothing as lost that was confirmed a moment before."""
    journal = tmp_path / "journals" / "killer.journal"

    def has_begun() -> bool:
        return journal.exists() and journal.read_text().count("down ") >= 3

    faults = ["--rounds", "1000", "--calm", "1000", "--pause", "1", "--longest", "5", "--rate", "100"]
    found = await expect_nothing_wrong(tmp_path, TRIALS[:4], "--no-brokers", *faults, until=has_begun)
    assert 3 <= found["faults"] < 100
