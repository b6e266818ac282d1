"""A child throws what is small on the line and large once it is unpacked, as fast as the line takes it; the
messages of a sibling come in time, and no link is lost.

How late they come is measured by `python -m benchmarks.bombs` on a machine with nothing else to do. Here,
for the machine may be busy, CPU time of the parent is counted. The bound is generous: without shares of the
loop the parent hears nobody for longer than the whole test lasts.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from harness import Network, receiving, until_count
from hostile import WITNESS, undisturbed

ROOT = Path(__file__).resolve().parents[2]
GENEROUS_LATE = 2.0
COUNT = 200
PERMITS = {"consume": ["{name}/#"], "send": ["{name}/#", "queue:orders", "queue:last-word"]}
SITE: dict[str, Any] = {"link": {"dead_after": "20s"}}


@asynccontextmanager
async def bomber(network: Network, kind: str) -> AsyncIterator[dict[str, Any]]:
    """One in a process of its own. Yields what it says of itself when it has ended."""
    url = f"ws://127.0.0.1:{network.ports['hq']}/link"
    arguments = ["-m", "benchmarks.bomber", url, f"mallory-{kind}", kind, "test"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=pipe, stdout=pipe, cwd=ROOT
    )
    assert process.stdin is not None
    assert process.stdout is not None
    said: dict[str, Any] = {}
    try:
        async with asyncio.timeout(180):
            assert json.loads(await process.stdout.readline()) == {"up": True}
        yield said
        process.stdin.close()
        async with asyncio.timeout(180):
            said |= json.loads(await process.stdout.readline())
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("kind", ["advices", "lists", "masks", "mixed", "tiny", "too-many", "zeros"])
async def test_bombs_at_full_line_rate_keep_no_sibling_waiting(network: Network, kind: str) -> None:
    network.add("hq", permits=PERMITS, **SITE)
    network.add(WITNESS, "hq", **SITE)
    await network.start()
    late: list[float] = []
    parent = psutil.Process(network.nodes["hq"].pid)
    async with undisturbed(network), network.client("hq") as hq, network.client(WITNESS) as leeds:
        async with receiving(hq, "queue:orders") as orders, bomber(network, kind) as said:
            for number in range(COUNT):
                before = sum(parent.cpu_times()[:2])
                await leeds.publish("queue:orders", b"%d" % number)
                await until_count(orders, number + 1, every=0.001)
                late.append(sum(parent.cpu_times()[:2]) - before)
            status = await network.status("hq")
            (link,) = [link for link in status["children"] if link["name"] == f"mallory-{kind}"]
            assert link["state"] == "running"
        assert [int(each.payload) for each in orders] == list(range(COUNT))
    assert not said["ended"], "a child that is read slowly keeps its link"
    assert said["packets"] > 0
    assert sorted(late)[COUNT * 99 // 100] < GENEROUS_LATE
