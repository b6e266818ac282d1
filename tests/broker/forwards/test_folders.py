"""Files of a folder: nothing leads out of it, nothing but plain files is opened, a file appears whole."""

import errno
import hashlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.forwards.folders import (
    MAX_NAME,
    MAX_NAMES,
    MAX_PATH,
    FileBusy,
    FileFault,
    FilePart,
    FirstBytes,
    SharedFolder,
    local_part,
    local_source,
    names_of,
)


@pytest.fixture
def folder(tmp_path: Path) -> SharedFolder:
    shared = tmp_path / "shared"
    (shared / "inner").mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (shared / "plain").write_text("plain")
    (shared / "inner" / "deep").write_text("deep")
    return SharedFolder(shared)


def summed(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sum_of(first: FirstBytes) -> str:
    while first.left:
        first.add()
    return first.sum.hexdigest()


def fill(part: FilePart, data: bytes) -> None:
    """All of a file comes."""
    try:
        part.keep(0)
        part.write(data)
        part.finish(summed(data))
    finally:
        part.close()


@pytest.mark.parametrize("path", ["plain", "inner/deep"])
def test_files_of_it_are_read(folder: SharedFolder, path: str) -> None:
    source = folder.source(path)
    try:
        assert source.read(9).decode() == path.rpartition("/")[2]
        assert source.digest == summed(path.rpartition("/")[2].encode())
    finally:
        source.close()


WRONG = [
    "",
    "/",
    "/etc/passwd",
    "..",
    "../secret",
    "inner/../../secret",
    "inner//deep",
    "inner/",
    "./plain",
    ".hidden",
    "inner/.ssh/id",
    ".plain.part",
    "a\0b",
    "a\nb",
    "a\x1b[2Jb",
    "\udcff",
    "x" * (MAX_NAME + 1),
    "/".join("x" * (MAX_NAMES + 1)),
    "/".join(["x" * 200] * (MAX_PATH // 200 + 1)),
]


@pytest.mark.parametrize("path", WRONG, ids=range(len(WRONG)))
def test_a_path_that_could_lead_elsewhere_is_refused(folder: SharedFolder, path: str) -> None:
    with pytest.raises(FileFault):
        names_of(path)
    for open_it in (folder.source, folder.part):
        with pytest.raises(FileFault):
            open_it(path)


def links(shared: Path) -> None:
    (shared / "out").symlink_to("../secret")
    (shared / "away").symlink_to("..")
    (shared / "near").symlink_to("plain")


@pytest.mark.parametrize("path", ["out", "away/secret", "near"])
def test_no_link_is_followed(folder: SharedFolder, tmp_path: Path, path: str) -> None:
    links(tmp_path / "shared")
    for open_it in (folder.source, folder.part):
        with pytest.raises(FileFault):
            open_it(path)
    assert (tmp_path / "secret").read_text() == "secret"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("make", [pipe, unix_socket, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
@pytest.mark.parametrize("at", ["thing", ".thing.part"])
def test_nothing_but_plain_files_is_opened(
    folder: SharedFolder, tmp_path: Path, make: Callable[[Path], None], at: str
) -> None:
    make(tmp_path / "shared" / at)
    for open_it in (folder.source, folder.part):
        with pytest.raises(FileFault):
            open_it("thing")


def test_a_part_with_another_name_outside_is_not_written(folder: SharedFolder, tmp_path: Path) -> None:
    os.link(tmp_path / "secret", tmp_path / "shared" / ".thing.part")
    with pytest.raises(FileBusy):
        folder.part("thing")
    assert (tmp_path / "secret").read_text() == "secret"


def test_a_folder_that_is_not_there_is_said(folder: SharedFolder, tmp_path: Path) -> None:
    with pytest.raises(FileFault, match="nowhere/x: there is no folder nowhere: make it first"):
        folder.part("nowhere/x")
    (tmp_path / "shared").rename(tmp_path / "elsewhere")
    with pytest.raises(FileFault, match=r"the folder itself cannot be opened \(No such file or directory\)"):
        folder.part("x")


def test_a_file_appears_when_all_has_come(folder: SharedFolder, tmp_path: Path) -> None:
    part = folder.part("new")
    part.keep(0)
    part.write(b"some")
    assert not (tmp_path / "shared" / "new").exists()
    part.write(b"thing")
    part.finish(summed(b"something"))
    part.close()
    assert (tmp_path / "shared" / "new").read_bytes() == b"something"
    assert sorted(os.listdir(tmp_path / "shared")) == ["inner", "new", "plain"]


def test_a_file_that_was_there_is_replaced_at_once(folder: SharedFolder, tmp_path: Path) -> None:
    before = (tmp_path / "shared" / "plain").open("rb")
    fill(folder.part("plain"), b"another")
    with before:
        assert before.read() == b"plain", "who reads it has what there was"
    assert (tmp_path / "shared" / "plain").read_bytes() == b"another"


@pytest.mark.parametrize("mode", [0o600, 0o440, 0o664])
def test_a_file_that_was_there_keeps_who_may_read_and_write_it(
    folder: SharedFolder, tmp_path: Path, mode: int
) -> None:
    file = tmp_path / "shared" / "plain"
    file.chmod(mode)
    part = folder.part("plain")
    gathers = (tmp_path / "shared" / ".plain.part").stat().st_mode & 0o777
    assert gathers & ~mode & 0o177 == 0
    fill(part, b"again")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"again", mode)


def test_a_part_stays_and_its_size_and_sum_are_said(folder: SharedFolder) -> None:
    part = folder.part("new")
    part.keep(0)
    part.write(b"abc")
    part.close()
    again = folder.part("new")
    assert (again.size, sum_of(again.first)) == (3, summed(b"abc"))
    again.keep(3)
    again.write(b"def")
    again.finish(summed(b"abcdef"))
    again.close()


def test_what_is_not_what_was_sent_does_not_appear_and_is_gone(folder: SharedFolder, tmp_path: Path) -> None:
    part = folder.part("new")
    part.keep(0)
    part.write(b"abc")
    with pytest.raises(FileFault, match="is not what was sent"):
        part.finish(summed(b"abd"))
    part.close()
    assert sorted(os.listdir(tmp_path / "shared")) == ["inner", "plain"]


def test_nothing_is_left_of_a_file_of_which_nothing_came(folder: SharedFolder, tmp_path: Path) -> None:
    folder.part("new").close()
    assert sorted(os.listdir(tmp_path / "shared")) == ["inner", "plain"]


@pytest.mark.parametrize("there", [b"", b"some"])
def test_a_part_that_another_has_tidied_away_keeps_no_descriptor(
    folder: SharedFolder, tmp_path: Path, there: bytes
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    part = folder.part("new")
    part.keep(0)
    part.write(there)
    (tmp_path / "shared" / ".new.part").unlink()
    if there:
        with pytest.raises(FileFault, match="is not what was sent"):
            part.finish(summed(b"other"))
    part.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_part_that_cannot_be_tidied_away_keeps_no_descriptor(
    folder: SharedFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    part = folder.part("new")

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "unlink", fails)
    with pytest.raises(OSError, match="Read-only"):
        part.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_empty_file_is_one(folder: SharedFolder, tmp_path: Path) -> None:
    fill(folder.part("new"), b"")
    assert (tmp_path / "shared" / "new").read_bytes() == b""


def test_one_at_a_time_writes_a_file(folder: SharedFolder) -> None:
    part = folder.part("new")
    with pytest.raises(FileBusy, match="new is being brought by somebody else"):
        folder.part("new")
    folder.part("other").close()
    part.close()
    folder.part("new").close()


@pytest.mark.parametrize(
    ("have", "begins"), [(b"pl", 2), (b"", 0), (b"PL", 0), (b"plain", 5), (b"plain and more", 0)]
)
def test_a_source_begins_behind_its_own_first_bytes_only(
    folder: SharedFolder, have: bytes, begins: int
) -> None:
    source = folder.source("plain")
    try:
        first = source.first(len(have))
        sum_of(first)
        assert source.begin(first, summed(have)) == begins
        if begins < source.size:
            assert source.read(9) == b"plain"[begins:]
        assert source.digest == summed(b"plain")
    finally:
        source.close()


def test_a_sum_is_made_in_pieces_and_ends_with_the_file(folder: SharedFolder, tmp_path: Path) -> None:
    body = os.urandom(2_500_000)
    (tmp_path / "shared" / "large").write_bytes(body)
    source = folder.source("large")
    first = source.first(2_200_000)
    lefts = []
    while first.left:
        first.add()
        lefts.append(first.left)
    assert lefts == [2_200_000 - 2**20, 2_200_000 - 2**21, 0]
    assert first.sum.hexdigest() == summed(body[:2_200_000])
    first = source.first(2_200_000)
    os.truncate(tmp_path / "shared" / "large", 10)
    assert sum_of(first) == summed(body[:10])
    source.close()


def test_a_file_that_becomes_shorter_is_said(folder: SharedFolder, tmp_path: Path) -> None:
    source = folder.source("plain")
    os.truncate(tmp_path / "shared" / "plain", 0)
    try:
        with pytest.raises(FileFault, match="plain has become shorter"):
            source.read(5)
    finally:
        source.close()


def test_whoever_copies_may_name_any_file_of_its_own(folder: SharedFolder, tmp_path: Path) -> None:
    links(tmp_path / "shared")
    source = local_source(tmp_path / "shared" / "near")
    assert source.size == 5
    source.close()
    with pytest.raises(FileFault, match="is no plain file"):
        local_source(tmp_path)
    with pytest.raises(FileFault, match="No such file"):
        local_source(tmp_path / "nobody")
    fill(local_part(tmp_path / ".mine"), b"mine")
    assert (tmp_path / ".mine").read_bytes() == b"mine"
