"""TLS on the node's port: as asyncio's own, but who fails its handshake leaves a word and an address.

Wrinkle: neither asyncio nor uvloop tells a server that a handshake failed; only asyncio's protocol, which
runs on both, can be asked, by the future that it completes. Nobody keeps that: its error knows, by the frames
that it came through, this object with its buffers, and the circle would stay until the collector comes.
Wrinkle: asyncio's transport over TLS forgets its protocol when it is closed once more, or after the line was
lost, and raises `AttributeError` from then on, whatever it is asked.
"""

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Callable
from typing import Final

from bridges.resets import rest_of, take
from broker.intake import Guest
from broker.intake.addresses import UNKNOWN, shown

Failed = Callable[[str, str], None]
_HANDSHAKE: Final = 15
PLAIN: Final = "the other side spoke http or ws; this port speaks https and wss only"


class _Transport(sslproto._SSLProtocolTransport):
    """May be closed as often as anybody likes."""

    def close(self) -> None:
        if not self.is_closing():
            super().close()


class Encrypted(sslproto.SSLProtocol):
    """Stands on the new connection of `guest`, and puts `protocol` on top when both ends trust each other.

    `failed(address, text)`: what is told otherwise; not of who goes away without a word, as probes do.
    """

    max_size = 64 * 1024  # of one reading, and of a buffer that each connection has

    def __init__(
        self, protocol: asyncio.Protocol, context: ssl.SSLContext, failed: Failed, guest: Guest
    ) -> None:
        loop = asyncio.get_running_loop()
        handshake: asyncio.Future[None] = loop.create_future()
        self._failed = failed
        self._guest = guest
        self._address = UNKNOWN
        self._spoke = False
        super().__init__(
            loop, protocol, context, handshake, server_side=True, ssl_handshake_timeout=_HANDSHAKE
        )
        handshake.add_done_callback(self._ended)

    def _get_app_transport(self) -> sslproto._SSLProtocolTransport:
        if self._app_transport is None:
            self._app_transport = _Transport(asyncio.get_running_loop(), self)
        return self._app_transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._address = shown(transport.get_extra_info("peername"))
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._guest.leave()
        if exc is not None and self._transport is not None:
            take(self, rest_of(self._transport))
        super().connection_lost(exc)
        asyncio.get_running_loop().call_soon(self._let_go)

    def _let_go(self) -> None:
        """Nothing of TLS outlives the connection, whoever still knows its transport."""
        self._sslobj = None
        self._extra = {}
        self._incoming = self._outgoing = ssl.MemoryBIO()
        self._ssl_buffer = bytearray()
        self._ssl_buffer_view = memoryview(self._ssl_buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self._spoke = True
        super().buffer_updated(nbytes)

    def _ended(self, handshake: "asyncio.Future[None]") -> None:
        error = None if handshake.cancelled() else handshake.exception()
        if error is not None and self._spoke:
            self._failed(self._address, f"TLS failed: {why(error)}")


def why(error: BaseException) -> str:
    """What OpenSSL says, in words."""
    if not isinstance(error, ssl.SSLError):
        return "the other side went away in the handshake; it may not trust this node's certificate"
    if error.reason == "HTTP_REQUEST":
        return PLAIN
    found = getattr(error, "verify_message", "") or error.reason or str(error)
    return found.replace("_", " ").lower()
