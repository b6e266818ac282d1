"""A node is killed again and again while 5,000 messages move between two queues: each is there once, in one.

An operator moves them a part at a time, each part in one commit, and dead letters likewise.
"""

import asyncio
from collections import Counter

import aiohttp
import pytest
from harness import PATIENCE, Network

MESSAGES = 5_000
KILLS = 3
SLOW_DISK = """
import os, time

sync = os.fdatasync


def fdatasync(file: int) -> None:
    time.sleep(0.02)
    sync(file)


os.fdatasync = fdatasync
"""
"""With this in its `sitecustomize` a node takes 20 ms for each commit: a kill comes between two of them."""
QUICKLY_DEAD = {"delivery": {"hold_time": "1s"}}
LATER_DEAD = {"delivery": {"hold_time": "1h"}}
"""From the first kill on: a message to `queue:NAME@hq` waits for a reader so long, though NAME is there."""


@pytest.fixture
def network(network: Network) -> Network:
    """Of one node, on a slow disk."""
    (network.folder / "sitecustomize.py").write_text(SLOW_DISK, encoding="utf-8")
    network.environments["hq"] = {"PYTHONPATH": str(network.folder)}
    network.add("hq")
    return network


async def send(network: Network, *queues: str) -> list[bytes]:
    """Each is a bundle of its own, since a queue's two names take turns."""
    payloads = [b"%05d" % number + bytes(500) for number in range(MESSAGES)]
    async with network.client("hq", session="producer") as client:
        for number, payload in enumerate(payloads):
            await client.send_many(queues[number % len(queues)], [payload], wait=False)
        await client.flush()
    return payloads


async def ask(network: Network, method: str, path: str, body: object = None) -> dict[str, object]:
    async with (
        aiohttp.ClientSession(network.url("hq")) as session,
        session.request(method, path, json=body) as answer,
    ):
        return dict(await answer.json())


async def waiting(network: Network, name: str) -> int:
    """How many messages wait in a queue, 0 = it is not there."""
    return sum(
        int(queue["messages"])
        for queue in (await network.status("hq"))["queues"]
        if queue["name"].startswith(f"queue:{name}")
    )


async def killed_in_the_middle(
    network: Network, path: str, body: object, there: str, some: int
) -> tuple[bool, int]:
    """Ask for it, and kill the node once so many have gone where they are to go.

    Returns whether that was before its answer, and how many more are there after the start.
    """
    before = await waiting(network, there)
    asked = asyncio.create_task(ask(network, "POST", path, body))
    async with asyncio.timeout(PATIENCE):
        while await waiting(network, there) < before + some and not asked.done():
            await asyncio.sleep(0.005)
    network.kill("hq")
    unanswered = False
    try:
        await asked
    except aiohttp.ClientError:
        unanswered = True
    await network.start("hq")
    return unanswered, await waiting(network, there) - before


async def all_of(network: Network, *queues: str) -> Counter[bytes]:
    """Whatever is there; a message that may be there twice is marked, and counts once."""
    found: Counter[bytes] = Counter()
    for queue in queues:
        count = await waiting(network, queue)
        async with network.client("hq", session="reader") as client:
            subscription = client.subscribe(f"queue:{queue}", credit=1000)
            for _ in range(count):
                delivery = await subscription.next(PATIENCE)
                assert delivery is not None, f"{found.total()} came, of {queue} {count}"
                if not (delivery.redelivered and found[delivery.payload]):
                    found[delivery.payload] += 1
                delivery.ack()
    return found


async def test_a_move_that_is_killed_leaves_each_message_in_one_of_the_queues(network: Network) -> None:
    await network.start()
    async with network.client("hq") as client:
        await client.create("a")
        await client.create("b")
    payloads = await send(network, "queue:a", "queue:a@hq")
    halves = 0
    for turn in range(KILLS):
        here, there = ("a", "b") if turn % 2 == 0 else ("b", "a")
        was, move = await waiting(network, here), {"all": True, "to": there}
        _, moved = await killed_in_the_middle(
            network, f"/api/queues/{here}/move", move, there, 1 + 1000 * turn
        )
        halves += 0 < moved < was
        assert await waiting(network, "a") + await waiting(network, "b") == MESSAGES
    assert halves, "a kill came between two parts of a move"
    assert await all_of(network, "a", "b") == Counter(payloads)


async def test_dead_letters_that_go_back_are_not_lost_when_the_node_is_killed(network: Network) -> None:
    network.configure("hq", **QUICKLY_DEAD)
    await network.start()
    payloads = await send(network, *(f"queue:sales/{queue}" for queue in ("a", "a@hq", "b", "b@hq")))
    async with network.client("hq") as client:
        await network.until(
            "hq", lambda status: status["dead"]["messages"] == MESSAGES, "burying all of them"
        )
        await client.create("sales/a")
        await client.create("sales/b")
    network.configure("hq", **LATER_DEAD)
    cut_off = 0
    for _ in range(KILLS):
        cut_off += (await killed_in_the_middle(network, "/api/dead/return", {"all": True}, "sales", 1))[0]
        dead = int((await network.status("hq"))["dead"]["messages"])
        assert dead + await waiting(network, "sales") == MESSAGES
    assert cut_off, "a kill came before the answer"
    await ask(network, "POST", "/api/dead/return", {"all": True})
    assert await all_of(network, "sales/a", "sales/b") == Counter(payloads)
