"""The trail of changes: kept over restarts, bounded, and no obstacle when the disk takes nothing."""

import logging
from pathlib import Path

import pytest

from broker import trail
from broker.entrance.operators import Asker
from broker.trail import ChangeTrail

ANNA = Asker("anna", "operator")
PURGE = "DELETE /api/queues/{name}"


def add(kept: ChangeTrail, *names: str) -> None:
    for name in names:
        kept.add(ANNA, "10.0.0.1:4000", PURGE, {"name": name})


def names(kept: ChangeTrail, before: int = 0) -> list[object]:
    return [each.said["name"] for each in kept.latest(before)]


def test_changes_are_told_the_latest_first_and_numbered_over_restarts(tmp_path: Path) -> None:
    first = ChangeTrail(tmp_path / "trail")
    assert list(first.latest()) == []
    assert not (tmp_path / "trail").exists()
    add(first, "a", "b")
    first.close()
    again = ChangeTrail(tmp_path / "trail")
    add(again, "c")
    assert [(each.seq, each.said["name"]) for each in again.latest()] == [(3, "c"), (2, "b"), (1, "a")]
    assert names(again, before=3) == ["b", "a"]
    latest = next(again.latest())
    assert (latest.who, latest.role, latest.address, latest.operation, latest.result) == (
        "anna", "operator", "10.0.0.1:4000", PURGE, "done",
    )  # fmt: skip
    again.close()


def test_the_oldest_go_when_the_files_are_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "_BYTES", 2000)
    monkeypatch.setattr(trail, "_FILES", 2)
    kept = ChangeTrail(tmp_path / "trail")
    add(kept, *(f"q{number}" for number in range(100)))
    told = names(kept)
    assert told == [f"q{99 - number}" for number in range(len(told))]
    assert 10 < len(told) < 60
    assert sum(each.stat().st_size for each in (tmp_path / "trail").iterdir()) <= 6000
    kept.close()


def test_long_values_are_cut_and_a_line_break_forges_no_line(tmp_path: Path) -> None:
    kept = ChangeTrail(tmp_path / "trail")
    kept.add(ANNA, "", PURGE, {"name": 'x\n{"seq": 9}', "ids": ["y" * 5000], "all": True}, "NO " + "z" * 5000)
    (found,) = kept.latest()
    assert found.said["name"] == 'x\n{"seq": 9}'
    assert len(str(found.said["ids"])) < 1100
    assert found.said["all"] is True
    assert len(found.result) == 1000
    kept.close()


def test_a_torn_last_line_hides_no_other(tmp_path: Path) -> None:
    kept = ChangeTrail(tmp_path / "trail")
    add(kept, "a", "b")
    kept.close()
    file = tmp_path / "trail" / "changes.ndjson"
    file.write_bytes(file.read_bytes() + b'{"seq": 3, "at": 1')
    again = ChangeTrail(tmp_path / "trail")
    assert names(again) == ["b", "a"]
    add(again, "c")
    assert names(again)[-2:] == ["b", "a"]
    again.close()


def test_a_disk_that_takes_nothing_stops_no_operator(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "trail").write_text("a file where the folder should be")
    kept = ChangeTrail(tmp_path / "trail")
    with caplog.at_level(logging.INFO, "sapwood.operator"):
        add(kept, "orders")
    assert "the trail of changes cannot be written" in caplog.text
    assert f"anna (operator) from 10.0.0.1:4000: {PURGE} name=orders: done" in caplog.text
    kept.close()
