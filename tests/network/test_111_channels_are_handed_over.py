"""Channels between applications, handed over by message: each way, their ends, and who may not.

hq <- north <- shop
"""

import asyncio
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from commands import told
from harness import PATIENCE, Network

from sapwood import channels, connect, sync
from sapwood.channels import AppChannel, ChannelFailed, ChannelUrls

pytestmark = pytest.mark.usefixtures("forked_channels")
CHAIN = ("hq", "north", "shop")
PERMITS = {"consume": ["#"], "send": ["#"], "nodes": ["*"]}
SERVES = {"serves": ["channel-*@*"], "opens": ["channel-*@*"]}
OPEN = {"offered_to": ["*"], "taken_from": ["*"], "listen": ["127.0.0.1"]}
WAYS = ("unix", "tcp", "tree")
MOST_CONNECTIONS = 4
"""On the way through the tree: either end with its node, and two links."""


async def start(network: Network, permits: dict[str, Any] = SERVES, **sections: dict[str, Any]) -> None:
    for place, node in enumerate(CHAIN):
        more: dict[str, Any] = {"channels": sections.get(node, OPEN)}
        if node != "shop":
            more["permits"] = PERMITS | permits
        network.add(
            node, CHAIN[place - 1] if place else "", role="leaf" if node == "shop" else "branch", **more
        )
    await network.start()
    for parent, child in pairwise(CHAIN):
        await network.until_child(parent, child)
    async with asyncio.timeout(PATIENCE):
        while not any(
            row.kind == "domain" and row.destination == "shop" and row.op == "add"
            for row in network.log_rows("hq")
        ):
            await asyncio.sleep(0.05)


class Pair:
    """A channel that an application at the store has made, and one at headquarters has taken."""

    def __init__(self, made: AppChannel, taken: AppChannel) -> None:
        self.made, self.taken = made, taken

    async def streams(self) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        return [await self.made.stream(), await self.taken.stream()]


async def handed_over(network: Network, stack: AsyncExitStack, way: str) -> Pair:
    """By a message, as an application does it."""
    shop = await stack.enter_async_context(connect(network.url("shop")))
    hq = await stack.enter_async_context(connect(network.url("hq")))
    await hq.create("pictures")
    subscription = hq.subscribe("queue:pictures")
    made, given = await channels.make(shop)
    stack.callback(made.close)
    await shop.send("queue:pictures", given.to_json())
    delivery = await asyncio.wait_for(subscription.next(), PATIENCE)
    assert delivery is not None
    taken = await channels.take(hq, ChannelUrls.from_json(delivery.payload), ways=(way,))
    stack.callback(taken.close)
    return Pair(made, taken)


@pytest.mark.parametrize("way", WAYS)
async def test_bytes_go_both_ways_and_each_direction_ends_by_itself(network: Network, way: str) -> None:
    await start(network)
    async with AsyncExitStack() as stack:
        pair = await handed_over(network, stack, way)
        assert pair.taken.way == way
        (there, to_there), (here, to_here) = await pair.streams()
        large = os.urandom(3_000_000)
        to_there.write(large)
        to_there.write_eof()
        async with asyncio.timeout(PATIENCE):
            assert await here.read() == large
            to_here.write(large[::-1])
            to_here.write_eof()
            assert await there.read() == large[::-1]
        for writer in (to_there, to_here):
            writer.close()


def bytes_of_a_connection() -> int:
    """The most that this system keeps of one TCP connection for whoever does not read: what it grows to."""
    most = (Path(f"/proc/sys/net/ipv4/tcp_{way}mem").read_text(encoding="ascii").split()[2] for way in "rw")
    return sum(map(int, most))


@pytest.mark.parametrize("way", WAYS)
async def test_a_slow_reader_stops_the_writer(network: Network, way: str) -> None:
    """More is never under way than buffers have, however much is written."""
    await start(network)
    async with AsyncExitStack() as stack:
        pair = await handed_over(network, stack, way)
        pair.made.socket.setblocking(False)
        written, part, still = 0, bytes(256 * 1024), 0
        async with asyncio.timeout(PATIENCE):
            while still < 20:
                try:
                    written += pair.made.socket.send(part)
                    still = 0
                except BlockingIOError:
                    still += 1
                    await asyncio.sleep(0.05)
        assert written < MOST_CONNECTIONS * bytes_of_a_connection()
        here, to_here = await pair.taken.stream()
        async with asyncio.timeout(PATIENCE):
            assert len(await here.readexactly(written)) == written
        to_here.close()


