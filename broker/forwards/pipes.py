"""*Pipes*: bytes in both directions, each of which ends by itself. A TCP connection is one.

Law: a pipe that is aborted ends with an error at the other end too, never like one that has said all.
"""

import asyncio
import contextlib
import socket
import struct
from typing import Final, Protocol

PIECE: Final = 64 * 1024
"""Most bytes that are read at once."""
_AT_ONCE: Final = struct.pack("ii", 1, 0)


class PipeBroken(Exception):
    """The other end has gone, or says that it is over; the text is for people."""


class Pipe(Protocol):
    """All may raise `PipeBroken`, but for the two that end it."""

    async def read(self) -> bytes:
        """The bytes that come next; b'' = nothing follows."""
        ...

    async def broken(self) -> None:
        """Wait until it is broken, if that can be seen, when all was read. Never returns."""
        ...

    async def write(self, data: bytes) -> None:
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
    """A TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def __repr__(self) -> str:
        return f"<TcpPipe with {self._writer.get_extra_info('peername')}>"

    async def read(self) -> bytes:
        try:
            return await self._reader.read(PIECE)
        except OSError as error:
            raise lost(error) from None

    async def broken(self) -> None:
        await asyncio.Event().wait()

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            raise lost(error) from None

    async def finish(self) -> None:
        try:
            self._writer.write_eof()
        except OSError as error:
            raise lost(error) from None

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def abort(self, text: str) -> None:
        reset(self._writer.transport)


def reset(line: asyncio.WriteTransport) -> None:
    """The system sends a reset: an end alone would look as if all had come."""
    connection = line.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    line.abort()


def lost(error: BaseException) -> PipeBroken:
    return PipeBroken(f"the connection was lost: {getattr(error, 'strerror', None) or error}")


async def join(near: Pipe, far: Pipe) -> None:
    """Pass bytes on, both ways, until both have ended. Raises `PipeBroken`; then both are aborted."""
    ended = [asyncio.Event(), asyncio.Event()]

    async def pass_on(source: Pipe, sink: Pipe, end: asyncio.Event) -> None:
        while data := await source.read():
            await sink.write(data)
        await sink.finish()
        end.set()
        await source.broken()

    async def both() -> None:
        for each in ended:
            await each.wait()

    tasks = [asyncio.ensure_future(pass_on(near, far, ended[0]))]
    tasks += [asyncio.ensure_future(pass_on(far, near, ended[1])), asyncio.ensure_future(both())]
    text = "it was ended here"
    well = False
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        well = True
    except PipeBroken as error:
        text = str(error)
        raise
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for pipe in (near, far):
            await (pipe.close() if well else pipe.abort(text))
