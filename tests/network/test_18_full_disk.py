"""A disk that fills refuses producers and loses nothing; a node that leaves gives its messages back."""

import asyncio
import os
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from harness import Network, child_state, receiving, until_count, waiting
from quick import QUICK_SITE, expect, numbers, recording

from broker.cli.demo.processes import Status
from sapwood.client import Client
from sapwood.errors import SendRejected, Unconfirmed

MEBIBYTE = 1024 * 1024
DISK = 48 * MEBIBYTE
ROOM = 16 * MEBIBYTE
SIZE = 32 * 1024


@contextmanager
def small_disk(folder: Path) -> Iterator[bool]:
    """A disk of its own for `folder`, if we may mount one: yields whether."""
    folder.mkdir(parents=True)
    options = ["-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(["mount", *options], check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


class Till:
    """Sends large messages one by one, and knows which were confirmed."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._random = random.Random(18)
        self.confirmed: list[bytes] = []

    async def send(self) -> None:
        number = len(self.confirmed)
        payload = f"{number:06}".encode() + self._random.randbytes(SIZE)
        await self._client.send("queue:sales", payload)
        self.confirmed.append(payload)

    async def has_sent(self, count: int) -> None:
        while len(self.confirmed) < count:
            await asyncio.sleep(0)

    async def send_until_refused(self) -> str:
        """Returns what the node said."""
        for _ in range(DISK // SIZE):
            try:
                await self.send()
            except SendRejected as error:
                return str(error)
        raise AssertionError("the node took more than its disk holds")


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


async def _ready(network: Network, name: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"{network.url(name)}/readyz") as answer:
        return answer.status


async def test_a_disk_that_fills_refuses_producers_until_there_is_space(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    with small_disk(network.data("york")):
        ballast = network.data("york") / "ballast"
        ballast.write_bytes(bytes(ROOM))
        reserve = _free(network.data("york")) - ROOM
        network.add("york", "hq", line=True, **QUICK_SITE, limits={"disk_reserve": reserve})
        await network.start()
        await network.line("york").cut()
        async with network.client("york") as york, network.client("hq") as hq:
            till = Till(york)
            refused, refusing = await _fill_room(network, till)
            assert "QUEUE_FULL" in refused
            assert "the disk of node york is nearly full" in refused
            assert len(till.confirmed) * SIZE > ROOM // 8
            assert "nearly full" in refusing
            ballast.unlink()
            await network.until("york", lambda status: bool(status["ready"]), "ready again")
            assert await _ready(network, "york") == 200
            await till.send()
            async with recording(hq, "queue:sales") as sales:
                await network.line("york").restore()
                await expect(sales, till.confirmed)
        await network.until_drained("york")
        assert await network.stop("york") == 0


async def _fill_room(network: Network, till: Till) -> tuple[str, str]:
    """Send until york refuses all; what it told its client, and why it is not ready.

    A node that tidies up in a quiet moment has room again.
    """
    while True:
        refused = await till.send_until_refused()
        status = await network.status("york")
        if not status["ready"] and await _ready(network, "york") == 503:
            return refused, str(status["refusing"])


def _fill_disk(ballast: Path) -> None:
    """Leave not one byte to others."""
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(SIZE))


async def _run_into_the_end_of_the_disk(network: Network, till: Till, ballast: Path) -> None:
    """Take the disk away from under york while it sends, before it looks how much is free."""
    node = network.nodes["york"]
    while b"the disk is full" not in node.log.read_bytes():
        ballast.unlink(missing_ok=True)
        await network.until("york", lambda status: bool(status["ready"]), "ready")
        filling = asyncio.create_task(till.send_until_refused())
        await till.has_sent(len(till.confirmed) + 2)
        _fill_disk(ballast)
        assert "the disk of node york is nearly full" in await filling


async def test_a_disk_that_another_program_fills_is_outlived_and_loses_nothing(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    with small_disk(network.data("york")) as mounted:
        if not mounted:
            pytest.skip("mounting needs root; tests/broker/store/test_full_disk.py covers the rest")
        ballast = network.data("york") / "ballast"
        network.add("york", "hq", line=True, **QUICK_SITE, limits={"disk_reserve": 1})
        await network.start()
        await network.line("york").cut()
        async with network.client("york") as york, network.client("hq") as hq:
            till = Till(york)
            await _run_into_the_end_of_the_disk(network, till, ballast)
            assert await _ready(network, "york") == 503
            async with recording(hq, "queue:sales") as sales:
                await network.line("york").restore()
                await until_count(sales.payloads, len(till.confirmed))
                await network.until_drained("york")  # and still not a byte is free to others
                assert await _ready(network, "york") == 503
                ballast.unlink()
                await network.until("york", lambda status: bool(status["ready"]), "ready again")
                await till.send()
                await expect(sales, till.confirmed)
        assert network.nodes["york"].starts == 1
        assert await network.stop("york") == 0


async def test_a_disk_that_cannot_be_written_stops_the_node_and_loses_nothing(network: Network) -> None:
    network.add("hq", **QUICK_SITE)
    network.add("york", "hq", line=True, **QUICK_SITE)
    await network.start()
    await network.line("york").cut()
    york = await network.client("york").open()
    york._timeout = 1.0  # nobody will be there to confirm what comes last
    till = Till(york)
    await till.send()
    resource.prlimit(network.nodes["york"].pid, resource.RLIMIT_FSIZE, (MEBIBYTE, MEBIBYTE))
    filling = asyncio.create_task(till.send_until_refused())
    assert await network.nodes["york"].exited() == 1
    filling.cancel()
    await asyncio.gather(filling, return_exceptions=True)
    words = network.nodes["york"].last_words()
    assert "write failed" in words
    assert "nothing that was acknowledged is lost" in words
    with pytest.raises(Unconfirmed):
        await york.close()
    confirmed = till.confirmed
    assert confirmed
    await network.line("york").restore()
    await network.start("york")
    async with network.client("hq") as hq, recording(hq, "queue:sales") as sales:
        await until_count(sales.payloads, len(confirmed))
        await network.until_drained("york")
        assert sales.payloads[: len(confirmed)] == confirmed
        assert len(sales.payloads) <= len(confirmed) + 1, "at most the one that was not confirmed"
    assert await network.stop("york") == 0


async def _ask(network: Network, name: str, what: str) -> dict[str, Any]:
    url = f"{network.url(name)}/api/node/{what}"
    async with aiohttp.ClientSession() as session, session.post(url) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, Any] = await answer.json()
        return found


async def _region_with_a_store(network: Network, **york: Any) -> None:
    """hq above north above york, which is never dormant; and bath below hq."""
    settings: dict[str, Any] = QUICK_SITE | {"advisories": {"dormant_after": "1h", "reattach_time": "500ms"}}
    network.add("hq", **settings)
    network.add("north", "hq", role="branch", **settings)
    network.add("york", "north", **settings, **york)
    network.add("bath", "hq", **settings)
    await network.start()


def _via_north(status: Status) -> dict[str, int]:
    """How many routes of each kind hq has through its region."""
    found = (key.split("/") for key in status["routes"])
    return {kind: status["routes"][f"{kind}/north"] for kind, gateway in found if gateway == "north"}


async def test_what_waited_for_a_node_that_is_forgotten_is_routed_again(network: Network) -> None:
    await _region_with_a_store(network)
    async with network.client("hq") as hq, network.client("bath") as bath:
        async with network.client("york") as york:
            await york.create("orders")
            await york.subscribe("queue:orders").ready()
            await york.subscribe("topic:offers/#", durable="till").ready()
            await network.until_known("hq", "topic:offers/#")
            assert await network.stop("york") == 0
        await network.until_child("north", "york", "down")
        await hq.send_many("queue:orders", numbers(300))
        await hq.send_many("topic:offers/today", numbers(40))
        await network.until("north", lambda status: waiting(status) == 340, "keeping all for york")
        assert _via_north(await network.status("hq")) == {"domain": 2, "queue": 1, "topic": 1}
        async with receiving(bath, "queue:orders") as orders:
            assert (await _ask(network, "north", "forget/york"))["forgotten"] == "york"
            await until_count(orders, 300)
            assert sorted(delivery.payload for delivery in orders) == sorted(numbers(300))
        north = await network.until_drained("north")
        assert child_state(north, "york") == ""
        assert north["dead"]["messages"] == 0
        assert north["counters"]["unsubscribed"] == 40
        await network.until("hq", lambda status: _via_north(status) == {"domain": 1}, "without york's routes")


async def send_each(client: Client, payloads: list[bytes]) -> None:
    """Each message in a bundle of its own."""
    for payload in payloads:
        await client.send("queue:orders", payload)


def _is_held(status: Status) -> bool:
    return any(link["held_by_peer"] for link in status["children"])


async def test_a_node_that_leaves_gives_back_what_it_had_no_room_for(network: Network) -> None:
    await _region_with_a_store(network, limits={"spool": {"max_bytes_down": SIZE}})
    chance = random.Random(19)
    payloads = [chance.randbytes(SIZE // 10) for _ in range(100)]
    async with network.client("hq") as hq, network.client("bath") as bath:
        async with network.client("york") as york:
            await york.create("orders")
            await york.subscribe("queue:orders", credit=1).ready()
            await network.until_known("hq", "queue:orders")
            await send_each(hq, payloads[:11])
            await network.until("north", _is_held, "asked to hold")
            await send_each(hq, payloads[11:20])
            await network.until("hq", _is_held, "asked to hold in turn")
            await send_each(hq, payloads[20:])
            await network.until("hq", lambda status: waiting(status) >= 80, "keeping the rest")
            left = await _ask(network, "york", "leave")
            assert left["left"] == "north"
            kept = left["messages_kept_here"]
            assert 10 <= kept <= 20, "its spool has room for ten, and the line for some more"
            assert await network.nodes["york"].exited() == 0
        await network.until("hq", lambda status: _via_north(status) == {"domain": 1}, "without york's routes")
        async with receiving(bath, "queue:orders") as orders:
            await until_count(orders, len(payloads) - kept)
            north = await network.until_drained("north")
            assert child_state(north, "york") == ""
            await network.start("york")
            await until_count(orders, len(payloads))
            assert sorted(delivery.payload for delivery in orders) == sorted(payloads)
