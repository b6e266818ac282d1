"""The WebSocket carrier, dialled: one binary WebSocket message is one packet, on ws:// and wss://.

No compression (bundles are compressed where they enter), no WebSocket pings of our own (links have their
keep-alive; a peer's ping is answered), no proxy from the environment, no redirects, TCP_NODELAY.

`websockets` knows the protocol, without I/O: it says what has come and what is to be sent. The node's own
port accepts with aiohttp (`websocket_accept`), which most leaves would load for nothing else.

Wrinkle: `websockets` answers each ping as it comes. Answers that the line has no room for are dropped.
"""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Sequence
from typing import Any, Final, cast

import aiohappyeyeballs
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import WebSocketURI, parse_uri

try:
    from websockets.speedups import apply_mask
except ImportError:  # where it was not compiled
    from websockets.utils import apply_mask

from bridges.carriers.base import (
    BUFFER_BYTES,
    CLOSE_TIMEOUT,
    SOON,
    Carrier,
    CarrierBroken,
    CarrierClosed,
    CarrierError,
)
from bridges.carriers.websocket_errors import Unanswered, end_of, explain
from bridges.tls import TlsSettings, client_context, shown_by
from treeconnector.frames import DEFAULT_MAX_FRAME

DEFAULT_TIMEOUT: Final = 10.0
UNSENT: Final = 16 * 1024
_NEXT_ADDRESS: Final = 0.25
"""Seconds that one of a host's addresses has before the next is tried beside it (RFC 8305)."""
_MOST_UNREAD: Final = 512 * 1024
_MOST_REASON: Final = 120
_TLS_ALERT: Final = b"\x15\x03"
_CLOSE_FRAME: Final = b"\x88"
_BINARY: Final = 0x82
_MASKED: Final = 0x80


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
    Raises `CarrierBroken`, `CarrierBusy`, or `bridges.tls.TlsError` for unusable files.
    """
    try:
        address = parse_uri(uri)
    except (InvalidURI, ValueError) as error:
        raise CarrierBroken(
            f"{uri} is no address of this carrier: expected ws://HOST:PORT/link or wss://…"
        ) from error
    context = client_context(tls) if address.secure else None
    carrier = DialledWebSocket(uri, address, max_packet)
    try:
        async with asyncio.timeout(timeout):
            line = await _line(address.host, address.port, local)
            name = ((tls.server_name if tls else "") or address.host) if context else None
            await asyncio.get_running_loop().create_connection(
                lambda: carrier, sock=line, ssl=context, server_hostname=name
            )
            await carrier.opened
    except BaseException as error:
        carrier.abort()
        if isinstance(error, InvalidHandshake | OSError | ValueError | Unanswered):
            raise explain(error, f"{uri} from {local}" if local else uri, timeout, tls) from error
        raise
    return carrier


async def _line(host: str, port: int, local: str) -> socket.socket:
    """A connection to the first of a host's addresses that takes one."""
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


