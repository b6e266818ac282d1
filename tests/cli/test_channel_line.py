"""The line of a command's channel, as the other end of a WebSocket sees it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from bridges.carriers.websocket import dial
from broker.cli.channel_line import ChannelLine, Opened
from sapwood.channels.pipes import PIECE, PipeBroken
from sapwood.channels.websocket_pipe import WIDE_MESSAGE, WebSocketPipe

Serve = Callable[[web.WebSocketResponse], Awaitable[None]]


@asynccontextmanager
async def dialled(serve: Serve) -> AsyncIterator[WebSocketPipe]:
    async def handle(request: web.Request) -> web.WebSocketResponse:
        assert request.headers["Said"] == "so"
        opened = web.WebSocketResponse(max_msg_size=PIECE + 1, compress=False)
        await opened.prepare(request)
        await serve(opened)
        return opened

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"ws://127.0.0.1:{runner.addresses[0][1]}/"
        heads = {"Said": "so"}
        line = await dial(ChannelLine, url, heads, tls=None, timeout=60, max_packet=WIDE_MESSAGE)
        yield WebSocketPipe(Opened(line))
    finally:
        await runner.cleanup()


async def test_bytes_and_texts_come_in_their_order_and_pings_are_answered() -> None:
    async def serve(there: web.WebSocketResponse) -> None:
        await there.send_bytes(b"a" * WIDE_MESSAGE)
        await there.ping()
        await there.send_str("end")
        assert await there.receive_bytes() == b"b" * PIECE
        assert await there.receive_bytes() == b"b"
        assert await there.receive_str() == "end"
        await there.close()

    async with dialled(serve) as pipe:
        assert await pipe.read(WIDE_MESSAGE) == b"a" * WIDE_MESSAGE
        assert await pipe.read(1) == b""
        await pipe.write(b"b" * (PIECE + 1))
        await pipe.finish()
        with pytest.raises(TimeoutError):  # all was well, so nothing is broken
            await asyncio.wait_for(pipe.broken(), 0.5)
        await pipe.close()


async def test_whoever_waits_for_a_late_reader_is_told_that_all_is_taken() -> None:
    reads, size = asyncio.Event(), 0

    async def serve(there: web.WebSocketResponse) -> None:
        nonlocal size
        await reads.wait()
        while (message := await there.receive()).type is aiohttp.WSMsgType.BINARY:
            size += len(message.data)

    async with dialled(serve) as pipe:
        writing = asyncio.ensure_future(pipe.write(bytes(50_000_000)))
        done, _ = await asyncio.wait([writing], timeout=0.2)
        assert not done
        reads.set()
        async with asyncio.timeout(60):
            await writing
            await pipe.finish()
        await pipe.close()
    assert size == 50_000_000


async def test_an_error_of_the_other_end_is_told_in_its_words() -> None:
    async def serve(there: web.WebSocketResponse) -> None:
        await there.send_str("error it is over")
        await there.close(code=aiohttp.WSCloseCode.INTERNAL_ERROR)

    async with dialled(serve) as pipe:
        with pytest.raises(PipeBroken, match=r"^it is over$"):
            await pipe.read(1)
        with pytest.raises(PipeBroken, match="has ended"):
            await pipe.broken()
        with pytest.raises(PipeBroken, match="was lost"):
            await pipe.write(b"a")
        await pipe.close()


async def ended(work: Awaitable[None]) -> PipeBroken | None:
    """The error that it ended with."""
    try:
        await work
    except PipeBroken as error:
        return error
    return None


async def test_whoever_only_writes_is_told_why_the_other_end_gave_up() -> None:
    why = f"it is over: {'ö' * 100}"

    async def serve(there: web.WebSocketResponse) -> None:
        await WebSocketPipe(there).abort(why)

    async with dialled(serve) as pipe:
        while (error := await ended(pipe.write(b"a"))) is None:
            await asyncio.sleep(0)
        assert "with code 1011: it is over: öö" in str(error)
        await pipe.close()


async def test_an_error_of_this_end_reaches_the_other_that_reads_nothing_yet() -> None:
    reads, heard = asyncio.Event(), asyncio.Queue[aiohttp.WSMessage]()

    async def serve(there: web.WebSocketResponse) -> None:
        await reads.wait()
        async for message in there:
            await heard.put(message)

    async with dialled(serve) as pipe:
        writing = asyncio.ensure_future(pipe.write(bytes(50_000_000)))
        done, _ = await asyncio.wait([writing], timeout=0.5)
        assert not done, "more than the system keeps has been taken"
        writing.cancel()
        reads.set()
        await pipe.abort("enough")
        while (message := await heard.get()).type is aiohttp.WSMsgType.BINARY:
            pass
        assert message.data == "error enough"
