"""One store whose spool is full keeps nothing from its siblings, and loses nothing itself."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from harness import PATIENCE, Network, until_count, waiting
from quick import QUICK_SITE, Record, recording

from broker.cli.demo.processes import Status
from broker.node import Node
from config.model import AdvisoryLog, Link, Listener, Site, TreeConnector
from sapwood.client import connect

SIBLINGS = 99
ROUNDS = 10
FULL = 64 * 1024
SIZE = 1000


def _payloads() -> list[bytes]:
    """Ten times as much as the full store takes; not to be compressed."""
    chance = random.Random(17)
    return [f"{number:06}".encode() + chance.randbytes(SIZE - 6) for number in range(ROUNDS * FULL // SIZE)]


def _site(folder: Path, name: str, parent: str) -> Site:
    return Site(
        name=name,
        tree="test",
        data=folder / name,
        listener=Listener(port=0),
        tree_connectors=(TreeConnector(nodetype="leaf", uri=parent),),
        link=Link(backoff_initial=0.05, backoff_max=0.2),
        advisory_log=AdvisoryLog(enabled=False),
    )


@asynccontextmanager
async def siblings(network: Network) -> AsyncIterator[list[Node]]:
    """Many stores in this process: real nodes, databases and sockets, but no process each."""
    parent = f"ws://127.0.0.1:{network.ports['hq']}/link"
    nodes = [
        Node(_site(network.folder / "siblings", f"store-{number:02}", parent)) for number in range(SIBLINGS)
    ]
    started: list[Node] = []
    try:
        for node in nodes:
            await node.start()
            started.append(node)
        yield nodes
    finally:
        await asyncio.gather(*(node.stop() for node in started))


def _held(status: Status, child: str) -> bool:
    """Does a child ask its parent to keep what is for it?"""
    return any(link["name"] == child and link["held_by_peer"] for link in status["children"])


async def test_a_full_store_keeps_nothing_from_its_siblings(network: Network) -> None:
    payloads = _payloads()
    network.add("hq", **QUICK_SITE)
    network.add("york", "hq", **QUICK_SITE, limits={"spool": {"max_bytes_down": FULL}})
    await network.start()
    async with siblings(network) as nodes, AsyncExitStack() as stack:
        async with network.client("york", session="till") as york:
            await york.subscribe("topic:offers/#", durable="offers").ready()
        records: list[Record] = []
        for node in nodes:
            client = await stack.enter_async_context(
                connect(f"http://127.0.0.1:{node.port}", timeout=PATIENCE)
            )
            records.append(await stack.enter_async_context(recording(client, "topic:offers/+")))
        await network.until(
            "hq", lambda status: _topic_routes(status) == SIBLINGS + 1, "told of all subscribers"
        )
        async with network.client("hq") as hq:
            step = len(payloads) // ROUNDS
            for first in range(0, len(payloads), step):
                await hq.send_many("topic:offers/today", payloads[first : first + step])
                await asyncio.gather(
                    *(until_count(record.payloads, min(first + step, len(payloads))) for record in records)
                )
        assert all(record.payloads == payloads for record in records)
        status = await network.until("hq", lambda status: _held(status, "york"), "asked to hold")
        (link,) = [link for link in status["children"] if link["name"] == "york"]
        assert link["state"] == "blocked"
        assert "york takes nothing more" in link["error"]
        await network.until("hq", lambda status: 0 < waiting(status) < len(payloads), "rid of all others'")
        assert status["dead"]["messages"] == 0
        async with (
            network.client("york", session="till") as york,
            recording(york, "topic:offers/#", "offers") as late,
        ):
            await until_count(late.payloads, len(payloads))
            assert late.payloads == payloads
        await network.until("hq", lambda status: not _held(status, "york"), "released")
    await network.until_drained("hq")
    await network.until_drained("york")


def _topic_routes(status: Status) -> int:
    return sum(count for key, count in status["routes"].items() if key.startswith("topic/"))
