"""A WebSocket as a pipe. Binary messages are data, and a text says the rest.

`open`: once, from the node to whoever asked for a channel. `end`: nothing follows in that direction.
`error TEXT`: it is over, and the line is closed. A message has `MAX_MESSAGE` bytes at most, or as many as
whoever connected says in the head `TAKES` of its request.

Wrinkle: it brings aiohttp, which a leaf that nobody talks to does not load.
"""

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Union, cast

import aiohttp

from sapwood.channels.pipes import MOST, PIECE, PipeBroken, lost
from sapwood.protocol.packets import Bytes

if TYPE_CHECKING:  # a process beside a channel serves nothing, and so need not load that
    from aiohttp import web
    from aiohttp.abc import AbstractStreamWriter

MAX_MESSAGE: Final = PIECE
WIDE_MESSAGE: Final = MOST
TAKES: Final = "Sapwood-Takes"
OPEN: Final = "open"
_END: Final = "end"
_ERROR: Final = "error "
_LAST_WORDS: Final = 2.0
_MAX_TEXT: Final = 1000
_MOST_REASON: Final = 123
_LONG: Final = 0xFFFF
_AT_ONCE: Final = 100
_BESIDE: Final = (aiohttp.WSMsgType.PING, aiohttp.WSMsgType.PONG)
_HEAD: Final = b"\x82\x7f"
_FAILED: Final = (aiohttp.ClientError, OSError, RuntimeError)


class Opened(Protocol):
    """As aiohttp has it, of other lines."""

    @property
    def closed(self) -> bool: ...

    @property
    def close_code(self) -> int | None: ...

    async def receive(self) -> aiohttp.WSMessage: ...

    async def send_str(self, data: str) -> None: ...

    async def send_bytes(self, data: bytes) -> None: ...

    async def pong(self, message: bytes) -> None: ...

    async def close(self, *, code: int = ..., message: bytes = ...) -> bool: ...


WebSocket = Union["web.WebSocketResponse[Any]", "aiohttp.ClientWebSocketResponse[Any]", Opened]


class Line(NamedTuple):
    """The line of aiohttp, for a server: its frames have no mask (RFC 6455, 5.2), and so need no copy."""

    transport: asyncio.WriteTransport
    writer: "AbstractStreamWriter"

    async def write(self, part: memoryview) -> None:
        """A whole binary message, of 64 KiB or more. Returns when the line takes more."""
        if self.transport.is_closing():
            raise ConnectionResetError("it is closing")
        self.transport.writelines((_HEAD + len(part).to_bytes(8, "big"), part))
        self.transport.set_write_buffer_limits()  # some versions of Python look only now how much waits
        await self.writer.drain()


class WebSocketPipe:
    """An open WebSocket, at either end. `is_broken`: it was aborted. `last_words`: seconds in which the
    other end says that it has heard all. `most`: bytes of a message that the other end takes. `line`: what a
    server writes on; long messages then go there as they are, with their heads, and wake their reader once.
    """

    def __init__(
        self,
        opened: WebSocket,
        last_words: float | None = None,
        most: int = MAX_MESSAGE,
        line: "Line | None" = None,
    ) -> None:
        self._socket = opened
        self._line = line
        self._most = most
        self._last_words = last_words
        self.is_broken = False
        self._was_well = False
        self._rest = memoryview(b"")
        self._heard = 0

    def __repr__(self) -> str:
        return f"<WebSocketPipe {'closed' if self._socket.closed else 'open'}>"

    async def say(self, text: str) -> None:
        await _sent(self._socket.send_str(text))

    async def hear(self) -> str | Bytes:
        """The next message: bytes, or a text that is no error."""
        try:
            while (message := await self._socket.receive()).type in _BESIDE:
                if message.type is aiohttp.WSMsgType.PING:
                    await self._socket.pong(message.data)
                await self._give_way()
        except _FAILED as error:
            raise lost(error) from None
        await self._give_way()
        if message.type is aiohttp.WSMsgType.BINARY:
            return cast("Bytes", message.data)
        if message.type is aiohttp.WSMsgType.TEXT:
            text = str(message.data)
            if text.startswith(_ERROR):
                raise PipeBroken(text.removeprefix(_ERROR)[:_MAX_TEXT])
            return text
        # The other end may have gone by the time that this is read: then the library's own code says 1006.
        self._was_well = message.type is aiohttp.WSMsgType.CLOSE and message.data == aiohttp.WSCloseCode.OK
        raise PipeBroken("the connection between the node and whoever asked for the channel has ended")

    async def _give_way(self) -> None:
        """All that has come is given without a turn of the loop: hundreds of thousands of pings, perhaps."""
        self._heard += 1
        if self._heard % _AT_ONCE == 0:
            await asyncio.sleep(0)

    async def read(self, most: int) -> Bytes:
        if self._rest:
            return self._part(most)
        while not (found := await self.hear()):
            pass  # an empty message says nothing
        if not isinstance(found, str):
            if len(found) <= most:
                return found
            self._rest = memoryview(found)
            return self._part(most)
        if found != _END:
            raise PipeBroken(f"expected bytes or {_END!r}, found {found[:40]!r}")
        return b""

    def _part(self, most: int) -> bytes:
        """Of the message that came last."""
        part, self._rest = bytes(self._rest[:most]), self._rest[most:]
        return part

    async def broken(self) -> None:
        while True:
            try:
                await self.hear()
            except PipeBroken:
                if self._was_well or self._socket.close_code == aiohttp.WSCloseCode.OK:
                    await asyncio.Event().wait()  # it has heard all, and was a little earlier
                raise

    async def write(self, data: Bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(view), self._most):
            part = view[start : start + self._most]
            if self._line is not None and len(part) > _LONG and not self._socket.closed:
                await _sent(self._line.write(part))
            else:  # aiohttp takes all kinds, and does not say so
                await _sent(self._socket.send_bytes(cast("bytes", part)))

    async def finish(self) -> None:
        await self.say(_END)

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError, *_FAILED):
            async with asyncio.timeout(self._last_words or _LAST_WORDS):
                await self._socket.close()

    async def abort(self, text: str) -> None:
        self.is_broken = True
        with contextlib.suppress(TimeoutError, *_FAILED):
            async with asyncio.timeout(_LAST_WORDS):
                await self._socket.send_str(f"{_ERROR}{text[:_MAX_TEXT]}")
                code = aiohttp.WSCloseCode.INTERNAL_ERROR
                await self._socket.close(code=code, message=_reason(text))


def _reason(text: str) -> bytes:
    """The beginning of it, as long as a frame of closing may have it: whoever only writes hears no text."""
    return text.encode()[:_MOST_REASON].decode(errors="ignore").encode()


async def _sent(sending: Awaitable[None]) -> None:
    try:
        await sending
    except _FAILED as error:
        raise lost(error) from None
