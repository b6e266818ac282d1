"""Folders of sockets, of processes that live and of some that were killed."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sapwood.channels import socket_folder
from sapwood.channels.socket_folder import SocketFolder

PROGRAM = """
import socket, sys, time
from sapwood.channels.socket_folder import SocketFolder
folder = SocketFolder()
line = socket.socket(socket.AF_UNIX)
line.bind(folder.path)
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture
def other(temporary: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a folder in which it does not listen yet, and the socket's path."""
    words = (sys.executable, "-c", PROGRAM)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
        process.kill()


def test_the_next_process_removes_the_folder_of_one_that_was_killed(
    other: tuple[subprocess.Popen[str], Path], temporary: Path
) -> None:
    process, left = other
    assert left.is_socket()
    assert left.is_relative_to(temporary)
    process.kill()
    process.wait()
    SocketFolder().remove()
    assert list(temporary.iterdir()) == []


def test_the_folder_of_one_that_lives_stays(other: tuple[subprocess.Popen[str], Path]) -> None:
    _, living = other
    SocketFolder().remove()
    assert living.is_socket()


def test_a_folder_without_a_lock_in_which_somebody_listens_stays(temporary: Path) -> None:
    """Processes of an older version have no lock."""
    old = temporary / "sapwood-channel-old"
    old.mkdir()
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(old / "socket"))
        line.listen()
        SocketFolder().remove()
        assert old.is_dir()
    SocketFolder().remove()
    assert not old.exists()


def test_nothing_is_removed_that_a_link_leads_to(temporary: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(tmp_path / "socket"))
    os.symlink(tmp_path, temporary / "sapwood-channel-link")
    SocketFolder().remove()
    assert (tmp_path / "socket").is_socket()


def test_names_that_are_looked_at_are_few(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_folder, "_LOOKED_AT", 0)
    old = temporary / "sapwood-channel-old"
    old.mkdir()
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(str(old / "socket"))
    SocketFolder().remove()
    assert old.is_dir()
