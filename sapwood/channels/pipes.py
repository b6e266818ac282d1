"""*Pipes*: bytes in both directions, each of which ends by itself. A TCP connection is one.

Law: a pipe that is aborted ends with an error at the other end too, never like one that has said all.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from sapwood.channels.probes import probe
from sapwood.protocol.packets import Bytes

PIECE: Final = 64 * 1024
"""Most bytes that a message of a WebSocket has, unless its reader takes more."""
MOST: Final = 480 * 1024
"""Most bytes that are read of a line at once."""
_LOOK: Final = 2.0
_RESET: Final = struct.pack("ii", 1, 0)
_END: Final = struct.pack("ii", 0, 0)


class PipeBroken(Exception):
    """The other end has gone, or says that it is over; the text is for people."""


class Pipe(Protocol):
    """All may raise `PipeBroken`, but for the two that end it."""

    async def read(self, most: int) -> Bytes:
        """The bytes that come next, at most so many unless they come as one; b'' = nothing follows."""
        ...

    async def broken(self) -> None:
        """Wait until it is broken, if that can be seen, when all was read. Never returns."""
        ...

    async def write(self, data: Bytes) -> None:
        """Returns when the line takes more."""
        ...

    async def finish(self) -> None:
        """Nothing follows in this direction."""
        ...

    async def close(self) -> None:
        """All was said in both directions."""
        ...

    async def abort(self, text: str) -> None:
        """It is over, whatever waits."""
        ...


class TcpPipe:
    """A TCP connection, or one within this machine. Nothing is read before it is asked for: it waits in the
    system's buffers. A dead peer is noticed, though nothing is said. Whoever kills this program aborts it.
    """

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        reset_when_closed(line)
        if line.family != socket.AF_UNIX:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            probe(line)
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._lost: PipeBroken | None = None

    def __repr__(self) -> str:
        return f"<TcpPipe {self._line.fileno()}>"

    async def read(self, most: int) -> bytes:
        await asyncio.sleep(0)  # others have their turns, however much comes
        try:
            data = await self._received(min(most, MOST))
        except OSError as error:
            raise self._broke(error) from None
        if not data and self._lost is not None:
            raise self._lost  # the system tells of a reset once, and it told the writer
        return data

    async def _received(self, most: int) -> bytes:
        with contextlib.suppress(BlockingIOError, InterruptedError):
            return self._line.recv(most)
        return await self._loop.sock_recv(self._line, most)

    def _broke(self, error: OSError) -> PipeBroken:
        self._lost = self._lost or lost(error)
        return self._lost

    async def broken(self) -> None:
        """Nothing wakes whoever has read the end: a reset that comes later is looked for now and then."""
        while not (error := self._line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
            await asyncio.sleep(_LOOK)
        raise lost(OSError(error, os.strerror(error)))

    async def write(self, data: Bytes) -> None:
        sent = 0
        try:
            with contextlib.suppress(BlockingIOError, InterruptedError):
                sent = self._line.send(data)
            if sent < len(data):
                await self._loop.sock_sendall(self._line, memoryview(data)[sent:])
        except OSError as error:
            raise self._broke(error) from None

    async def finish(self) -> None:
        try:
            self._line.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise lost(error) from None

    async def close(self) -> None:
        end_when_closed(self._line)
        self._line.close()

    async def abort(self, text: str) -> None:
        reset_when_closed(self._line)
        self._line.close()


def reset_when_closed(line: socket.socket) -> None:
    """The system sends a reset, also for a program that is killed: an end would look as if all had come."""
    with contextlib.suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


def end_when_closed(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _END)


def reset(line: asyncio.WriteTransport) -> None:
    """Close it at once, with a reset."""
    connection = line.get_extra_info("socket")
    if connection is not None:
        reset_when_closed(connection)
    line.abort()


def lost(error: BaseException) -> PipeBroken:
    return PipeBroken(f"the connection was lost: {getattr(error, 'strerror', None) or error}")


async def until_first(*works: Coroutine[Any, Any, object]) -> None:
    """Do all until the first is done, then end the others. Raises as the first does."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def join(near: Pipe, far: Pipe) -> None:
    """Pass bytes on, both ways, until both have ended. Raises `PipeBroken`; then both are aborted."""
    ended = [asyncio.Event(), asyncio.Event()]

    async def pass_on(source: Pipe, sink: Pipe, end: asyncio.Event) -> None:
        while data := await source.read(MOST):
            await sink.write(data)
        await sink.finish()
        end.set()
        await source.broken()

    async def both() -> None:
        for each in ended:
            await each.wait()

    text = "it was ended here"
    well = False
    try:
        await until_first(pass_on(near, far, ended[0]), pass_on(far, near, ended[1]), both())
        well = True
    except PipeBroken as error:
        text = str(error)
        raise
    finally:
        for pipe in (near, far):
            await (pipe.close() if well else pipe.abort(text))
