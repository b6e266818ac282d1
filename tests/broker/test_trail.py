"""The trail of changes: kept over restarts, bounded, and no obstacle when the disk takes nothing."""

import logging
from pathlib import Path

import pytest

from broker import trail
from broker.rotating import RotatingLines
from broker.trail import ChangeTrail

ANNA = ("anna", "operator")
PURGE = "DELETE /api/queues/{name}"


def add(kept: ChangeTrail, *names: str) -> None:
    for name in names:
        kept.add(*ANNA, "10.0.0.1:4000", PURGE, {"name": name})


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
    kept.add(
        *ANNA, "", PURGE, {"name": 'x\n{"seq": 9}', "ids": ["y" * 5000], "all": True}, "NO " + "z" * 5000
    )
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
        add(kept, "other")
        (tmp_path / "trail").unlink()
        add(kept, "again")
    assert caplog.text.count("cannot be written (File exists), and misses changes from") == 1
    assert "Traceback" not in caplog.text
    assert f"'anna' (operator) from 10.0.0.1:4000: {PURGE} name='orders': done" in caplog.text
    assert f"'anna' (operator) from 10.0.0.1:4000: {PURGE} name='other': done" in caplog.text
    assert names(kept) == ["again"]
    kept.close()


def test_a_file_that_is_moved_or_removed_is_begun_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "trail"
    file, kept = folder / "changes.ndjson", ChangeTrail(folder)
    add(kept, "a")
    file.rename(folder / "kept-by-somebody")
    add(kept, "b")
    assert names(kept) == ["b"]
    file.unlink()
    folder.rename(tmp_path / "elsewhere")
    add(kept, "c")
    assert [(each.seq, each.said["name"]) for each in kept.latest()] == [(3, "c")]
    file.write_bytes(b"")  # emptied, as logrotate's copytruncate does
    add(kept, "d", "e")
    assert names(kept) == ["e", "d"]
    assert caplog.text.count(f"{file} was removed or moved") == 2
    kept.close()


def test_a_file_on_a_full_disk_that_is_removed_or_closed_stops_nobody(tmp_path: Path) -> None:
    """Lines that could not be written wait in memory, and are tried once more when the file is closed."""
    file = tmp_path / "changes.ndjson"
    kept = RotatingLines(file, 2**20, 1)
    for text in ("a", "b"):
        file.symlink_to("/dev/full")
        kept.handle(logging.makeLogRecord({"msg": text}))
        file.unlink()
    kept.handle(logging.makeLogRecord({"msg": "c"}))
    assert file.read_text() == "c\n"
    file.unlink()
    file.symlink_to("/dev/full")
    kept.handle(logging.makeLogRecord({"msg": "d"}))
    kept.close()


def test_refusals_push_no_change_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "_BYTES", 2000)
    monkeypatch.setattr(trail, "_FILES", 2)
    kept = ChangeTrail(tmp_path / "trail")
    add(kept, "a", "b")
    for number in range(200):
        kept.add(*ANNA, "", PURGE, {"name": f"q{number}"}, "node hq has no such queue")
    add(kept, "c")
    told = list(kept.latest())
    assert [each.said["name"] for each in told if each.result == "done"] == ["c", "b", "a"]
    assert [each.seq for each in told] == sorted((each.seq for each in told), reverse=True)
    assert told[0].seq == 203
    assert 10 < len(told) < 63
    assert told[1].said["name"] == "q199"
    kept.close()
    again = ChangeTrail(tmp_path / "trail")
    add(again, "d")
    assert next(again.latest()).seq == 204
    again.close()


def test_lines_that_somebody_spoilt_are_left_out(tmp_path: Path) -> None:
    kept = ChangeTrail(tmp_path / "trail")
    add(kept, "a")
    kept.close()
    file = tmp_path / "trail" / "changes.ndjson"
    (line,) = file.read_bytes().splitlines()
    wrong = (
        b"[" * 100_000,
        b'{"seq": "one"}',
        b"\xff\xfe",
        line.replace(b'"seq":1', b'"seq":-1'),
        line.replace(b'"at":', b'"at":1e300,"then":'),
        line.replace(b'"at":', b'"at":-5,"then":'),
    )
    file.write_bytes(b"\n".join((*wrong, line, *wrong, b"")))
    assert names(ChangeTrail(tmp_path / "trail")) == ["a"]


def test_others_have_their_turn_while_a_long_file_is_read(tmp_path: Path) -> None:
    kept = ChangeTrail(tmp_path / "trail")
    add(kept, *(f"q{number}" for number in range(1000)))
    passed = 0
    for change in kept.read(before=3):
        if change is not None:
            break
        passed += 1
    assert passed >= 10
    kept.close()


def test_names_and_values_of_others_forge_no_line_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = ChangeTrail(tmp_path / "trail")
    with caplog.at_level(logging.INFO, "sapwood.operator"):
        kept.add("x' (administrator) from here\n= anna", "", "the tree", PURGE, {"name": "q: done\n= ben"})
    (record,) = caplog.records
    assert "\n" not in record.getMessage()
    assert record.getMessage().startswith('= "x\' (administrator) from here\\n= anna" () from the tree: ')
    kept.close()


def test_passwords_and_invitations_are_not_kept(tmp_path: Path) -> None:
    kept = ChangeTrail(tmp_path / "trail")
    said = {"uris": ["wss://anna:pass-word@hq:7600/link"], "what": "sapwood1-KA1hY21lqnN0b3JlLTAwNDI"}
    kept.add(
        *ANNA, "", PURGE, said, "wss://anna:pass-word@hq is none, nor is sapwood1-KA1hY21lqnN0b3JlLTAwNDI"
    )
    (text,) = (each.read_text() for each in (tmp_path / "trail").iterdir())
    assert "pass-word" not in text
    assert "KA1h" not in text
    assert "wss://…@hq:7600/link" in text
    assert "sapwood1-…" in text
    kept.close()
