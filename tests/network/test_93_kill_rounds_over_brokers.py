"""Links ride on brokers and sites have brokers of their own, and all of that is killed at random under load,
with the applications that use it: nothing is lost, nothing comes twice unmarked, nothing comes late.
"""

from pathlib import Path

from nightly import expect_nothing_wrong

TRIALS = ["kill", "kill-application", "kill-broker"]


async def test_nothing_is_lost_doubled_or_late_over_brokers(tmp_path: Path) -> None:
    faults = ["--rounds", "12", "--calm", "12", "--pause", "1", "--longest", "10", "--seed", "93"]
    found = await expect_nothing_wrong(tmp_path, TRIALS, *faults)
    assert found["confirmed"] > 1000
    assert found["faults"] > 6