APPLICATION = """
import os, signal, sys
from sapwood import channels, sync

with sync.connect(sys.argv[1]) as client:
    channel, given = channels.make_now(client)
    client.send("queue:pictures", given.to_json())
    channel.socket.sendall(b"first")
    print("sent", flush=True)
    channel.socket.recv(1, 2)  # MSG_PEEK: something is there, and stays unread
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("way", WAYS)
async def test_an_application_that_is_killed_is_an_error_at_the_other_end(network: Network, way: str) -> None:
    await start(network)
    async with connect(network.url("hq")) as hq:
        await hq.create("pictures")
        subscription = hq.subscribe("queue:pictures")
        killed = await asyncio.create_subprocess_exec(
            sys.executable, "-c", APPLICATION, network.url("shop"), stdout=asyncio.subprocess.PIPE
        )
        try:
            delivery = await asyncio.wait_for(subscription.next(), PATIENCE)
            assert delivery is not None
            taken = await channels.take(hq, ChannelUrls.from_json(delivery.payload), ways=(way,))
            here, to_here = await taken.stream()
            async with asyncio.timeout(PATIENCE):
                assert await here.readexactly(5) == b"first"
                to_here.write(b"never read")
                with pytest.raises(ConnectionError):
                    assert await here.read() == b"an error"
            to_here.close()
            assert await killed.wait() == -signal.SIGKILL
        finally:
            if killed.returncode is None:
                killed.kill()
                await killed.wait()


async def test_a_node_on_the_way_that_is_killed_is_an_error_at_both_ends(network: Network) -> None:
    await start(network)
    async with AsyncExitStack() as stack:
        pair = await handed_over(network, stack, "tree")
        (there, to_there), (here, to_here) = await pair.streams()
        to_there.write(b"x")
        assert await asyncio.wait_for(here.readexactly(1), PATIENCE) == b"x"
        network.kill("north")
        async with asyncio.timeout(PATIENCE):
            for reader in (there, here):
                with pytest.raises(ConnectionError):
                    assert await reader.read() == b"an error"
        for writer in (to_there, to_here):
            writer.close()


async def test_it_is_taken_once_by_the_best_way_and_nothing_is_left_of_it(network: Network) -> None:
    await start(network)
    async with connect(network.url("shop")) as shop, connect(network.url("hq")) as hq:
        made, given = await channels.make(shop)
        assert [url.partition(":")[0] for url in given.urls] == ["unix", "tcp", "sapwood"]
        folder = Path(given.urls[0].removeprefix("unix:")).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        with made, await channels.take(hq, given) as taken:
            assert taken.way == "unix"
            with pytest.raises(ChannelFailed) as failed:
                await channels.take(hq, given)
            assert "has no such channel" in str(failed.value) or "unreachable" in str(failed.value)
            assert not folder.exists()
            made.socket.sendall(b"x")
            assert taken.socket.recv(1) == b"x"
        assert given.secret not in repr(given)


@pytest.mark.parametrize("way", WAYS)
async def test_without_the_secret_nobody_gets_it(network: Network, way: str) -> None:
    await start(network)
    async with connect(network.url("shop")) as shop, connect(network.url("hq")) as hq:
        made, given = await channels.make(shop)
        wrong = ChannelUrls(urls=given.urls, secret="A" * 43)
        with made, pytest.raises(ChannelFailed):
            await channels.take(hq, wrong, ways=(way,))


async def test_nobody_takes_it_in_time(network: Network) -> None:
    await start(network)
    async with connect(network.url("shop")) as shop:
        made, given = await channels.make(shop, wait=0.2)
        there, to_there = await made.stream()
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(there.read(), PATIENCE)
        to_there.close()
        assert not Path(given.urls[0].removeprefix("unix:")).exists()


async def test_through_the_tree_it_is_closed_by_default(network: Network) -> None:
    """Each of four has to open it: the node of either application, and the parent of either link."""
    await start(network, permits={})
    async with connect(network.url("shop")) as shop, connect(network.url("hq")) as hq:
        made, given = await channels.make(shop)
        with made, pytest.raises(ChannelFailed, match="PERMIT"):
            await channels.take(hq, given, ways=("tree",))


async def test_a_file_that_says_nothing_of_channels_lets_nothing_out_of_the_machine(network: Network) -> None:
    await start(network, shop={})
    async with connect(network.url("shop")) as shop, connect(network.url("hq")) as hq:
        made, given = await channels.make(shop)
        with made, await channels.take(hq, given) as taken:
            assert ([url.partition(":")[0] for url in given.urls], taken.way) == (["unix"], "unix")
        made, given = await channels.make(hq)
        with made, pytest.raises(ChannelFailed, match="taken_from"):
            await channels.take(shop, given, ways=("tree",))


def test_programs_without_asyncio_have_a_descriptor(tmp_path: Path) -> None:
    async def tree() -> None:
        async with Network(tmp_path) as network:
            await start(network)
            await asyncio.to_thread(blocking, network.url("shop"), network.url("hq"))
            seen = (await told(network, "north", "channels"))["opened"]
            assert seen == 1

    def blocking(below: str, above: str) -> None:
        with sync.connect(below) as shop, sync.connect(above) as hq:
            made, given = channels.make_now(hq)
            taken = channels.take_now(shop, given, ways=("tree",))
            descriptor = taken.detach()
            os.write(descriptor, b"as a file")
            assert made.socket.recv(9, socket.MSG_WAITALL) == b"as a file"
            made.close()
            os.close(descriptor)

    asyncio.run(tree())
