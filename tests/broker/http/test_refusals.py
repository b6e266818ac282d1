"""Whatever an operator has open ends when the file takes the right to it away; all else goes on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from broker.core.messages.queue import Queue
from broker.entrance.operators import Operators, hash_of
from broker.node import Node
from config.channels import Forward
from config.model import AdvisoryLog, Listener, Site
from config.operators import Operator, Role

PATIENCE = 60
OTTO = {"Authorization": "Bearer otto's"}
ENDED = (aiohttp.ClientError, ConnectionError, EOFError)


def otto(role: Role = "operator") -> Operator:
    return Operator(name="otto", role=role, token_hash=hash_of("otto's"))


ADA = Operator(name="ada", role="administrator", token_hash=hash_of("ada's"))


@dataclass
class Open:
    """All that an operator has open at a node: each a task that ends with it."""

    node: Node
    live: asyncio.Task[None]
    follow: asyncio.Task[None]
    receive: asyncio.Task[None]
    channel: asyncio.Task[str]

    def become(self, *listed: Operator) -> None:
        self.node.running.access.operators.become(Operators("", listed))


def queues(node: Node) -> list[Queue]:
    return [queue for key, queue in node.core.custody.queues.items() if "q" in key]


async def lines(http: aiohttp.ClientSession, path: str, begun: asyncio.Event) -> None:
    try:
        async with http.get(path, headers=OTTO) as answer:
            assert answer.status == 200
            while await answer.content.readline():
                begun.set()
    except ENDED:
        return


async def receive(port: int) -> None:
    """A client that does not ask again when its connection is lost."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        "GET /api/receive/q?create=1&wait=3600 HTTP/1.1",
        "Host: localhost",
        "Authorization: Bearer otto's",
    )
    writer.write("\r\n".join((*head, "", "")).encode())
    try:
        with contextlib.suppress(OSError):
            assert await reader.read() == b""
    finally:
        writer.close()


async def channel(http: aiohttp.ClientSession, begun: asyncio.Event) -> str:
    async with http.ws_connect("/channel/hq/till", headers=OTTO) as opened:
        assert await opened.receive_str() == "open"
        begun.set()
        return (await opened.receive_str()).partition(" ")[0]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    to = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    node = Node(
        Site(
            name="hq",
            data=tmp_path,
            listener=Listener(port=0),
            advisory_log=AdvisoryLog(enabled=False),
            operators=(otto(), ADA),
            forwards=(Forward(name="till", to=to, permit=("hq",)),),
        )
    )
    await node.start()
    begun = [asyncio.Event() for _ in range(3)]
    async with server, aiohttp.ClientSession(f"http://127.0.0.1:{node.port}") as http:
        found = Open(
            node,
            asyncio.create_task(lines(http, "/api/live?interval=0.2", begun[0])),
            asyncio.create_task(lines(http, "/api/follow", begun[1])),
            asyncio.create_task(receive(node.port)),
            asyncio.create_task(channel(http, begun[2])),
        )
        async with asyncio.timeout(PATIENCE):
            for each in begun:
                await each.wait()
            while not any(each.messages or each.consumers for each in queues(node)):
                await asyncio.sleep(0.01)
        yield found
        tasks = [found.live, found.follow, found.receive, found.channel]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await node.stop()


async def test_whoever_is_taken_out_of_the_file_keeps_nothing_open(opened: Open) -> None:
    opened.become(ADA)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(opened.live, opened.follow, opened.receive)
        assert await opened.channel == "error"
        while opened.node.report.access.forwards.ends.open:
            await asyncio.sleep(0.01)


async def test_a_lower_role_keeps_open_all_that_it_may(opened: Open) -> None:
    opened.become(otto("viewer"), ADA)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(opened.follow, opened.receive)
        assert await opened.channel == "error"
    assert not opened.live.done()


async def test_a_change_that_leaves_the_right_ends_nothing(opened: Open) -> None:
    opened.become(otto())
    opened.become(otto("administrator"), ADA)
    done, _ = await asyncio.wait([opened.live, opened.follow, opened.receive, opened.channel], timeout=1)
    assert not done


async def test_a_channel_that_is_not_open_yet_ends_too(opened: Open) -> None:
    forwards = opened.node.report.access.forwards
    end = forwards.reach("hq", "till", "a test")
    assert not isinstance(end, str)
    waiting = asyncio.create_task(end.until_open(PATIENCE))
    await asyncio.sleep(0)
    waiting.cancel("it may not")
    await asyncio.wait([waiting])
    assert (end.why, end in forwards.ends.open) == ("it may not", False)


async def test_a_request_whose_body_comes_after_its_right_has_gone_does_nothing(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened.become(otto("administrator"), ADA)
    waits, read = asyncio.Event(), web.Request.read

    async def reads(request: web.Request) -> bytes:
        waits.set()
        return await read(request)

    monkeypatch.setattr(web.Request, "read", reads)
    reader, writer = await asyncio.open_connection("127.0.0.1", opened.node.port)
    body = b'{"kind": "alias", "destination": "orders", "gateway": "elsewhere"}'
    head = (
        "POST /api/routes HTTP/1.1",
        "Host: localhost",
        "Authorization: Bearer otto's",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    writer.write("\r\n".join((*head, "", "")).encode() + body[:5])
    async with asyncio.timeout(PATIENCE):
        await waits.wait()
        opened.become(otto("viewer"), ADA)
        writer.write(body[5:])
        answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 403"), answer
    assert b"ROLE_NEEDED" in answer
