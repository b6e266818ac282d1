"""The line that can be cut: what passes, what does not, and that a cut is felt at both ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from broker.cli.demo.line import CutLine
from broker.cli.demo.plan import free_ports


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """A server that sends back what it gets, on the port that is yielded."""
    tasks: set[asyncio.Task[None] | None] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        try:
            while data := await reader.read(1000):
                writer.write(data)
        except OSError:
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*(task for task in tasks if task), return_exceptions=True)


@asynccontextmanager
async def line_to_echo(delay: float = 0.0) -> AsyncIterator[CutLine]:
    async with echo() as port, CutLine(free_ports(1)[0], port, delay) as line:
        yield line


async def ask(port: int, data: bytes) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    return await reader.readexactly(len(data)), reader, writer


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def test_a_whole_line_passes_everything_both_ways() -> None:
    async with line_to_echo() as line:
        got, _, writer = await ask(line.port, b"x" * 100_000)
        assert got == b"x" * 100_000
        assert line.bytes_passed == 200_000
        writer.transport.abort()


async def test_a_cut_ends_what_is_connected_and_refuses_what_comes() -> None:
    async with line_to_echo() as line:
        _, reader, writer = await ask(line.port, b"before")
        await line.cut()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", line.port)
        assert "cut" in repr(line)
        writer.transport.abort()


async def test_a_restored_line_passes_again() -> None:
    async with line_to_echo() as line:
        await line.cut()
        await line.restore()
        got, _, writer = await ask(line.port, b"after")
        assert got == b"after"
        writer.transport.abort()


async def test_a_stalled_line_swallows_and_lets_through_when_restored() -> None:
    async with line_to_echo() as line:
        _, reader, writer = await ask(line.port, b"before")
        line.stall()
        writer.write(b"during")
        passed = line.bytes_passed
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 0.2)
        assert line.bytes_passed == passed
        assert "stalled" in repr(line)
        await line.restore()
        assert await asyncio.wait_for(reader.readexactly(6), 120) == b"during"
        writer.transport.abort()


@pytest.mark.parametrize("delay", [0.0, 0.01])
async def test_the_end_of_a_connection_does_not_come_through_a_stalled_line(delay: float) -> None:
    async with line_to_echo(delay=delay) as line:
        _, _, writer = await ask(line.port, b"before")
        line.stall()
        writer.transport.abort()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(until(lambda: "connections=0" in repr(line)), 0.3)
        await line.restore()
        await until(lambda: "connections=0" in repr(line))


async def test_a_delayed_line_keeps_the_order() -> None:
    async with line_to_echo(delay=0.02) as line:
        sent = bytes(range(250)) * 400
        got, _, writer = await ask(line.port, sent)
        assert got == sent
        writer.transport.abort()


async def test_a_connection_ends_with_its_other_end() -> None:
    async with line_to_echo() as line:
        _, _, writer = await ask(line.port, b"hello")
        writer.transport.abort()
        await until(lambda: "connections=0" in repr(line))
