"""A node that finds no memory, for a thread or for anything, serves on or ends: it never stands still."""

import asyncio
import contextlib
import random
import resource
import signal
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from harness import PATIENCE, Network

from broker.entrance.passwords import hashed
from sapwood.protocol.errors import SapwoodError

MIB = 1024 * 1024
BODY = bytes(64 * 1024)
WORD = "a long password"
LOAD = 8.0
NO_MEMORY_FOR_THREADS = """
import _thread, pathlib, threading

begin = _thread.start_new_thread
mark = pathlib.Path({mark!r})

def dies(*_):
    raise MemoryError

def begin_or_die(work, given, *more):
    return begin(dies, ()) if mark.exists() else begin(work, given, *more)

_thread.start_new_thread = threading._start_new_thread = begin_or_die
"""
"""The first step of each thread that begins once there is the mark finds no memory."""


def shim(folder: Path, mark: Path) -> dict[str, str]:
    """The environment of a process that is so."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NO_MEMORY_FOR_THREADS.format(mark=str(mark)), encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


async def starved(network: Network, folder: Path, **settings: Any) -> Path:
    """hq, in which no thread can begin any more once the file that is returned is there."""
    network.add("hq", **settings)
    mark = folder / "no-memory"
    network.nodes["hq"].start(environment=shim(folder / "shim", mark))
    await network.until("hq", lambda status: status["ready"], "ready")
    return mark


async def is_tidy(network: Network) -> bool:
    """Whether the store's log is cut and the advisory log packed, within some seconds without work."""
    log = network.data("hq") / "node.db-wal"
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10):
            while log.stat().st_size or not list(network.data("hq").glob("advisories/*.gz")):
                await asyncio.sleep(0.05)
            return True
    return False


async def test_a_node_needs_no_thread_that_was_not_there_at_its_start(
    network: Network, tmp_path: Path
) -> None:
    """It copies and tidies the store's log, packs a full advisory log, and looks at a password."""
    secret = tmp_path / "till"
    secret.write_text(hashed(WORD), encoding="utf-8")
    secret.chmod(0o600)
    mark = await starved(
        network,
        tmp_path,
        accounts=[{"name": "till", "password_file": str(secret), "consume": ["#"], "send": ["#"]}],
        advisory_log={"max_bytes_per_file": "64KiB"},
    )
    mark.touch()
    noise = random.Random(97).randbytes(len(BODY))  # it must not shrink, or the journal alone takes it
    async with asyncio.timeout(PATIENCE), network.client("hq", account="till", password=WORD) as till:
        await till.send_many("queue:kept", [noise] * 400)
        for number in range(400):
            async with till.subscribe(f"topic:{number}/{'x' * 200}"):
                pass
        while not await is_tidy(network):  # a log that has just begun anew is not worth to be cut
            await till.send_many("queue:kept", [noise] * 20)
    assert (await network.status("hq"))["ready"]
    assert "MemoryError" not in network.nodes["hq"].last_words(500)
    mark.unlink()
    assert await network.stop("hq") == 0


async def test_a_node_that_stops_does_not_wait_for_a_thread_that_cannot_begin(
    network: Network, tmp_path: Path
) -> None:
    mark = await starved(network, tmp_path)
    await network.send("hq", "queue:kept", [b"1"])
    mark.touch()
    hq = network.nodes["hq"]
    hq.signal(signal.SIGTERM)
    await hq.exited(PATIENCE)
    assert "node hq has stopped" in hq.last_words(500)
    mark.unlink()
    hq.start()
    assert await network.collect("hq", "queue:kept", 1) == [b"1"]


@pytest.mark.parametrize("more", [0, MIB // 4, 2 * MIB, 8 * MIB])
async def test_a_node_at_the_end_of_its_memory_serves_or_ends(network: Network, more: int) -> None:
    """Under load, and when there is memory again."""
    network.add("hq")
    hq = network.nodes["hq"]
    hq.start()
    await network.until("hq", lambda status: status["ready"], "ready")
    await network.send("hq", "queue:kept", [b"1", b"2", b"3"])
    _, hard = resource.prlimit(hq.pid, resource.RLIMIT_AS)
    resource.prlimit(hq.pid, resource.RLIMIT_AS, (psutil.Process(hq.pid).memory_info().vms + more, hard))
    await asyncio.gather(*(load(network, number) for number in range(8)))
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        resource.prlimit(hq.pid, resource.RLIMIT_AS, (hard, hard))
    async with asyncio.timeout(2 * PATIENCE):
        while hq.running and not await is_ready(network):
            await asyncio.sleep(0.1)
    if not hq.running:
        assert await hq.exited() == 1
        assert "Nothing that was acknowledged is lost" in hq.last_words(500)
        hq.start()
    await network.until("hq", lambda status: status["ready"], "ready again")
    await network.send("hq", "queue:more", [b"4"])
    assert await network.collect("hq", "queue:more", 1) == [b"4"]
    assert await network.collect("hq", "queue:kept", 3) == [b"1", b"2", b"3"]


async def load(network: Network, number: int) -> None:
    """Asks for much for a while, whatever becomes of it."""
    with contextlib.suppress(SapwoodError, TimeoutError, OSError):
        async with asyncio.timeout(LOAD), network.client("hq", timeout=1.0) as client:
            while True:
                await client.send_many(f"queue:load/{number}", [BODY] * 20)


async def is_ready(network: Network) -> bool:
    with contextlib.suppress(aiohttp.ClientError, TimeoutError):
        limit = aiohttp.ClientTimeout(5)
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(f"{network.nodes['hq'].url}/readyz") as answer,
        ):
            return answer.status == 200
    return False
