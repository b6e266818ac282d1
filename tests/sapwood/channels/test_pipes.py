"""TCP connections as pipes: what the system is told of them, and what waits where."""

import asyncio
import socket
from contextlib import closing
from typing import Any, cast

import aiohttp
import pytest

from broker.forwards.service_names import ServiceNames, dialled
from sapwood.channels.pipes import MOST, PIECE, PipeBroken, TcpPipe
from sapwood.channels.websocket_pipe import WebSocketPipe


async def pair() -> tuple[TcpPipe, TcpPipe]:
    """Two ends of a connection, one dialled and one accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(ServiceNames()) as names:
        dialler = await dialled(names, *listener.getsockname())
        return dialler, TcpPipe(listener.accept()[0])


async def test_a_peer_that_is_dead_is_noticed_at_either_end() -> None:
    for pipe in await pair():
        assert pipe._line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert pipe._line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        assert pipe._line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        await pipe.close()


async def test_what_is_not_asked_for_stays_with_the_system() -> None:
    here, there = await pair()
    writing = asyncio.ensure_future(there.write(b"x" * 50_000_000))
    assert await here.read(10) == b"x" * 10
    assert len(await here.read(10 * MOST)) <= MOST
    done, _ = await asyncio.wait([writing], timeout=0.2)
    assert not done, "more than the system keeps has been taken"
    read = 10
    while not writing.done():
        read += len(await here.read(PIECE))
    assert read > 0
    await there.close()
    await here.close()


async def test_each_direction_ends_by_itself() -> None:
    here, there = await pair()
    await here.finish()
    assert await there.read(9) == b""
    await there.write(b"hello")
    assert await here.read(9) == b"hello"
    await here.close()
    await there.close()


async def test_what_is_aborted_ends_with_an_error() -> None:
    here, there = await pair()
    await here.abort("it is over")
    with pytest.raises(PipeBroken, match="the connection was lost: Connection reset by peer"):
        await there.read(9)
    await there.close()


async def test_a_reset_that_the_writer_was_told_of_is_no_end_for_the_reader() -> None:
    here, there = await pair()
    await here.abort("it is over")
    with pytest.raises(PipeBroken, match="the connection was lost: "):
        await there.write(b"hello")
    with pytest.raises(PipeBroken, match="the connection was lost: "):
        await there.read(9)
    await there.close()


async def test_a_reset_that_comes_after_the_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sapwood.channels.pipes._LOOK", 0.01)
    here, there = await pair()
    await there.finish()
    assert await here.read(9) == b""
    waiting = asyncio.ensure_future(here.broken())
    done, _ = await asyncio.wait([waiting], timeout=0.2)
    assert not done, "half of it is still open"
    await there.abort("it is over")
    with pytest.raises(PipeBroken, match="the connection was lost: "):
        await asyncio.wait_for(waiting, 60)
    await here.close()


class SaysOnce:
    """A WebSocket on which one message has come."""

    closed = False

    def __init__(self, data: bytes) -> None:
        self._data = [aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, data, None)]

    async def receive(self) -> aiohttp.WSMessage:
        return self._data.pop()


async def test_a_message_of_a_websocket_is_read_in_parts_that_have_room() -> None:
    pipe = WebSocketPipe(cast("Any", SaysOnce(bytes(range(100)))))
    assert [len(await pipe.read(40)) for _ in range(3)] == [40, 40, 20]
