"""The line of a command's channel: its frames are read to where they are passed on from.

aiohttp's client joins what it reads of a frame, and stops reading after each: that was a third of the CPU of
`sapwood forward`.
"""

import asyncio
from collections import deque

import aiohttp
from websockets.frames import Close, Opcode

from bridges.carriers.base import CarrierError
from bridges.carriers.websocket import DialledWebSocket
from sapwood.channels.probes import probe


class _Text(bytes):
    """A text among binary messages."""


class ChannelLine(DialledWebSocket):
    """A WebSocket with texts. `code`: of the other end's frame of closing, 0 before that has come."""

    code = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        probe(transport.get_extra_info("socket"))

    @staticmethod
    def _say_when_it_waits(transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=0)

    def _text_came(self, data: bytes) -> None:
        self._packets.append(_Text(data))
        self._unread += len(data)

    def _close_came(self, data: bytes) -> None:
        self.code = int.from_bytes(data[:2])
        super()._close_came(data)

    def say(self, opcode: int, data: bytes) -> None:
        """A message. Raises `ConnectionResetError`."""
        if error := self._stopped:
            raise ConnectionResetError(str(error))
        self._write(self._frame(opcode, data))

    def say_close(self, code: int, reason: str) -> None:
        """That we end it, and whether all is well."""
        self._say_close(Close(code, reason).serialize())

    async def until_taken(self) -> None:
        """Until the system has all of it."""
        while self._buffered and not self._stopped:
            self._drained.clear()
            if self._transport is not None:
                self._say_when_it_waits(self._transport)  # which some versions of Python see only now
            await self._told()


class Opened:
    """A line as `WebSocketPipe` has it of aiohttp."""

    def __init__(self, line: ChannelLine) -> None:
        self._line = line
        self._heard: deque[bytes] = deque()

    def __repr__(self) -> str:
        return f"<Opened {self._line!r}>"

    @property
    def closed(self) -> bool:
        return not self._line.writable

    @property
    def close_code(self) -> int:
        return self._line.code

    async def receive(self) -> aiohttp.WSMessage:
        """The next message, or that there is none any more."""
        try:
            while not self._heard:
                self._heard.extend(await self._line.receive())
        except CarrierError:
            return aiohttp.WSMessage(aiohttp.WSMsgType.CLOSE, self._line.code, None)
        data = self._heard.popleft()
        if isinstance(data, _Text):
            return aiohttp.WSMessage(aiohttp.WSMsgType.TEXT, data.decode(errors="replace"), None)
        return aiohttp.WSMessage(aiohttp.WSMsgType.BINARY, data, None)

    async def send_str(self, data: str) -> None:
        self._line.say(Opcode.TEXT, data.encode())

    async def send_bytes(self, data: bytes) -> None:
        """Returns when the line takes more."""
        self._line.say(Opcode.BINARY, data)
        await self._line.until_taken()

    async def pong(self, message: bytes) -> None:
        """The line has answered."""

    async def close(self, *, code: int = aiohttp.WSCloseCode.OK, message: bytes = b"") -> bool:
        self._line.say_close(code, message.decode())
        await self._line.close()
        return True
