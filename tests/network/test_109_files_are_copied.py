"""Files: copied to a store's folder and from it, two levels below, whatever is killed in the middle.

hq <- york <- shop
"""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from commands import Running, refused, running, sapwood, told
from harness import PATIENCE, Network
from waiting import until

from broker.forwards.copying import Comes, Get, Have, Put, Sum, Talk
from broker.forwards.folders import FileFault
from sapwood.channels.pipes import PipeBroken
from sapwood.channels.websocket_pipe import OPEN, WebSocketPipe

CHAIN = ("hq", "york", "shop")
PERMITS = {"consume": ["#"], "send": ["#"], "nodes": ["*"], "serves": ["files@shop", "logs@shop"]}
SIZE = 48_000_000
IN_THE_MIDDLE = SIZE // 8


def folders(network: Network) -> list[dict[str, Any]]:
    """Paths that begin at the site's file."""
    for name in ("files", "logs"):
        (network.folder / name).mkdir(exist_ok=True)
    return [
        {"name": "files", "path": "files", "read": ["hq"], "write": ["hq"], "max_file": "64MB"},
        {"name": "logs", "path": "logs", "read": ["hq"]},
    ]


async def start(network: Network, *, line: bool = False, permits: dict[str, Any] | None = None) -> None:
    network.add("hq", permits=PERMITS | (permits or {}))
    network.add("york", "hq", role="branch", permits=PERMITS)
    network.add("shop", "york", line=line, folders=folders(network))
    await network.start()
    for parent, child in pairwise(CHAIN):
        await network.until_child(parent, child)
    async with asyncio.timeout(PATIENCE):
        while not any(row.kind == "domain" and row.destination == "shop" for row in network.log_rows("hq")):
            await asyncio.sleep(0.05)


def copying(network: Network, *arguments: str) -> contextlib.AbstractAsyncContextManager[Running]:
    return running("copy", *arguments, "--url", network.url("hq"))


def large(file: Path) -> bytes:
    """A file whose copy takes a while."""
    body = random.Random(1).randbytes(SIZE)
    file.write_bytes(body)
    return body


def has(part: Path, size: int) -> bool:
    return part.exists() and part.stat().st_size >= size


async def test_a_file_goes_there_and_another_comes_back(network: Network, tmp_path: Path) -> None:
    await start(network)
    prices = tmp_path / "prices.csv"
    prices.write_bytes(b"milk;1.19\n" * 100_000)
    (tmp_path / "logs" / "today").mkdir()
    (tmp_path / "logs" / "today" / "till-1.log").write_bytes(b"beep\n")
    found = await told(network, "hq", "copy", str(prices), "shop:")
    assert found == {"node": "shop", "folder": "files", "path": "prices.csv", "size": 1_000_000}
    assert (tmp_path / "files" / "prices.csv").read_bytes() == prices.read_bytes()
    code, output, errors = await sapwood(
        *("copy", "shop:today/till-1.log", str(tmp_path), "--folder", "logs", "--url", network.url("hq"))
    )
    assert code == 0, errors
    assert output == f"shop:today/till-1.log is copied to {tmp_path}/till-1.log: 5 B\n"
    assert (tmp_path / "till-1.log").read_bytes() == b"beep\n"

    trail = (await told(network, "shop", "trail", "--channels"))["changes"]
    fetched, brought = trail
    assert (fetched["who"], fetched["operation"], fetched["address"]) == ("hq", "file fetched", "york")
    assert fetched["said"]["path"] == "today/till-1.log"
    assert (brought["operation"], brought["said"]["size"]) == ("file brought", 1_000_000)
    opened = (await told(network, "hq", "trail", "--channels"))["changes"]
    assert [each["said"]["channel"] for each in opened] == [each["said"]["channel"] for each in trail]
    assert (opened[0]["who"], opened[0]["said"]["name"]) == ("local", "logs")
    assert (await told(network, "shop", "trail"))["changes"] == []
    async with aiohttp.ClientSession() as session, session.get(f"{network.url('shop')}/metrics") as answer:
        figures = await answer.text()
    assert "sapwood_files_fetched_total 1" in figures
    assert "sapwood_files_brought_total 1" in figures


