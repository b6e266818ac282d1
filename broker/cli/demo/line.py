"""A line between two nodes that can be cut: a TCP proxy on 127.0.0.1.

Cutting is real: open connections are reset and new ones refused, as when a router is unplugged. A
stalled line is worse: it stays open and swallows everything. Bytes pass in order, `delay` seconds late.

Wrinkle: while a line is cut its port is closed, not held, so that a dialler is refused at once.
"""

import asyncio
import contextlib
import socket
import struct
from typing import Final

_CHUNK: Final = 64 * 1024
_QUEUED: Final = 4096


class CutLine:
    """Listens on `port` and joins each connection to `target_port`. Use as an async context manager."""

    def __init__(self, port: int, target_port: int, delay: float = 0.0) -> None:
        self.port = port
        self.target_port = target_port
        self.delay = delay
        self.bytes_passed = 0
        self._server: asyncio.Server | None = None
        self._joined: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def __repr__(self) -> str:
        state = "cut" if self._server is None else "open" if self._flowing.is_set() else "stalled"
        return f"<CutLine {self.port}->{self.target_port} {state} connections={len(self._joined)}>"

    async def __aenter__(self) -> "CutLine":
        await self.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut()

    async def restore(self) -> None:
        """Let connections in and bytes through again. Does nothing on a line that is whole."""
        self._flowing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def cut(self) -> None:
        """Reset all connections and refuse new ones until `restore`."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            _reset(writer)
        tasks = list(self._joined)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stall(self) -> None:
        """Half-open: keep connections and accept new ones, but let nothing through until `restore`."""
        self._flowing.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._joined.add(task)
        self._writers.add(writer)
        try:
            await self._join(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # either end went away, or the line was cut
        finally:
            _reset(writer)
            self._writers.discard(writer)
            self._joined.discard(task)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target_port)
        self._writers.add(far_writer)
        pipes = {
            asyncio.create_task(self._pipe(reader, far_writer)),
            asyncio.create_task(self._pipe(far_reader, writer)),
        }
        try:
            await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pipe in pipes:
                pipe.cancel()
            await asyncio.gather(*pipes, return_exceptions=True)
            _reset(far_writer)
            self._writers.discard(far_writer)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            if self.delay:
                await self._pipe_late(reader, writer)
            else:
                while data := await reader.read(_CHUNK):
                    await self._pass(data, writer)
        await self._flowing.wait()  # nor does the end of a connection come through a stalled line

    async def _pass(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        writer.write(data)
        self.bytes_passed += len(data)
        await writer.drain()

    async def _pipe_late(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass each chunk `delay` seconds after it came, without holding up the chunks behind it."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_QUEUED)

        async def write_late() -> None:
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - loop.time()))
                if not data:
                    return
                await self._pass(data, writer)

        late = asyncio.create_task(write_late())
        try:
            data = b"."
            while data:
                data = await reader.read(_CHUNK)
                await queue.put((loop.time() + self.delay, data))
            await late
        finally:
            late.cancel()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset, as a broken line does: what was buffered is lost."""
    with contextlib.suppress(OSError, AttributeError):
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
