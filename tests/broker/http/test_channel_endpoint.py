"""The door for channels at the node's port: open to operators, and to nobody by accident."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from nodes import running_node

from broker.forwards.local_end import WINDOW, LocalEnd
from broker.node import Node
from config.channels import Forward
from config.model import AdvisoryLog, Http, Listener, Site
from sapwood.channels.pipes import PIECE
from sapwood.channels.websocket_pipe import Line, WebSocketPipe

UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
HERE = (*UPGRADE, "Host: localhost")


async def refused(port: Any, *headers: str, path: str = "/channel/shop/till") -> tuple[int, str]:
    """Status and text of the answer; nobody may get a channel from the `FakeNode`."""
    answer = await (await port.dial()).ask(path, headers=headers)
    return answer.status, answer.body.decode()


@pytest.mark.parametrize(
    "given", [(), ("Authorization: Bearer wrong",), ("Authorization: Basic word",), ("Cookie: token=word",)]
)
async def test_where_a_token_is_configured_every_channel_needs_it(serve: Any, given: tuple[str, ...]) -> None:
    port = await serve(token="word")
    status, text = await refused(port, *HERE, *given)
    assert (status, "TOKEN_NEEDED" in text, "word" in text) == (403, True, False)


async def test_a_token_in_the_address_is_none(serve: Any) -> None:
    port = await serve(token="word")
    assert (await refused(port, *HERE, path="/channel/shop/till?token=word"))[0] == 403


@pytest.mark.parametrize("token", ["", "word"])
@pytest.mark.parametrize(
    "says",
    [
        "Origin: http://evil.example",
        "Origin: http://localhost",
        "Origin: null",
        "Sec-Fetch-Site: same-origin",
        "Sec-Fetch-Site: cross-site",
        "User-Agent: Mozilla/5.0",
        "Referer: http://localhost/",
    ],
)
async def test_no_web_page_opens_one_not_even_with_the_token(serve: Any, token: str, says: str) -> None:
    port = await serve(token=token)
    status, text = await refused(port, *HERE, says, f"Authorization: Bearer {token}")
    assert (status, text) == (403, "channels are for programs, not for web pages\n")


@pytest.mark.parametrize(
    "says", ["X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1", "Via: 1.1 proxy", "X-Real-IP: ::1"]
)
async def test_whoever_comes_through_a_proxy_needs_a_token(port: Any, says: str) -> None:
    status, text = await refused(port, *HERE, says)
    assert (status, "TOKEN_NEEDED" in text) == (403, True)


async def test_a_name_that_was_made_to_mean_this_machine_is_refused(port: Any) -> None:
    status, text = await refused(port, *UPGRADE, "Host: evil.example")
    assert (status, "WRONG_HOST" in text) == (403, True)


async def test_from_elsewhere_a_node_without_a_token_opens_none(
    port: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.http.guard.over_loopback", lambda request: False)
    status, text = await refused(port, *HERE)
    assert (status, "TOKEN_NEEDED" in text) == (403, True)
    assert (await refused(port, *HERE, "Authorization: Bearer word"))[0] == 403


@pytest.mark.parametrize("path", ["/channel/a%20b/till", "/channel/shop/a%2Fb", "/channel/shop/" + "x" * 65])
async def test_a_name_that_cannot_be_is_refused(port: Any, path: str) -> None:
    status, text = await refused(port, *HERE, path=path)
    assert (status, "BAD_REQUEST" in text) == (400, True)


async def test_who_asks_without_a_websocket_is_told_of_the_command(port: Any) -> None:
    status, text = await refused(port, "Host: localhost")
    assert (status, text) == (426, "channels are WebSockets: `sapwood forward` opens them\n")


@pytest.mark.parametrize("verb", ["POST", "PUT", "HEAD", "CONNECT"])
async def test_no_other_method_opens_one(port: Any, verb: str) -> None:
    client = await port.dial()
    client.writer.write(f"{verb} /channel/shop/till HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    async with asyncio.timeout(60):
        assert (await client.reader.readline()).split()[1] in (b"405", b"400", b"404")


async def test_it_needs_the_token_of_a_real_node_and_no_account_will_do(tmp_path: Path) -> None:
    async def greets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(greets, "127.0.0.1", 0)
    to = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    token = "word-of-the-operator"
    (tmp_path / "token").write_text(token)
    site = Site(
        name="hq",
        data=tmp_path / "data",
        listener=Listener(port=0),
        advisory_log=AdvisoryLog(enabled=False),
        http=Http(token_file=tmp_path / "token"),
        forwards=(Forward(name="till", to=to, permit=("hq",)),),
    )
    async with running_node(site) as node, server, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{node.port}/channel/hq/till"
        for given in ({}, {"Authorization": "Bearer guess"}, {"Authorization": "Basic aHE6aHE="}):
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(url, headers=given)
            assert caught.value.status == 403
        async with session.ws_connect(url, headers={"Authorization": f"Bearer {token}"}) as opened:
            pipe = WebSocketPipe(opened)
            assert await pipe.hear() == "open"
            assert await pipe.read(9) == b"hello"
            assert await pipe.read(9) == b""


async def test_no_more_are_open_than_the_node_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.http.channel_endpoint.MOST", 1)
    log = AdvisoryLog(enabled=False)
    async with running_node(
        Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=log)
    ) as node:
        url = f"http://127.0.0.1:{node.port}/channel/away/till"
        async with aiohttp.ClientSession() as session:
            monkeypatch.setattr(node.report.access.forwards, "reach", lambda *_: LocalEnd(ends, "a test"))
            ends = node.report.access.forwards.ends
            first = await session.ws_connect(url)
            with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
                await session.ws_connect(url)
            assert caught.value.status == 503
            await first.close()


async def test_a_client_that_reads_nothing_loses_its_line_with_its_channel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sapwood.channels.websocket_pipe._LAST_WORDS", 0.1)
    gone = asyncio.Event()

    async def pours(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"z" * 100_000)
                await writer.drain()
        except OSError:
            gone.set()

    server = await asyncio.start_server(pours, "127.0.0.1", 0)
    to = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    forward = Forward(name="till", to=to, permit=("hq",))
    log = AdvisoryLog(enabled=False)
    node = Node(Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=log))
    await node.start()
    line = socket.socket()
    try:
        async with server, asyncio.timeout(60):
            forwards = node.report.access.forwards
            forwards.configure([forward])
            line.connect(("127.0.0.1", node.port))
            line.sendall("\r\n".join(("GET /channel/hq/till HTTP/1.1", *HERE, "", "")).encode())
            sent = -1
            while not sent or sent != node.core.counters["channel_bytes"]:
                sent = node.core.counters["channel_bytes"]
                await asyncio.sleep(0.3)
            forwards.configure([])
            await gone.wait()
            while is_whole(line):
                await asyncio.sleep(0.1)
    finally:
        line.close()
        await node.stop()


@pytest.mark.parametrize("size", [100_000, 12_000_000])
async def test_last_bytes_wait_for_a_slow_client_and_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """The channel has ended well long before, or goes no further; the buffer of the connection is small."""
    monkeypatch.setattr("sapwood.channels.websocket_pipe._LAST_WORDS", 0.1)
    lines: list[asyncio.WriteTransport] = []
    made = WebSocketPipe.__init__

    def noted(pipe: WebSocketPipe, opened: Any, most: int, line: Line) -> None:
        lines.append(opened._req.transport)
        lines[0].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        made(pipe, opened, most=most, line=line)

    monkeypatch.setattr(WebSocketPipe, "__init__", noted)

    async def says(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"z" * size)
        writer.close()

    server = await asyncio.start_server(says, "127.0.0.1", 0)
    to = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    forward = Forward(name="till", to=to, permit=("hq",))
    log = AdvisoryLog(enabled=False)
    node = Node(Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=log))
    await node.start()
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            async with server, asyncio.timeout(60):
                node.report.access.forwards.configure([forward])
                await loop.sock_connect(line, ("127.0.0.1", node.port))
                head = "\r\n".join(("GET /channel/hq/till HTTP/1.1", *HERE, "", ""))
                await loop.sock_sendall(line, head.encode())
                await loop.sock_sendall(line, b"\x81\x83\x00\x00\x00\x00end")  # nothing comes from here
                sent = -1
                while not sent or sent != node.core.counters["channel_bytes"]:
                    sent = node.core.counters["channel_bytes"]
                    await asyncio.sleep(0.3)
                assert bool(node.core.channels.all()) == (sent < size)
                assert 0 < lines[0].get_write_buffer_size() < WINDOW + 2 * PIECE
                came = 0
                while came < size and (part := await loop.sock_recv(line, 65536)):
                    came += len(part)
                assert came >= size
        finally:
            await node.stop()


def is_whole(line: socket.socket) -> bool:
    """Is the other end still there, or was the line reset?"""
    return line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