async def test_what_is_not_permitted_or_not_there_is_said(network: Network, tmp_path: Path) -> None:
    await start(network)
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / "files" / "out").symlink_to(mine)
    os.mkfifo(tmp_path / "files" / "pipe")
    for arguments, why in (
        ((str(mine), "shop:", "--folder", "logs"), "shop lets hq not write files of logs"),
        ((str(mine), "shop:", "--folder", "other"), "hq lets york serve"),
        ((str(mine), "shop:../mine"), "none of which begins with a dot"),
        ((str(mine), "shop:nowhere/"), "shop:files: nowhere/mine: there is no folder nowhere: make it first"),
        ((f"{mine}2", "shop:"), f"sapwood: on this machine: {mine}2: No such file or directory"),
        (("shop:nobody", str(tmp_path)), "shop:files: nobody: No such file or directory"),
        (("shop:out", str(tmp_path)), "out is no plain file"),
        (("shop:pipe", str(tmp_path)), "pipe is no plain file"),
        ((str(mine), "york:"), "hq lets york serve"),
    ):
        assert why in await refused(network, "hq", "copy", *arguments), arguments
    wrong = ((str(mine), str(mine)), ("shop:a", "shop:b"), ("shop:", str(tmp_path)), (str(mine), "a b:"))
    for given in wrong:
        await refused(network, "hq", "copy", *given, exit_code=2)
    large_one = tmp_path / "large"
    with large_one.open("wb") as file:
        file.truncate(64_000_001)
    assert "takes files of 64000000 at most" in await refused(network, "hq", "copy", str(large_one), "shop:")
    assert sorted(os.listdir(tmp_path / "files")) == ["out", "pipe"]
    assert mine.read_text() == "mine"
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("brings", [True, False], ids=["there", "back"])
async def test_a_node_on_the_way_is_killed_and_the_copy_goes_on(
    network: Network, tmp_path: Path, brings: bool
) -> None:
    await start(network, line=True)
    body = large((tmp_path if brings else tmp_path / "files") / "large")
    part = (tmp_path / "files" if brings else tmp_path) / ".large.part"
    arguments = (str(tmp_path / "large"), "shop:") if brings else ("shop:large", str(tmp_path))
    async with copying(network, *arguments, "--wait", str(PATIENCE)) as command:
        await until(lambda: has(part, IN_THE_MIDDLE))
        network.line("shop").stall()
        network.kill("york")
        there = part.stat().st_size
        assert IN_THE_MIDDLE <= there < SIZE
        await network.line("shop").restore()
        await network.start("york")
        code, output, errors = await command.ended()
        assert (code, b"trying again" in errors) == (0, True), errors
        assert b"is copied to" in output
    assert part.with_name("large").read_bytes() == body
    assert not part.exists()
    assert (await counted(network, "hq")) < 2 * SIZE, "what was there was not copied again"


async def counted(network: Network, node: str) -> int:
    return int((await told(network, node, "channels"))["bytes"])


@pytest.mark.parametrize("brings", [True, False], ids=["there", "back"])
async def test_the_command_is_killed_and_the_same_command_goes_on(
    network: Network, tmp_path: Path, brings: bool
) -> None:
    await start(network, line=True)
    body = large((tmp_path if brings else tmp_path / "files") / "large")
    part = (tmp_path / "files" if brings else tmp_path) / ".large.part"
    arguments = (str(tmp_path / "large"), "shop:") if brings else ("shop:large", str(tmp_path))
    async with copying(network, *arguments) as command:
        await until(lambda: has(part, IN_THE_MIDDLE))
        network.line("shop").stall()
        command.process.send_signal(signal.SIGKILL)
        await command.ended()
    there = part.stat().st_size
    assert IN_THE_MIDDLE <= there < SIZE
    assert not part.with_name("large").exists()
    await network.line("shop").restore()
    found = await told(network, "hq", "copy", *arguments)
    assert found["size"] == SIZE
    assert part.with_name("large").read_bytes() == body
    assert (await counted(network, "shop")) < SIZE + (SIZE - there) + 8_000_000


