"""Channels: TCP services of a store, three levels below, reached through the links that are there.

hq <- north <- york <- shop
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from commands import Running, running, told
from harness import PATIENCE, Network

from broker.forwards.local_end import WINDOW
from treeconnector.streams import WINDOW as STREAM

CHAIN = ("hq", "north", "york", "shop")
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PERMITS = {"consume": ["#"], "send": ["#"], "nodes": ["*"]}


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read(-1))
    writer.close()


@contextlib.asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[int]:
    """A service on a port of this machine."""
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


class Forwarding:
    """`sapwood forward`, running."""

    def __init__(self, command: Running, port: int) -> None:
        self.process, self.says = command.process, command.complains
        self.port = port

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@contextlib.asynccontextmanager
async def forwarding(network: Network, node: str, target: str) -> AsyncIterator[Forwarding]:
    async with running("forward", "0", target, "--json", "--url", network.url(node)) as command:
        yield Forwarding(command, json.loads(await command.prints())["port"])


async def start(network: Network, *forwards: dict[str, Any], serves: tuple[str, ...] = ("*@shop",)) -> None:
    for place, name in enumerate(CHAIN):
        parent = CHAIN[place - 1] if place else ""
        more: dict[str, Any] = {"permits": PERMITS | {"serves": serves}} if name != "shop" else {}
        if name == "shop":
            more["forwards"] = forwards
        network.add(name, parent, role="leaf" if name == "shop" else "branch", **more)
    await network.start()
    for parent, child in pairwise(CHAIN):
        await network.until_child(parent, child)
    await until(lambda: is_known(network))


async def is_known(network: Network) -> bool:
    """Has the root heard of the store?"""
    rows = network.log_rows("hq")
    return any(row.kind == "domain" and row.destination == "shop" and row.op == "add" for row in rows)


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await true():
            await asyncio.sleep(0.05)


async def channels(network: Network, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await told(network, node, "channels"))["channels"]
    return found


def offered(port: int, name: str = "till", permit: tuple[str, ...] = ("hq",)) -> dict[str, Any]:
    return {"name": name, "to": f"127.0.0.1:{port}", "permit": permit}


async def test_a_web_page_three_levels_below(network: Network) -> None:
    body = os.urandom(3_000_000)
    app = web.Application()

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=body)

    app.router.add_get("/", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        await start(network, offered(runner.addresses[0][1]))
        patient = aiohttp.TCPConnector(keepalive_timeout=PATIENCE)  # the channel stays while it is looked at
        async with (
            forwarding(network, "hq", "shop:till") as here,
            aiohttp.ClientSession(connector=patient) as session,
            session.get(f"http://127.0.0.1:{here.port}/") as answer,
        ):
            assert await answer.read() == body
            ways = []
            for name in CHAIN:
                (channel,) = await channels(network, name)
                ways.append((channel["near"], channel["far"], channel["state"], channel["origin"]))
                assert channel["back"] > len(body)
            assert ways[1:3] == [("hq", "york", "open", "hq"), ("north", "shop", "open", "hq")]
            assert (await told(network, "shop", "channels"))["offers"] == ["till"]
        async with asyncio.timeout(PATIENCE):
            while await channels(network, "shop"):
                await asyncio.sleep(0.05)
    finally:
        await runner.cleanup()


async def test_each_direction_ends_by_itself(network: Network) -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait(await reader.read(-1))
        writer.write(b"heard")
        writer.close()

    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.write_eof()
        heard.put_nowait(await reader.read(-1))
        writer.close()

    async with serving(listens) as first, serving(greets) as second:
        await start(network, offered(first, "listens"), offered(second, "greets"))
        async with (
            forwarding(network, "hq", "shop:listens") as there,
            forwarding(network, "hq", "shop:greets") as back,
        ):
            reader, writer = await there.connect()
            writer.write(b"x" * 500_000)
            writer.write_eof()
            assert await reader.read(-1) == b"heard"
            assert await heard.get() == b"x" * 500_000
            writer.close()
            reader, writer = await back.connect()
            assert await reader.read(-1) == b"hello"
            writer.write(b"y" * 500_000)
            writer.write_eof()
            assert await heard.get() == b"y" * 500_000
            writer.close()
            await until(lambda: nothing_open(network))


async def nothing_open(network: Network) -> bool:
    return not any([await channels(network, name) for name in CHAIN])


async def is_reset(here: Forwarding) -> bool:
    reader, writer = await here.connect()
    try:
        return await reader.read(1) == b"never"
    except ConnectionResetError:
        return True
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("offers", "serves", "target", "why"),
    [
        ([], ("*@shop",), "shop:till", "offers nothing as till"),
        ([{"name": "till", "to": "127.0.0.1:1", "permit": ["north"]}], ("*@shop",), "shop:till", "not offer"),
        ([{"name": "till", "to": "127.0.0.1:1", "permit": ["hq"]}], (), "shop:till", "lets north serve"),
        ([{"name": "till", "to": "127.0.0.1:1", "permit": ["hq"]}], ("*@shop",), "shop:till", "not reach"),
        ([], ("*@shop",), "nowhere:till", "knows no node nowhere"),
    ],
    ids=["not offered", "not to hq", "not through north", "nobody listens", "no such node"],
)
async def test_what_is_not_there_or_not_permitted_is_refused(
    network: Network, offers: list[dict[str, Any]], serves: tuple[str, ...], target: str, why: str
) -> None:
    await start(network, *offers, serves=serves)
    async with forwarding(network, "hq", target) as here:
        assert await is_reset(here)
        assert why in await here.says()
    assert (await told(network, "hq", "channels"))["refused"] == 1
    assert await nothing_open(network)


async def test_a_store_reaches_above_itself_what_it_may_open(network: Network) -> None:
    async with serving(echo) as port:
        service = [offered(port, "prices", ("shop",)), offered(port, "wages", ("shop",))]
        network.add("hq", permits=PERMITS | {"opens": ["prices@hq"]}, forwards=service)
        network.add("shop", "hq")
        await network.start()
        async with forwarding(network, "shop", "hq:prices") as prices:
            reader, writer = await prices.connect()
            writer.write(b"bread")
            writer.write_eof()
            assert await reader.read(-1) == b"bread"
            writer.close()
        async with forwarding(network, "shop", "hq:wages") as wages:
            assert await is_reset(wages)
            assert "hq lets shop open channels to prices@hq, not wages@hq" in await wages.says()


def stays(ends: asyncio.Queue[str]) -> Handler:
    """A service that gives back five bytes, and tells how the connection ended."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(await reader.read(5))
            ends.put_nowait("an end" if await reader.read(1) == b"" else "more")
        except ConnectionResetError:
            ends.put_nowait("an error")
        finally:
            writer.close()

    return handle


