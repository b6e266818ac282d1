"""TCP connections as pipes: what the system is told of them, and what waits where."""

import asyncio
import socket

import pytest

from broker.forwards.pipes import PIECE, PipeBroken, TcpPipe, dialled


async def pair() -> tuple[TcpPipe, TcpPipe]:
    """Two ends of a connection, one dialled and one accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialler = await dialled(*listener.getsockname())
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
    assert len(await here.read(10 * PIECE)) <= PIECE
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