async def test_the_node_with_the_folder_is_killed_and_what_came_stays(
    network: Network, tmp_path: Path
) -> None:
    await start(network, line=True)
    body = large(tmp_path / "large")
    part = tmp_path / "files" / ".large.part"
    async with copying(network, str(tmp_path / "large"), "shop:", "--wait", str(PATIENCE)) as command:
        await until(lambda: has(part, IN_THE_MIDDLE))
        network.line("shop").stall()
        network.kill("shop")
        assert IN_THE_MIDDLE <= part.stat().st_size < SIZE
        await network.line("shop").restore()
        await network.start("shop")
        code, _, errors = await command.ended()
        assert code == 0, errors
    assert (tmp_path / "files" / "large").read_bytes() == body


@contextlib.asynccontextmanager
async def talking(network: Network) -> AsyncIterator[Talk]:
    """A program of somebody who may open channels, and lies."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{network.url('hq')}/channel/shop/files") as opened,
        asyncio.timeout(PATIENCE),
    ):
        pipe = WebSocketPipe(opened)
        assert await pipe.hear() == OPEN
        yield Talk(pipe)


LIES: list[bytes] = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff" * 100_000,
    b'{"type":"put","path":"/etc/passwd","size":1}\n',
    b'{"type":"put","path":"a/../../b","size":1}\n',
    b'{"type":"put","path":".ssh/authorized_keys","size":1}\n',
    b'{"type":"put","path":"a","size":9007199254740992}\n',
    b"[" * 8000 + b"\n",
]


async def test_a_hostile_peer_makes_no_file_and_the_next_is_served(network: Network, tmp_path: Path) -> None:
    await start(network)
    nothing = Have(0, "0" * 64)
    for lie in LIES:
        async with talking(network) as talk:
            await talk.give(lie)
            with pytest.raises((FileFault, PipeBroken)):
                await talk.hear(Comes)
    for path in ("../files/a", ".a", "a\0b", "x" * 2000):
        async with talking(network) as talk:
            await talk.say(Get(path))
            await talk.say(nothing)
            with pytest.raises(FileFault):
                await talk.hear(Comes)
    async with talking(network) as talk:
        await talk.say(Put("a", 4))
        await talk.hear(Have)
        await talk.say(Comes(4, 0))
        await talk.give(b"abcd" * 100_000)
        with pytest.raises((FileFault, PipeBroken)):
            await talk.hear(Sum)
    assert all(file.stat().st_size <= 4 for file in (tmp_path / "files").iterdir())
    assert not (tmp_path / "files" / "a").exists()
    (tmp_path / "a").write_text("good")
    await told(network, "hq", "copy", str(tmp_path / "a"), "shop:")
    assert (tmp_path / "files" / "a").read_text() == "good"


async def test_a_folder_that_the_file_names_no_more_ends_its_copies(network: Network, tmp_path: Path) -> None:
    await start(network, line=True)
    large(tmp_path / "large")
    part = tmp_path / "files" / ".large.part"
    async with copying(network, str(tmp_path / "large"), "shop:", "--wait", "0") as command:
        await until(lambda: has(part, IN_THE_MIDDLE))
        network.line("shop").stall()  # or the rest may be there before the file is read
        network.configure("shop", "york", line=True, folders=[])
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{network.url('shop')}/api/permits/reload") as answer,
        ):
            assert answer.status == 200
        await network.line("shop").restore()
        code, _, errors = await command.ended()
        assert code == 1
        assert b"shop offers nothing as files" in errors, errors
    assert not (tmp_path / "files" / "large").exists()
    assert json.loads((network.folder / "shop.yaml").read_text())["broker"]["folders"] == []
