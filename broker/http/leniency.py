"""What deployed clients of the link-level protocol write, made fit for aiohttp, which is strict.

They leave out the Host header that HTTP/1.1 asks for, and write names bare: with spaces, umlauts and
percent signs. A `Lenient` protocol stands before aiohttp's on every new connection and mends the head of
each request. It follows Content-Length to know where heads begin; at the first request with another framing
(chunked, or a WebSocket's upgrade) it mends that one and steps aside for good.
"""

import asyncio
import re
from typing import Final, cast
from urllib.parse import quote_from_bytes

_MAX_HEAD: Final = 32 * 1024
_END: Final = b"\r\n\r\n"
_HOST_LINE: Final = b"Host: localhost\r\n"
_HOST: Final = re.compile(rb"\r\nhost:", re.IGNORECASE)
_OTHER_FRAMING: Final = re.compile(rb"\r\n(?:transfer-encoding|upgrade):", re.IGNORECASE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_PLAIN: Final = re.compile(rb"[A-Za-z0-9/:?\[\]@!$&'()*+,;=~._-]*")
_SAFE: Final = "/:?[]@!$&'()*+,;=~._-%"
_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")


class Forwarding(asyncio.Protocol):
    """Stands before another protocol of the same transport and passes everything on."""

    def __init__(self, inner: asyncio.Protocol) -> None:
        self.inner = inner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()


class Lenient(Forwarding):
    """Mends the heads of requests. See the module."""

    def __init__(self, inner: asyncio.Protocol) -> None:
        super().__init__(inner)
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._body_left = 0
        self._aside = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # another loop's transport is none by class
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        while data:
            if self._aside:
                self.inner.data_received(data)
                return
            if self._body_left:
                part, data = data[: self._body_left], data[self._body_left :]
                self._body_left -= len(part)
                self.inner.data_received(part)
            else:
                data = self._head_received(data)

    def _head_received(self, data: bytes) -> bytes:
        """Take bytes of a request's head; pass it on when it is whole. Returns what comes after it."""
        known = max(len(self._head) - len(_END), 0)
        self._head += data
        end = self._head.find(_END, known)
        if end < 0:
            if len(self._head) > _MAX_HEAD:
                self._step_aside(self._head)
            return b""
        head, rest = self._head[: end + 4], self._head[end + 4 :]
        if _OTHER_FRAMING.search(head):
            self._step_aside(mended(head) + rest)
            return b""
        self._head = b""
        length = _LENGTH.search(head)
        self._body_left = int(length[1]) if length else 0
        self.inner.data_received(mended(head))
        return rest

    def _step_aside(self, kept: bytes) -> None:
        """Hand over what was kept, and the connection; but leave alone who stands before us by now."""
        self._head, self._aside = b"", True
        if self._transport and self._transport.get_protocol() is self:
            self._transport.set_protocol(self.inner)
        self.inner.data_received(kept)


def mended(head: bytes) -> bytes:
    """The same request head with an encoded path and a Host."""
    first, _, rest = head.partition(b"\r\n")
    method, _, target = first.partition(b" ")
    target, _, version = target.rpartition(b" ")
    if not _PLAIN.fullmatch(target):
        target = _BARE_PERCENT.sub("%25", quote_from_bytes(target, _SAFE)).encode()
    host = b"" if _HOST.search(head) else _HOST_LINE
    return b"%b %b %b\r\n%b%b" % (method, target, version, host, rest)
