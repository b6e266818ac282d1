"""The WebSocket carrier, dialled, on ws:// and wss://: no proxy from the environment, no redirects.

`websockets` knows how one is opened, without I/O; `websocket_line` is the rest. The node's own port accepts
with aiohttp (`websocket_accept`), which most leaves would load for nothing else.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, TypeVar, cast

import aiohappyeyeballs
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI
from websockets.protocol import State
from websockets.uri import WebSocketURI, parse_uri

from bridges.carriers.base import CarrierBroken
from bridges.carriers.websocket_errors import Unanswered, explain
from bridges.carriers.websocket_frames import PLAIN
from bridges.carriers.websocket_line import WebSocketLine
from bridges.tls import TlsSettings, client_context, shown_by
from treeconnector.frames import DEFAULT_MAX_FRAME

DEFAULT_TIMEOUT: Final = 10.0
_NEXT_ADDRESS: Final = 0.25
"""Seconds that one of a host's addresses has before the next is tried beside it (RFC 8305)."""
_TLS_ALERT: Final = b"\x15\x03"
_END: Final = b"\r\n\r\n"
Dialled = TypeVar("Dialled", bound="DialledWebSocket")


async def connect(
    uri: str,
    *,
    tls: TlsSettings | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    max_packet: int = DEFAULT_MAX_FRAME,
    local: str = "",
) -> "DialledWebSocket":
    """Dial `uri` (ws:// or wss://, with path). `timeout`: seconds for everything until it is open.

    `local`: the address to bind, '' = as the system chooses.
    Raises as `dial` does.
    """
    return await dial(DialledWebSocket, uri, {}, tls=tls, timeout=timeout, max_packet=max_packet, local=local)


async def dial(
    kind: type[Dialled],
    uri: str,
    headers: Mapping[str, str],
    *,
    tls: TlsSettings | None,
    timeout: float,
    max_packet: int,
    local: str = "",
) -> Dialled:
    """The same of a kind of line, with more heads of the request.

    Raises `CarrierBroken`, `CarrierBusy`, or `bridges.tls.TlsError` for unusable files.
    """
    try:
        address = parse_uri(uri)
    except (InvalidURI, ValueError) as error:
        raise CarrierBroken(
            f"{uri} is no address of this carrier: expected ws://HOST:PORT/link or wss://…"
        ) from error
    context = client_context(tls) if address.secure else None
    carrier = kind(uri, address, max_packet)
    carrier.headers = headers
    loop, line = asyncio.get_running_loop(), None
    try:
        async with asyncio.timeout(timeout):
            line = await line_to(address.host, address.port, local)
            name = ((tls.server_name if tls else "") or address.host) if context else None
            await loop.create_connection(lambda: carrier, sock=line, ssl=context, server_hostname=name)
            await carrier.opened
    except BaseException as error:
        carrier.abort()
        # Wrinkle: uvloop closes the file of a line that breaks at once, and leaves its number in the socket:
        # collected later, this would close the file that has the number by then.
        if line is not None and not isinstance(loop, asyncio.BaseEventLoop):
            line.detach()
        if isinstance(error, InvalidHandshake | OSError | ValueError | Unanswered):
            raise explain(error, f"{uri} from {local}" if local else uri, timeout, tls) from error
        raise
    return carrier


async def line_to(host: str, port: int, local: str) -> socket.socket:
    """A connection to the first of a host's addresses that takes one; `local` is bound, '' = any.

    Raises `OSError`.
    Wrinkle: uvloop's own `create_connection`, cancelled while it looks for the name, leaves the look-up to
    itself, and its failure comes up as an error that nobody took.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    bound = await loop.getaddrinfo(local, 0, type=socket.SOCK_STREAM) if local else None
    if bound is not None:
        families = {each[0] for each in bound}
        found = [each for each in found if each[0] in families] or found
    line = await aiohappyeyeballs.start_connection(
        found, local_addr_infos=bound, happy_eyeballs_delay=_NEXT_ADDRESS, loop=loop
    )
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


class DialledWebSocket(WebSocketLine):
    """One open WebSocket, of which we are the client. Made by `connect`.

    Wrinkle: a mask hides bytes that others chose from programs between that take them for requests (RFC 6455,
    10.3). Nobody stands within TLS, nor within this machine: there the mask changes nothing, and is no work.
    """

    def __init__(self, peer: str, address: WebSocketURI, max_packet: int) -> None:
        super().__init__(peer, max_packet, is_client=True)
        self.headers: Mapping[str, str] = {}
        self.opened: asyncio.Future[None] = self._loop.create_future()
        """Done when the WebSocket is open. Raises `InvalidHandshake`, `Unanswered`."""
        self._is_open = not address.secure
        """May others read on the way?"""
        self._opening = ClientProtocol(address)
        self._answer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._took_over(cast("asyncio.Transport", transport))  # uvloop's is none by class
        self.shown = shown_by(transport.get_extra_info("peercert"))
        peer = transport.get_extra_info("peername")  # None: it has gone already
        self._is_open = self._is_open and not (peer and ip_address(peer[0]).is_loopback)
        request = self._opening.connect()
        request.headers.update(self.headers)
        self._opening.send_request(request)
        self._write(each for each in self._opening.data_to_send() if each)

    def _mask(self) -> bytes:
        return os.urandom(4) if self._is_open else PLAIN

    def buffer_updated(self, nbytes: int) -> None:
        if self.opened.done():
            super().buffer_updated(nbytes)
            return
        data = bytes(self._reader.buffer()[:nbytes])
        self._opening.receive_data(data)
        self._answered(data)

    def _answered(self, data: bytes) -> None:
        """A part of the answer to the request has come, perhaps the last, and perhaps more behind it."""
        self._answer += data
        if error := self._opening.handshake_exc:
            self.opened.set_exception(error)
        elif self._opening.state is not State.CONNECTING:
            self.opened.set_result(None)
            end = self._answer.index(_END) + len(_END)
            self._take(self._reader.feed(bytes(self._answer[end:])))
            self._answer.clear()
        elif data.startswith(_TLS_ALERT):
            self.opened.set_exception(InvalidMessage("it does not answer as HTTP"))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self._opening.receive_eof()  # which may be the end of an answer
            error = self._opening.handshake_exc
            self.opened.set_exception(error if isinstance(error, InvalidStatus) else Unanswered(exc))
        super().connection_lost(exc)

    def abort(self) -> None:
        if not self.opened.cancel() and not self.opened.cancelled():
            self.opened.exception()  # who dialled has been told, or has gone
        super().abort()
