"""Waits for a line that takes no more: they end when it does, and stop nobody else, on each event loop."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, Final, Literal

import pytest
import uvloop
from aiohttp import web

from bridges.carriers import websocket_accept
from bridges.carriers.base import CarrierBroken
from bridges.carriers.websocket_frames import AT_ONCE
from bridges.carriers.websocket_line import WebSocketLine

Runner = Callable[[Coroutine[Any, Any, None]], None]
on_each_loop = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
PIECE: Final = bytes(60_000)
_MOST_WAITS: Final = 1000
_REQUEST: Final = (
    b"GET /link HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Counted(asyncio.Event):
    """Says so if somebody waits in a loop that lets no others have their turns."""

    waits = 0

    async def wait(self) -> Literal[True]:
        self.waits += 1
        assert self.waits < _MOST_WAITS, "it waits for what is there already, again and again"
        return await super().wait()


async def narrow(port: int) -> socket.socket:
    """A connection to a port, of somebody who reads nothing yet and has little room for it."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.setblocking(False)
    await asyncio.get_running_loop().sock_connect(line, ("127.0.0.1", port))
    await asyncio.get_running_loop().sock_sendall(line, _REQUEST)
    return line


async def read_on(line: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(line, 1 << 20):
        pass


@on_each_loop
@pytest.mark.parametrize("wait", ["drain", "until_idle"])
def test_who_is_sent_much_in_the_moment_it_is_known_is_waited_for(run: Runner, wait: str) -> None:
    """The transport told aiohttp that it waits, and tells nobody again."""

    async def much() -> None:
        proved, ready = asyncio.Event(), asyncio.Event()
        waited: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def handle(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            request.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
            carrier = await websocket_accept.accept(request, is_stranger=lambda: not proved.is_set())
            carrier._drained = Counted()
            carrier._drained.set()
            proved.set()
            carrier.proven()
            while carrier.room > 0:
                carrier.send([PIECE])
            while carrier._behind is None:
                await asyncio.sleep(0)
            ready.set()
            try:
                await getattr(carrier, wait)()
                waited.set_result(carrier.room)
            except AssertionError as error:
                waited.set_exception(error)
            await carrier.close()
            return carrier.response

        app = web.Application()
        app.router.add_get("/link", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        line = await narrow(runner.addresses[0][1])
        try:
            await ready.wait()
            reading = asyncio.ensure_future(read_on(line))
            async with asyncio.timeout(60):
                assert await waited > 0
            reading.cancel()
        finally:
            line.close()
            await runner.cleanup()

    run(much())


class Plain(WebSocketLine):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._took_over(transport)  # type: ignore[arg-type]


@on_each_loop
def test_a_wait_for_a_line_that_goes_says_that_it_has_gone(run: Runner) -> None:
    """Nothing may be asked of a transport of uvloop then."""

    async def goes() -> None:
        near, far = socket.socketpair()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
        line = Plain("far", 1 << 20, is_client=True)
        await asyncio.get_running_loop().create_connection(lambda: line, sock=near)
        line.send([PIECE] * 10)
        waiting = asyncio.ensure_future(line.until_idle())
        await asyncio.sleep(0)
        far.close()
        with pytest.raises(CarrierBroken, match="was lost"):
            await waiting

    run(goes())


@on_each_loop
def test_others_have_turns_while_very_many_small_frames_come(run: Runner) -> None:
    """All of them are there at once; what comes last is read as well, and the end after it."""
    count = 40_000

    async def flooded() -> None:
        near, far = socket.socketpair()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        far.setblocking(False)
        line, turns = Plain("far", 1 << 20, is_client=True), 0
        await asyncio.get_running_loop().create_connection(lambda: line, sock=near)
        sending = asyncio.ensure_future(
            asyncio.get_running_loop().sock_sendall(far, b"\x89\0\x82\0" * (count // 2) + b"\x82\x01a")
        )
        heard: list[bytes] = []
        try:
            while b"a" not in heard:
                receiving = asyncio.ensure_future(line.receive())
                while not receiving.done():
                    turns += 1
                    await asyncio.sleep(0)
                heard += receiving.result()
            await sending
            assert len(heard) == count // 2 + 1
            assert turns > count / AT_ONCE / 2
        finally:
            far.close()
        with pytest.raises(CarrierBroken, match="was lost"):
            await line.receive()

    run(flooded())
