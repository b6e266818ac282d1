"""A file is put whole, durably, and with its rights from the first byte on."""

import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from config.whole_files import PUBLIC, put


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was asked of the disk, in order."""
    done: list[str] = []
    rename = Path.rename

    def fsync(descriptor: int) -> None:
        done.append(f"sync {Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}")

    def renamed(self: Path, target: Path) -> Path:
        done.append(f"{target.name} is there")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    return done


def test_data_is_on_disk_before_it_has_the_name_and_the_name_before_the_caller_goes_on(
    tmp_path: Path, done: list[str]
) -> None:
    put(tmp_path / "folder" / "file", b"data")
    assert (tmp_path / "folder" / "file").read_bytes() == b"data"
    assert done == ["sync .file.new", "file is there", "sync folder"]


def test_whoever_needs_no_disk_waits_for_none(tmp_path: Path, done: list[str]) -> None:
    put(tmp_path / "file", b"data", durably=False)
    assert done == ["file is there"]


@pytest.mark.parametrize("mask", [0o000, 0o077])
def test_its_rights_are_those_that_were_asked_for_whatever_was_there(tmp_path: Path, mask: int) -> None:
    (tmp_path / ".file.new").write_bytes(b"left by a crash, and longer")
    (tmp_path / "file").touch(0o777)
    before = os.umask(mask)
    try:
        put(tmp_path / "file", b"secret")
        put(tmp_path / "open", b"", PUBLIC)
    finally:
        os.umask(before)
    assert (tmp_path / "file").read_bytes() == b"secret"
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("file", "open")] == [0o600, 0o644]


def test_what_root_puts_into_the_folder_of_another_user_is_that_users(tmp_path: Path) -> None:
    with suppress(PermissionError):
        os.chown(tmp_path, 4711, 4712)
    put(tmp_path / "file", b"of the node")
    owners = [((found := path.stat()).st_uid, found.st_gid) for path in (tmp_path, tmp_path / "file")]
    assert owners[0] == owners[1]


def test_root_that_may_give_nothing_away_puts_a_file_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    with suppress(PermissionError):
        os.chown(tmp_path, 4711, 4712)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", refused)
    put(tmp_path / "file", b"data")
    assert (tmp_path / "file").read_bytes() == b"data"


def test_a_disk_that_takes_nothing_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "file").write_bytes(b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        put(tmp_path / "file", b"data")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"before"