class DialledWebSocket(Carrier, asyncio.Protocol):
    """One open WebSocket, of which we are the client. Made by `connect`."""

    def __init__(self, peer: str, address: WebSocketURI, max_packet: int) -> None:
        self.peer = peer
        self.max_packet = max_packet
        self._loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = self._loop.create_future()
        """Done when the WebSocket is open. Raises `InvalidHandshake`, `Unanswered`."""
        self._transport: asyncio.Transport | None = None
        self._protocol = ClientProtocol(address, max_size=max_packet)
        self._parts = bytearray()
        self._packets: list[bytes] = []
        self._unread = 0
        self._waiting: asyncio.Future[None] | None = None
        self._error: CarrierError | None = None
        self._ending: CarrierError | None = None
        self._drained = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_short = False

    def __repr__(self) -> str:
        state = type(self._error).__name__ if self._error else "open"
        return f"<DialledWebSocket to {self.peer} {state}, {self._buffered} bytes buffered>"

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class
        self.shown = shown_by(transport.get_extra_info("peercert"))
        self._say_when_half_is_gone(self._transport)
        self._drained.set()
        self._protocol.send_request(self._protocol.connect())
        self._write()

    @staticmethod
    def _say_when_half_is_gone(transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=BUFFER_BYTES - 1, low=BUFFER_BYTES // 2)

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        self._write(with_pongs=self.room > 0)  # the answer to a later ping is an answer to those before
        if not self.opened.done():
            self._answered(data)
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take(event)
        if error := self._protocol.parser_exc:
            self._end(CarrierBroken(f"the connection to {self.peer} broke: {error}"))
            self._hang_up()
        if self._packets:
            self._wake()
            if self._unread > _MOST_UNREAD and self._transport is not None:
                self._transport.pause_reading()

    def _answered(self, data: bytes) -> None:
        """A part of the answer to the request has come, perhaps the last."""
        if error := self._protocol.handshake_exc:
            self.opened.set_exception(error)
        elif self._protocol.state is not State.CONNECTING:
            self.opened.set_result(None)
        elif data.startswith(_TLS_ALERT):
            self.opened.set_exception(InvalidMessage("it does not answer as HTTP"))

    def _take(self, frame: Frame) -> None:
        if self._ending is not None or self._error is not None:
            if frame.opcode is Opcode.CLOSE:  # it has heard that we are through; nothing else counts any more
                self._hang_up()
        elif frame.opcode is Opcode.TEXT:
            self._end(CarrierBroken(f"{self.peer} sent text: expected binary packets; is it a Sapwood node?"))
        elif frame.opcode is Opcode.CLOSE and (close := self._protocol.close_rcvd):
            self._end(end_of(self.peer, close.code, close.reason))
            self._hang_up()
        elif frame.opcode in (Opcode.BINARY, Opcode.CONT):
            if not frame.fin:
                self._parts += frame.data
                return
            self._packets.append(b"".join((self._parts, frame.data)))
            self._parts.clear()
            self._unread += len(self._packets[-1])

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        if not self.opened.done():
            self._protocol.receive_eof()  # which may be the end of an answer
            error = self._protocol.handshake_exc
            self.opened.set_exception(error if isinstance(error, InvalidStatus) else Unanswered(exc))
        why = f": {exc}" if exc is not None else ""
        self._end(CarrierBroken(f"the connection to {self.peer} was lost{why}"))

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    # --- receiving

    async def receive(self) -> list[bytes]:
        while not self._packets:
            if self._error is not None:
                raise self._error
            if self._ending is not None:
                self._error = self._ending
                raise self._error
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        packets, self._packets = self._packets, []
        if self._unread > _MOST_UNREAD and self._transport is not None and not self._gone.is_set():
            self._transport.resume_reading()
        self._unread = 0
        return packets

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # --- sending

    def send(self, packets: Sequence[bytes]) -> None:
        if self._error or self._ending:
            raise self._error or cast("CarrierError", self._ending)
        self.check_size(packets)
        self._write()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines([part for packet in packets for part in _frame(packet)])

    def _write(self, *, with_pongs: bool = True) -> None:
        """Send what is due. An empty chunk asks us to end the line, which we do of ourselves."""
        due = [each for each in self._protocol.data_to_send() if each]
        if not with_pongs:
            due = [each for each in due if each.startswith(_CLOSE_FRAME)]
        if due and self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(due)

    @property
    def _buffered(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport and not self._gone.is_set() else 0

    @property
    def room(self) -> int:
        return 0 if self._error or self._ending else BUFFER_BYTES - self._buffered

    @property
    def is_idle(self) -> bool:
        """Asked once, the system takes no more than `UNSENT` bytes that it cannot send from then on."""
        if self._error or self._ending:
            return False
        if not self._is_short and self._transport is not None:
            self._is_short = True
            keep_short(self._transport.get_extra_info("socket"))
        return not self._buffered

    async def until_idle(self) -> bool:
        """Wrinkle: the transport tells of the moment only if it takes its buffer for full until then."""
        transport, begun = self._transport, self._loop.time()
        if transport is not None and not self.is_idle and not self._gone.is_set():
            transport.set_write_buffer_limits(high=0)
            try:
                while self._buffered and not (self._error or self._ending):
                    await self._drained.wait()
            finally:
                self._say_when_half_is_gone(transport)
        if error := self._error or self._ending:
            raise error
        return self._loop.time() - begun < SOON

    async def drain(self) -> None:
        while not (self._error or self._ending) and self.room <= 0:
            await self._drained.wait()
        if error := self._error or self._ending:
            raise error

    # --- the end

    def _end(self, error: CarrierError) -> None:
        """Nothing more comes, and nothing more is sent; what has come is still received."""
        self._ending = self._ending or error
        self._drained.set()
        self._wake()

    def _hang_up(self) -> None:
        """After what is still to be sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Nothing is sent any more."""
        if not self.opened.cancel() and not self.opened.cancelled():
            self.opened.exception()  # who dialled has been told, or has gone
        if self._transport is not None:
            self._transport.abort()

    async def close(self, reason: str = "") -> None:
        if self._error is None:
            self._error = CarrierClosed(
                f"the connection to {self.peer} was closed here: {reason or 'no reason given'}"
            )
        self._packets.clear()
        self._drained.set()
        self._wake()
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000, _short(reason))
            self._write()
        if self._ending is not None:
            self._hang_up()
        elif self._transport is not None:
            self._transport.resume_reading()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._gone.wait()
        finally:
            if not self._gone.is_set():
                self.abort()


def _frame(packet: bytes) -> tuple[bytes, bytes]:
    """Head and masked packet, as RFC 6455 (5.2) says of a client's binary message. `websockets` makes the
    same with a copy more, and its state does not depend on the messages that were sent.
    """
    size, mask = len(packet), os.urandom(4)
    if size < 126:
        head = struct.pack("!BB", _BINARY, _MASKED | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _BINARY, _MASKED | 126, size)
    else:
        head = struct.pack("!BBQ", _BINARY, _MASKED | 127, size)
    return head + mask, apply_mask(packet, mask)


def _short(reason: str) -> str:
    return reason.encode()[:_MOST_REASON].decode(errors="ignore")


def keep_short(line: Any) -> None:
    """Let the system say that it takes no more while it has that much unsent, where it can."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if line is not None and option is not None:
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, option, UNSENT)
