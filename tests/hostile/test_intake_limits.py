"""A node whose system gives no more: files or memory. It says so, and is whole or is gone."""

import asyncio
import contextlib
import resource

import aiohttp
import psutil
import pytest
from harness import Network
from intake_peers import MIB, Raw, begin_to_send

IDLE = 300
FEW_FILES = 128


def _allow(pid: int, what: int, most: int) -> None:
    resource.prlimit(pid, what, (most, most))


async def _idle(port: int, count: int) -> list[Raw]:
    """Connections of which nothing is ever heard, for as long as the node keeps them."""
    return [await Raw.to(port) for _ in range(count)]


async def _serves(network: Network, name: str) -> None:
    await network.send(name, "queue:still-here", [b"1"])
    assert await network.collect(name, "queue:still-here", 1) == [b"1"]


async def test_idle_connections_do_not_keep_a_child_away(network: Network) -> None:
    network.add("hq")
    network.add("york", "hq")
    hq = network.nodes["hq"]
    hq.start()
    _allow(hq.pid, resource.RLIMIT_NOFILE, FEW_FILES)
    await network.until("hq", lambda _: True, "answering")
    idle = await _idle(network.ports["hq"], IDLE)
    await network.launch("york")
    await network.until_child("hq", "york")
    status = await network.status("hq")
    assert status["intake"]["most"] == FEW_FILES - 64
    assert status["intake"]["turned_away"]["connections"] > 0
    await _serves(network, "hq")
    for raw in idle:
        raw.break_off()
    await network.until("hq", lambda status: status["intake"]["strangers"] < 5, "alone again")
    await _serves(network, "hq")
    words = hq.last_words(500)
    assert "too many connections; one that has not logged in was closed" in words
    assert words.count("too many connections;") < IDLE / 10
    assert "Traceback" not in words


async def test_no_more_files_is_said_and_survived(network: Network) -> None:
    network.add("hq")
    network.add("york", "hq")
    hq = network.nodes["hq"]
    hq.start()
    await network.until("hq", lambda _: True, "answering")
    soft, hard = resource.prlimit(hq.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(hq.pid, resource.RLIMIT_NOFILE, (psutil.Process(hq.pid).num_fds() + 20, hard))
    idle = await _idle(network.ports["hq"], 100)
    text = "connections cannot be accepted: Too many open files"
    async with asyncio.timeout(60):
        while text not in hq.last_words(200):
            await asyncio.sleep(0.1)
    await network.launch("york")
    await network.until_child("hq", "york")
    for raw in idle:
        raw.break_off()
    resource.prlimit(hq.pid, resource.RLIMIT_NOFILE, (soft, hard))
    await _serves(network, "hq")
    assert (await network.status("hq"))["ready"]
    assert "Traceback" not in hq.last_words(500)


async def test_near_its_limit_of_memory_a_node_takes_no_more_and_says_so(network: Network) -> None:
    network.add("hq")
    hq = network.nodes["hq"]
    hq.start()
    await network.until("hq", lambda status: status["ready"], "ready")
    await network.send("hq", "queue:kept", [b"1", b"2", b"3"])
    limits = resource.prlimit(hq.pid, resource.RLIMIT_AS)
    size = psutil.Process(hq.pid).memory_info().vms
    resource.prlimit(hq.pid, resource.RLIMIT_AS, (size + min(size // 20, 48 * MIB), limits[1]))
    text = "node hq is near the limit of its memory"
    await network.until("hq", lambda status: text in status["refusing"] and not status["ready"], "refusing")
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{hq.url}/readyz") as answer:
            assert answer.status == 503
        async with session.get(f"{hq.url}/login/till") as answer:
            assert answer.status == 200
        async with session.post(f"{hq.url}/send/more/1", data=b"4") as answer:
            assert answer.status >= 400
            assert (await answer.text()).startswith(f"QUEUE_FULL: {text}")
    idle = await _idle(network.ports["hq"], IDLE)
    status = await network.until("hq", lambda status: status["intake"]["strangers"] > 0, "asked")
    assert status["intake"]["strangers"] <= 16
    for raw in idle:
        raw.break_off()
    resource.prlimit(hq.pid, resource.RLIMIT_AS, limits)
    await network.until("hq", lambda status: status["ready"], "ready again")
    assert await network.collect("hq", "queue:kept", 3) == [b"1", b"2", b"3"]
    assert f"no messages are taken: {text}" in hq.last_words(500)


async def test_a_node_without_memory_says_so_and_stops(network: Network) -> None:
    network.add("hq")
    hq = network.nodes["hq"]
    hq.start()
    await network.until("hq", lambda status: status["ready"], "ready")
    await network.send("hq", "queue:kept", [b"1", b"2", b"3"])
    _allow(hq.pid, resource.RLIMIT_AS, psutil.Process(hq.pid).memory_info().vms + 64 * MIB)
    raws: list[Raw] = []
    much = memoryview(bytes(14 * MIB))
    with contextlib.suppress(ConnectionError, AssertionError):
        for _ in range(20):
            raws.append(await Raw.to(network.ports["hq"]))
            await begin_to_send(raws[-1])
            await raws[-1].say(much)
    assert await hq.exited(60) == 1
    for raw in raws:
        raw.break_off()
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{hq.url}/readyz")
    words = hq.last_words(500)
    assert words.count("is out of memory. Nothing that was acknowledged is lost") == 1
    assert "Traceback" not in words
    hq.start()
    await network.until("hq", lambda status: status["ready"], "ready again")
    assert await network.collect("hq", "queue:kept", 3) == [b"1", b"2", b"3"]
