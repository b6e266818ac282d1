"""Channels of applications at a real node, each with the process beside it, of which any is killed."""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nodes import running_node

from broker.node import Node
from config.channels import AppChannels
from config.model import AdvisoryLog, Listener, Site
from sapwood import channels
from sapwood.channels import ChannelFailed, ChannelUrls
from sapwood.channels.callers import MOST
from sapwood.channels.ends import _line, _said, pair, take_now
from sapwood.options import NodePlace

PATIENCE = 60


class Somebody:
    """A client of a node."""

    def __init__(self, port: int) -> None:
        self.place = NodePlace(f"ws://127.0.0.1:{port}")


@asynccontextmanager
async def started(folder: Path) -> AsyncIterator[Node]:
    allowed = AppChannels(offered_to=("*",), taken_from=("*",), listen=("127.0.0.1",))
    log = AdvisoryLog(enabled=False)
    site = Site(
        name="hq", data=folder / "data", listener=Listener(port=0), advisory_log=log, channels=allowed
    )
    async with running_node(site) as node:
        async with asyncio.timeout(PATIENCE):
            yield node


def beside(line: socket.socket) -> int:
    """The process that has the other end of a connection within this machine."""
    ends = [f":{each[1]:04X}" for each in (line.getpeername(), line.getsockname())]
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()]
    inode = next(row[9] for row in rows[1:] if [each[-5:] for each in row[1:3]] == ends)
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(descriptor) == f"socket:[{inode}]":
                return int(descriptor.parts[2])
    raise AssertionError("there is no such process")


@pytest.mark.parametrize("way", ["unix", "tcp", "tree"])
async def test_a_node_keeps_nothing_of_a_channel_that_is_over(tmp_path: Path, way: str) -> None:
    async with started(tmp_path) as node:
        client = Somebody(node.port)
        made, given = await channels.make(client)
        forwards = node.report.access.forwards
        with made, await channels.take(client, given, ways=(way,)):
            while "0 wait" not in repr(forwards.applications):
                await asyncio.sleep(0.05)
        while forwards.ends.open:
            await asyncio.sleep(0.05)


async def test_whoever_takes_a_channel_at_an_address_probes_its_maker(tmp_path: Path) -> None:
    async with started(tmp_path) as node:
        client = Somebody(node.port)
        made, given = await channels.make(client)
        with made, await channels.take(client, given, ways=("tcp",)) as taken:
            assert taken.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize("way", ["tcp", "tree"])
async def test_no_port_is_open_once_a_channel_is_taken(tmp_path: Path, way: str) -> None:
    async with started(tmp_path) as node:
        client = Somebody(node.port)
        made, given = await channels.make(client)
        host, port = given.urls[1].removeprefix("tcp://").split(":")
        with made, await channels.take(client, given, ways=(way,)), pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=PATIENCE)


@pytest.mark.parametrize("way", ["unix", "tcp"])
async def test_strangers_who_say_nothing_keep_nobody_out(tmp_path: Path, way: str) -> None:
    async with started(tmp_path) as node:
        client = Somebody(node.port)
        made, given = await channels.make(client)
        host, port = given.urls[1].removeprefix("tcp://").split(":")
        with contextlib.ExitStack() as strangers, made:
            for _ in range(3 * MOST):
                strangers.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE))
            (await channels.take(client, given, ways=(way,))).close()


@pytest.mark.parametrize("way", ["", "tcp", "tree"])
async def test_a_process_that_is_killed_is_an_error_and_no_end(tmp_path: Path, way: str) -> None:
    """Bytes that it had not passed on are lost: nobody may take them for all that there was."""
    async with started(tmp_path) as node:
        client = Somebody(node.port)
        made, given = await channels.make(client)
        with made:
            lines = [made.socket]
            if way:
                lines.append((await channels.take(client, given, ways=(way,))).socket)
            os.kill(beside(made.socket), signal.SIGKILL)
            for line in lines:
                with pytest.raises(ConnectionResetError):
                    assert await asyncio.to_thread(line.recv, 1) == b"an error"
                line.close()


def test_a_program_of_the_current_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may write there."""
    (tmp_path / "asyncio.py").write_text("open('hit', 'w')\n")
    monkeypatch.chdir(tmp_path)
    near, far = pair()
    with near, far:
        said = _said("make", {"place": NodePlace("ws://127.0.0.1:1"), "wait": 1.0}, far, PATIENCE)
    assert "does not answer" in str(said["error"])
    assert not (tmp_path / "hit").exists()


def test_an_application_with_many_descriptors_hears_its_process() -> None:
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, 1500)
    os.write(writer, b'{"error":"no"}\n')
    try:
        assert _line(high, PATIENCE) == {"error": "no"}
    finally:
        for each in (reader, writer, high):
            os.close(each)


PROGRAM = """
import sys
from sapwood import channels, sync

with sync.connect(sys.argv[1]) as client:
    made, given = channels.make_now(client, wait=20)
    print(given.to_json().decode())
"""


async def test_what_reads_an_application_hears_its_end_before_that_of_its_channel(tmp_path: Path) -> None:
    """A shell's pipe waits for all who may write into it: the process beside is none of them."""
    async with started(tmp_path) as node:
        pipe = asyncio.subprocess.PIPE
        words = (sys.executable, "-c", PROGRAM, f"http://127.0.0.1:{node.port}")
        process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe)
        output, errors = await process.communicate()
        assert errors == b""
        (await channels.take(Somebody(node.port), ChannelUrls.from_json(output))).close()


def test_whoever_gives_up_leaves_no_process_that_takes_the_channel_later() -> None:
    """The node takes the connection, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = Somebody(silent.getsockname()[1])
        urls = ChannelUrls(urls=[f"sapwood://hq/channel-{'0' * 32}"], secret="A" * 43)
        with pytest.raises(ChannelFailed, match="no answer"):
            take_now(client, urls, timeout=3)
        line, _ = silent.accept()
        line.settimeout(PATIENCE)
        while line.recv(65536):
            pass
        line.close()


async def test_where_no_unix_socket_can_be_the_other_ways_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    async with started(tmp_path) as node:
        made, given = await channels.make(Somebody(node.port))
        with made:
            assert [url.partition(":")[0] for url in given.urls] == ["tcp", "sapwood"]


@pytest.mark.parametrize("what", ["folder", "socket"])
def test_no_link_in_a_url_leads_to_another_program(what: str) -> None:
    """The path is in a message of anybody, and anybody makes folders among temporary files."""
    with tempfile.TemporaryDirectory() as real, socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{real}/socket")
        other.listen()
        other.setblocking(False)
        folder = Path(real, "sapwood-channel-evil")
        if what == "folder":
            folder.symlink_to(real)
        else:
            folder.mkdir()
            (folder / "socket").symlink_to(f"{real}/socket")
        with pytest.raises(ChannelFailed, match="no socket of this user"):
            take_now(Somebody(1), ChannelUrls(urls=[f"unix:{folder}/socket"], secret="A" * 43))
        with pytest.raises(BlockingIOError):
            other.accept()


async def test_a_time_that_is_none_is_said(tmp_path: Path) -> None:
    async with started(tmp_path) as node:
        with pytest.raises(ChannelFailed, match="wait"):
            await channels.make(Somebody(node.port), wait=float("inf"))
