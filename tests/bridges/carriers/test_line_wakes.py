"""Whoever reads a slow line is woken when a frame is whole: real sockets, on each event loop."""

import array
import asyncio
import fcntl
import socket
import sys
import termios
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import uvloop
from websockets.frames import Opcode

from bridges.carriers.base import CarrierBroken
from bridges.carriers.line_wakes import LineWakes, wakes_of
from bridges.carriers.websocket_frames import frame
from bridges.carriers.websocket_line import WebSocketLine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")
Runner = Callable[[Coroutine[Any, Any, None]], None]
on_each_loop = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
_PATIENCE: Final = 60
_PIECE: Final = bytes(1000)


class Counted(WebSocketLine):
    """`woken`: how often bytes were read."""

    woken = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._took_over(transport)  # type: ignore[arg-type]

    def buffer_updated(self, nbytes: int) -> None:
        self.woken += 1
        super().buffer_updated(nbytes)

    async def until_woken(self) -> None:
        while not self.woken:
            await asyncio.sleep(0.001)

    async def until_unread(self, size: int) -> None:
        """Until the system keeps so many bytes that nobody has read."""
        assert self._transport is not None
        number, found = self._transport.get_extra_info("socket").fileno(), array.array("i", [0])
        while found[0] < size:
            await asyncio.sleep(0.001)
            fcntl.ioctl(number, termios.FIONREAD, found)


@asynccontextmanager
async def made() -> AsyncIterator[tuple[Counted, socket.socket]]:
    """A carrier, and the other end of its line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    with far:
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line = Counted("far", 1 << 20, is_client=True)
        await asyncio.get_running_loop().create_connection(lambda: line, sock=near)
        async with asyncio.timeout(_PATIENCE):
            yield line, far
        line.abort()


def said(data: bytes) -> bytes:
    return b"".join(frame(Opcode.BINARY, [data], b""))


@on_each_loop
def test_a_frame_that_comes_in_pieces_wakes_its_reader_at_its_end_and_holds_nothing_back(run: Runner) -> None:
    async def slow() -> None:
        async with made() as (line, far):
            for _ in range(2):
                line.woken = 0
                long = said(bytes(12_000))
                far.sendall(long[:1000])
                await line.until_woken()
                for count in range(1, 9):
                    far.sendall(_PIECE)
                    await line.until_unread(1000 * count)
                assert line.woken == 1
                far.sendall(long[9000:] + said(b"behind"))
                found: list[bytes] = []
                while len(found) < 2:
                    found += await line.receive()
                assert found == [bytes(12_000), b"behind"]
                far.sendall(said(b"a little"))
                assert await line.receive() == [b"a little"]

    run(slow())


@on_each_loop
def test_a_line_that_ends_in_the_middle_of_a_frame_is_known_to_have_ended(run: Runner) -> None:
    async def ends() -> None:
        async with made() as (line, far):
            far.sendall(said(bytes(12_000))[:1000])
            await line.until_woken()
            far.sendall(_PIECE)
            await line.until_unread(1000)
            far.close()
            with pytest.raises(CarrierBroken, match="was lost"):
                await line.receive()

    run(ends())


def test_the_system_is_told_only_of_another_size_and_never_of_more_than_is_lacking() -> None:
    told: list[int] = []

    class Line:
        def setsockopt(self, level: int, name: int, value: int, /) -> None:
            assert (level, name) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
            told.append(value)

    wakes = LineWakes(Line())
    for lacks in (0, 1000, 400_000, 100_000, 5000, 1000, 0, 3000):
        wakes.wait_for(lacks)
    assert told == [16 * 1024, 5000, 1, 3000]
    assert repr(wakes) == "<LineWakes for 3000 bytes>"


def test_within_tls_a_part_of_a_frame_may_have_been_read_so_nothing_is_waited_for() -> None:
    with socket.socket() as line:
        assert wakes_of(line, is_encrypted=True) is None
        assert wakes_of(line, is_encrypted=False) is not None
    assert wakes_of(None, is_encrypted=False) is None
