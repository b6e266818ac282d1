"""Channels from below: a raw child lies in each field of what it opens, or opens many and reads nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import psutil
from harness import PATIENCE, Network
from thieves import Thief, thief

from treeconnector.link_events import StreamAccepted, StreamArrived, StreamBroken

MIB = 1 << 20
MANY = 600


class Service:
    """Says more than anybody will read. `there`: connections now; `were`: those that are over, too."""

    def __init__(self) -> None:
        self.there = self.were = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.there += 1
        self.were += 1
        with contextlib.suppress(OSError):
            writer.write(b"x" * (MIB // 2))
            await writer.drain()
            await reader.read(1)
        writer.close()
        self.there -= 1


@contextlib.asynccontextmanager
async def tree(network: Network) -> AsyncIterator[Service]:
    """hq offers its service to mallory and leeds, which may open that, and another one to hq alone."""
    service = Service()
    server = await asyncio.start_server(service.handle, "127.0.0.1", 0, backlog=4096)
    to = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    rules = {"consume": ["nothing"], "send": ["nothing"], "opens": ["till@*", "wages@hq"]}
    network.add(
        "hq",
        children=[{"name": name, **rules} for name in ("mallory", "leeds")],
        forwards=[
            {"name": "till", "to": to, "permit": ["mallory", "leeds"]},
            {"name": "wages", "to": to, "permit": ["hq"]},
            {"name": "safe", "to": to, "permit": ["*"]},
        ],
    )
    network.add("leeds", "hq", forwards=[{"name": "till", "to": to, "permit": ["*"]}])
    await network.start()
    await network.until_child("hq", "leeds")
    async with server:
        yield service


async def open_all(child: Thief, *asked: tuple[str, str, str, int]) -> list[int]:
    """Their numbers. Each is the node, the name, who asks, and links before this one."""
    found = []
    for number, (to, name, origin, hops) in enumerate(asked):
        found.append(child.link.say.open_stream(to, name, origin, number.to_bytes(16), hops))
        await child.say(*child.link.data_to_send())
    return found


LIES = {
    ("leeds", "till", "mallory", 1): "leeds serve",
    ("hq", "safe", "mallory", 1): "open channels to",
    ("hq", "wages", "mallory", 1): "does not offer wages to mallory",
    ("hq", "till", "leeds", 1): "ORIGIN",
    ("hq", "wages", "hq", 1): "ORIGIN",
    ("hq", "till", "mallory2", 1): "ORIGIN",
    ("hq", "tillX", "mallory", 1): "open channels to",
    ("nowhere", "till", "mallory", 1): "knows no node",
    ("mallory", "till", "mallory", 1): "no node mallory is below",
    ("leeds", "till", "mallory", 64): "more than",
}


async def test_a_child_that_lies_reaches_nothing(network: Network) -> None:
    async with tree(network) as service, thief(network) as child:
        await open_all(child, *LIES)
        await child.until(lambda: len(child.heard(StreamBroken)) == len(LIES), "each is refused")
        refused = [event.text for event in sorted(child.heard(StreamBroken), key=lambda event: event.stream)]
        for lie, text in zip(LIES.items(), refused, strict=True):
            assert lie[1] in text, (lie, text)
        assert (service.were, child.heard(StreamAccepted)) == (0, [])
        await open_all(child, ("hq", "till", "mallory", 1))
        await child.until(lambda: child.heard(StreamArrived), "what it may reach answers")
        assert service.were == 1


def resident(network: Network) -> int:
    """Bytes that hq has in memory."""
    return psutil.Process(network.nodes["hq"].pid).memory_info().rss


async def test_a_child_that_opens_all_and_reads_nothing_leaves_room_and_memory(network: Network) -> None:
    async with tree(network) as service, thief(network) as child:
        before = resident(network)
        await open_all(child, *[("hq", "till", "mallory", 1)] * MANY)
        await child.until(lambda: len(child.heard(StreamAccepted)) == MANY, "all are open")
        await child.until(lambda: service.there == MANY, "all are dialled")
        assert resident(network) - before < 60 * MIB
        url = f"{network.url('leeds')}/channel/hq/till"
        async with aiohttp.ClientSession() as session, session.ws_connect(url) as opened:
            assert await opened.receive_str(timeout=PATIENCE) == "open"
            assert len(await opened.receive_bytes(timeout=PATIENCE)) > 0
    async with asyncio.timeout(PATIENCE):
        while service.there:
            await asyncio.sleep(0.05)