@pytest.mark.parametrize(
    ("killed", "said"),
    [
        ("hq", ""),
        ("york", "the link between north and york is broken"),
        ("shop", "the link between york and shop is broken"),
    ],
)
async def test_any_node_of_the_way_is_killed_and_both_ends_have_an_error(
    network: Network, killed: str, said: str
) -> None:
    ends: asyncio.Queue[str] = asyncio.Queue()

    async with serving(stays(ends)) as port:
        await start(network, offered(port))
        async with forwarding(network, "hq", "shop:till") as here:
            reader, writer = await here.connect()
            writer.write(b"hello")
            assert await reader.read(5) == b"hello"
            network.kill(killed)
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(1), PATIENCE)
            assert await asyncio.wait_for(ends.get(), PATIENCE) == "an error"
            assert said in await here.says()
            await network.start(killed)
            for parent, child in pairwise(CHAIN):
                await network.until_child(parent, child)
            writer.close()
            reader, writer = await here.connect()
            writer.write(b"again")
            assert await reader.read(5) == b"again"
            writer.close()


SERVICE = """
import asyncio, sys

async def handle(reader, writer):
    writer.write(await reader.read(5))
    await reader.read(1)

async def main():
    async with await asyncio.start_server(handle, "127.0.0.1", int(sys.argv[1])) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def service(port: int = 0) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A service that is a program of its own, and its port."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVICE, str(port), stdout=pipe)
    try:
        assert process.stdout is not None
        yield process, int(await asyncio.wait_for(process.stdout.readline(), PATIENCE))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_the_service_is_killed_and_its_successor_is_reached(network: Network) -> None:
    async with service() as (first, port):
        await start(network, offered(port))
        async with forwarding(network, "hq", "shop:till") as here:
            reader, writer = await here.connect()
            writer.write(b"hello")
            assert await reader.read(5) == b"hello"
            first.kill()
            assert await asyncio.wait_for(reader.read(1), PATIENCE) == b""  # as TCP ends what was all read
            writer.close()
            assert await is_reset(here)
            assert "shop does not reach till" in await here.says()
            async with service(port):
                reader, writer = await here.connect()
                writer.write(b"again")
                assert await reader.read(5) == b"again"
                writer.close()


async def test_a_line_that_falls_silent_ends_both_ends(network: Network) -> None:
    ends: asyncio.Queue[str] = asyncio.Queue()
    times = {"link": {"keep_alive": "500ms", "dead_after": "5s"}}

    async with serving(stays(ends)) as port:
        network.add("hq", permits=PERMITS | {"serves": ["*@shop"]}, **times)
        network.add("shop", "hq", line=True, forwards=[offered(port)], **times)
        await network.start()
        await network.until_child("hq", "shop")
        async with forwarding(network, "hq", "shop:till") as here:
            reader, writer = await here.connect()
            writer.write(b"hello")
            assert await reader.read(5) == b"hello"
            network.line("shop").stall()
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(1), PATIENCE)
            assert await asyncio.wait_for(ends.get(), PATIENCE) == "an error"
            assert "the link between hq and shop is broken" in await here.says()
            writer.close()


async def test_who_forwards_is_killed_and_the_service_has_an_error(network: Network) -> None:
    ends: asyncio.Queue[str] = asyncio.Queue()

    async with serving(stays(ends)) as port:
        await start(network, offered(port))
        async with forwarding(network, "hq", "shop:till") as here:
            reader, writer = await here.connect()
            writer.write(b"hello")
            assert await reader.read(5) == b"hello"
            here.process.send_signal(signal.SIGKILL)
            assert await asyncio.wait_for(ends.get(), PATIENCE) == "an error"
            writer.close()
        await until(lambda: nothing_open(network))


async def test_a_slow_reader_costs_bounded_memory_and_stops_its_own_sender_only(network: Network) -> None:
    sent = 0
    size = 64_000_000  # more than the sockets on its way can hold

    async def pours(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _ in range(size // 100_000):
            writer.write(b"z" * 100_000)
            await writer.drain()
            sent += 100_000
        writer.close()

    async with serving(pours) as first, serving(echo) as second:
        await start(network, offered(first, "pours"), offered(second, "echo"))
        async with (
            forwarding(network, "hq", "shop:pours") as slow,
            forwarding(network, "hq", "shop:echo") as quick,
        ):
            reader, writer = await slow.connect()
            assert await reader.readexactly(10) == b"z" * 10
            waiting: dict[str, int] = {}
            before = -1
            while before != sent:
                before = sent
                for name in CHAIN:
                    (channel,) = await channels(network, name)
                    waiting[name] = channel["waiting"]
            assert sent < size
            assert all(each <= STREAM + WINDOW for each in waiting.values()), waiting
            assert sum(waiting.values()) > 0
            other, said = await quick.connect()
            said.write(b"hello")
            said.write_eof()
            assert await asyncio.wait_for(other.read(-1), PATIENCE) == b"hello"
            rest = await asyncio.wait_for(reader.read(-1), PATIENCE)
            assert rest == b"z" * (size - 10)
            writer.close()
            said.close()


async def test_two_hundred_at_once(network: Network) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async with serving(echo) as port:
        await start(network, offered(port))
        async with forwarding(network, "hq", "shop:till") as here:
            lines = await asyncio.gather(*(here.connect() for _ in range(200)))
            bodies = [os.urandom(30_000) for _ in lines]

            async def talk(place: int) -> bytes:
                reader, writer = lines[place]
                writer.write(bodies[place])
                return await reader.readexactly(30_000)

            async with asyncio.timeout(PATIENCE):
                assert await asyncio.gather(*map(talk, range(200))) == bodies
            found = await told(network, "york", "channels", "--limit", "150")
            assert (len(found["channels"]), found["more"]) == (150, 50)
            for _, writer in lines:
                writer.close()
            await until(lambda: nothing_open(network))


async def test_a_file_that_is_read_again_counts_for_open_channels_too(network: Network) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionResetError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async with serving(echo) as port:
        await start(network, offered(port))
        async with forwarding(network, "hq", "shop:till") as here:
            reader, writer = await here.connect()
            writer.write(b"hello")
            assert await reader.read(5) == b"hello"
            network.configure("shop", "york", forwards=[offered(port, "other")])
            await told(network, "shop", "permits", "reload")
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(1), PATIENCE)
            assert "shop offers nothing as till" in await here.says()
            writer.close()
