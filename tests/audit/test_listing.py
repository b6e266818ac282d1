"""Which files are taken for logs."""

import os
from pathlib import Path

import pytest

from audit.alerts import Alerts
from audit.errors import UsageError
from audit.feeder import Feeder
from audit.listing import list_all, list_local
from audit.output import Output

LINE = '{"event":"node","at":"2026-03-14T08:00:00Z","node":"york","op":"start","schema":1}\n'


def test_what_an_audit_wrote_among_the_logs_is_no_log(tmp_path: Path) -> None:
    log = tmp_path / "york.advisories.jsonl"
    log.write_text(LINE)
    tables = Output(tmp_path / "audit").folder / "tables" / "spilled"
    tables.mkdir()
    (tables / "part-00000.parquet").write_bytes(b"PAR1")
    feeder = Feeder(tmp_path, tmp_path / "watch" / "follow")
    assert feeder.feed() == len(LINE)
    Alerts(tmp_path / "watch" / "alerts").take("rows", 0, [{"id": 1, "alert": "unreadable"}])
    assert feeder.feed() == 0, "neither its own pieces nor its own alerts"
    listing = list_local([str(tmp_path)])
    assert [Path(file.path.removeprefix("file://")) for file in listing.files] == [log]
    assert len(listing.ignored) == 3, "but it is told"


def test_a_path_that_goes_up_names_the_files_as_spark_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "york.jsonl").write_text(LINE)
    monkeypatch.chdir(tmp_path / "here")
    for given in ("..", f"file:{tmp_path}/here/.."):
        (file,) = list_all(None, [given]).files
        assert file.path == f"file://{tmp_path.resolve()}/york.jsonl"


def test_a_folder_that_cannot_be_read_is_never_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "logs" / "north"
    for folder in (closed, tmp_path / "logs" / "lost+found"):
        folder.mkdir(parents=True)
    (closed / "york.jsonl").write_text(LINE)
    scan, refused = os.scandir, {str(closed), str(closed.parent / "lost+found")}

    def refuse(path: str) -> object:  # root may read everything
        if path in refused:
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UsageError, match="north: cannot be read: Permission denied"):
        list_local([str(tmp_path / "logs")])
    feeder = Feeder(tmp_path / "logs", tmp_path / "watch" / "follow")
    assert (feeder.feed(), feeder.faults) == (0, {str(closed): "cannot be read: Permission denied"})
    refused.clear()
    assert (feeder.feed(), feeder.faults) == (len(LINE), {})


def test_a_folder_that_a_link_leads_to_is_read_once(tmp_path: Path) -> None:
    logs, away = tmp_path / "logs", tmp_path / "away"
    for folder in (logs / "north", away / "south"):
        folder.mkdir(parents=True)
    (logs / "north" / "york.jsonl").write_text(LINE)
    (away / "south" / "bath.jsonl").write_text(LINE)
    links = {"a-north": logs / "north", "away": away, "b-south": away / "south", "up": tmp_path, "self": logs}
    for name, place in links.items():
        (logs / name).symlink_to(place)
    (away / "round").symlink_to(away)
    listing = list_local([str(logs)])
    assert [Path(file.path.removeprefix("file://")).relative_to(logs) for file in listing.files] == [
        Path("away/south/bath.jsonl"),
        Path("north/york.jsonl"),
    ]
    assert Feeder(logs, tmp_path / "watch").feed() == 2 * len(LINE)


def test_a_folder_that_goes_while_logs_are_listed_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bath", "york"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text(LINE)
    stat = os.stat

    def gone(path: str, *given: object, **more: object) -> os.stat_result:
        if path == str(tmp_path / "bath"):
            raise FileNotFoundError(2, "No such file or directory", path)
        return stat(path, *given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", gone)
    assert [file.path for file in list_local([str(tmp_path)]).files] == [f"file://{tmp_path}/york/log.jsonl"]


def test_a_log_that_is_packed_otherwise_is_told_to_a_follower(tmp_path: Path) -> None:
    (tmp_path / "york.jsonl").write_text(LINE)
    (tmp_path / "bath.jsonl.zst").touch()
    feeder = Feeder(tmp_path, tmp_path / "watch")
    assert feeder.feed() == len(LINE)
    assert "packed otherwise than with gzip" in feeder.faults[str(tmp_path / "bath.jsonl.zst")]


def test_a_pipe_is_no_log_that_anybody_waits_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "york.jsonl")
    with pytest.raises(UsageError, match=r"york\.jsonl: cannot be read: expected a file: a pipe"):
        list_local([str(tmp_path)])


def test_a_log_that_this_user_may_not_read_is_said_before_spark_passes_over_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "york.jsonl").write_text(LINE)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "york.jsonl")  # root may
    with pytest.raises(UsageError, match=r"york\.jsonl: cannot be read: Permission denied"):
        list_local([str(tmp_path)])
