"""Addresses that a parent has announced are dialled: real nodes in this process, lines that can be cut."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from nodes import running_node
from waiting import until

from broker.cli.demo.plan import free_ports
from broker.node import Node
from config.behaviour import Link
from config.model import AdvisoryLog, ClientTls, Listener, Site, TreeConnector
from config.rules import check
from sapwood.protocol.errors import Refusal


class Line:
    """A line to a port, which can be cut and mended. `port`: where it is dialled; `taken`: how often."""

    def __init__(self, port: int, to: int) -> None:
        self.port, self._to = port, to
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.taken = 0

    @property
    def uri(self) -> str:
        return f"ws://127.0.0.1:{self.port}/link"

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)

    async def cut(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for writer in list(self._writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.taken += 1
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, onward}
        await asyncio.gather(self._copy(reader, onward), self._copy(there, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)


@asynccontextmanager
async def running(site: Site) -> AsyncIterator[Node]:
    async with running_node(check(site)) as node:
        yield node


def dialling(node: Node) -> dict[str, object]:
    supervisor = node.report.diallers.main
    assert supervisor is not None
    return supervisor.status()


def linked_over(node: Node, line: Line) -> bool:
    parent = node.core.parent
    return parent is not None and parent.up and dialling(node)["uri"] == line.uri


class World:
    """hq, two lines to it, and a store whose file knows the first of them."""

    def __init__(self, folder: Path) -> None:
        hq, first, second = free_ports(3)
        self.first, self.second = Line(first, hq), Line(second, hq)
        quick = Link(backoff_initial=0.05, backoff_max=0.1)
        silent = AdvisoryLog(enabled=False)
        self.hq = Site(name="hq", data=folder / "hq", listener=Listener(port=hq), advisory_log=silent)
        way = TreeConnector(nodetype="leaf", uri=self.first.uri, go_back=0.2)
        self.york = Site(
            name="york",
            data=folder / "york",
            listener=Listener(port=0),
            link=quick,
            advisory_log=silent,
            tree_connectors=(way,),
        )

    def york_with(self, **changes: object) -> Site:
        """The store, its connector changed."""
        return replace(self.york, tree_connectors=(replace(self.york.tree_connectors[0], **changes),))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    await made.first.mend()
    await made.second.mend()
    yield made
    await made.first.cut()
    await made.second.cut()


def announce(node: Node, line: Line) -> None:
    node.core.logical_addresses.announce([line.uri])
    node.wake()


async def test_what_is_announced_is_dialled_when_the_way_of_the_file_fails(world: World) -> None:
    async with running(world.hq) as hq:
        async with running(world.york) as york:
            await until(lambda: linked_over(york, world.first))
            announce(hq, world.second)
            await until(lambda: dialling(york)["announced"] == [world.second.uri])
            assert linked_over(york, world.first), "what works stays"
            await world.first.cut()
            await until(lambda: linked_over(york, world.second))
        async with running(world.york) as york:
            await until(lambda: linked_over(york, world.second))
            assert world.first.taken, "it is on disk: the file's way is tried first, and fails"
            await world.first.mend()
            await until(lambda: linked_over(york, world.first))


async def test_a_link_that_is_refused_once_it_is_up_has_failed_and_the_next_one_waits_longer(
    world: World,
) -> None:
    """As one of two nodes with one name, which was dialled anew at once, and never said to fail."""
    async with running(world.hq) as hq, running(world.york) as york:
        for number in (1, 2, 3):
            await until(lambda: linked_over(york, world.first) and "york" in hq.core.neighbours)
            link = hq.core.neighbours["york"].link
            assert link is not None
            hq.core.admission.handle(link, link.refuse(Refusal.NAME, "'york' is live elsewhere"))
            hq.driver.wake()
            await until(lambda number=number: dialling(york)["failures"] == number)
            assert "live elsewhere" in str(dialling(york)["error"])


async def test_of_several_ways_that_fail_each_says_so_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """They took turns, and each try was a line in the log, as long as the parent was away."""
    await world.first.cut()
    await world.second.cut()
    async with running(world.york_with(uris=(world.second.uri,))) as york:
        await until(lambda: int(str(dialling(york)["failures"])) >= 6)
    said = [record.message for record in caplog.records if "cannot be reached" in record.message]
    assert [line.uri in text for line, text in zip((world.first, world.second), said, strict=True)] == [
        True,
        True,
    ]


async def test_the_strategy_prefers_it_or_not(world: World) -> None:
    async with running(world.hq) as hq, running(world.york_with(strategy="load-shared")) as york:
        await until(lambda: linked_over(york, world.first))
        announce(hq, world.second)
        await until(lambda: dialling(york)["announced"] == [world.second.uri])
        supervisor = york.report.diallers.main
        assert supervisor is not None
        ways = [await supervisor.ways.next() for _ in range(4)]
        assert {way.uri for way in ways} == {world.first.uri, world.second.uri}
        assert {way.name for way in ways if way.uri == world.second.uri} == {"hq"}


async def test_nobody_else_is_linked_with_where_the_parent_was_announced(
    world: World, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    stranger = replace(world.hq, name="mallory", data=tmp_path / "mallory", listener=Listener(port=port))
    async with AsyncExitStack() as stack:
        york = await stack.enter_async_context(running(world.york))
        async with running(world.hq) as hq:
            await until(lambda: linked_over(york, world.first))
            announce(hq, Line(port, port))
            await until(lambda: dialling(york)["announced"] == [f"ws://127.0.0.1:{port}/link"])
            await stack.enter_async_context(running(stranger))
            await world.first.cut()
            await until(lambda: "expected 'hq', but this is 'mallory'" in str(dialling(york)["error"]))
        assert [each.name for each in york.core.context.parents.values()] == ["hq"]


@pytest.mark.parametrize(
    ("changes", "announced", "dialled"),
    [
        ({}, "wss://hq.example.com:7600/link", True),
        ({}, "ws://hq.example.com:7600/link", False),
        ({}, "ws://127.0.0.1:1/link", True),
        ({"secret_env": "SECRET_OF_YORK"}, "ws://hq.example.com:7600/link", True),
        (
            {
                "uri": "wss://hq.example.com",
                "secret_env": "SECRET_OF_YORK",
                "tls": ClientTls(verify_hostname=False),
            },
            "ws://hq.example.com/link",
            False,
        ),
        ({}, "srv://hq.example.com", False),
        ({}, "nonsense", False),
    ],
)
async def test_only_what_proves_its_name_is_dialled(
    world: World, changes: dict[str, object], announced: str, dialled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_YORK", "a secret of twenty characters")
    async with running(world.york_with(**changes)) as york:
        supervisor = york.report.diallers.main
        assert supervisor is not None
        monkeypatch.setattr(york.core.mesh, "announced", lambda: {announced: "hq"})
        assert supervisor.status()["announced"] == ([announced] if dialled else [])
