"""The WebSocket carrier, dialled: one binary WebSocket message is one packet, on ws:// and wss://.

No compression (bundles are compressed where they enter), no WebSocket pings of our own (links have their
keep-alive; a peer's ping is answered), no proxy from the environment, no redirects, TCP_NODELAY.

The node's own port accepts with aiohttp (`websocket_accept`); this side does without, since most leaves would
load it for nothing else, and a packet comes from the socket to whoever waits for it in one step.
"""

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from secrets import token_bytes
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import aiohappyeyeballs

from bridges.carriers.base import (
    BUFFER_BYTES,
    CLOSE_TIMEOUT,
    Carrier,
    CarrierBroken,
    CarrierClosed,
    CarrierError,
)
from bridges.carriers.websocket_errors import Unanswered, end_of, explain, explain_status
from bridges.carriers.websocket_frames import (
    BINARY,
    CLOSE,
    LARGE,
    MAX_HEAD,
    PING,
    PONG,
    TEXT,
    BadFrame,
    Frames,
    Opening,
    closing,
    frame,
    load_fast_mask,
    opening,
    request,
)
from bridges.tls import TlsSettings, client_context
from config.schemes import DIRECT
from treeconnector.frames import DEFAULT_MAX_FRAME

DEFAULT_TIMEOUT: Final = 10.0
UNSENT: Final = 16 * 1024
_NEXT_ADDRESS: Final = 0.25
"""Seconds that one of a host's addresses has before the next is tried beside it (RFC 8305)."""
_MOST_UNREAD: Final = 512 * 1024
_MOST_REASON: Final = 120
_TLS_ALERT: Final = b"\x15\x03"
_END: Final = b"\r\n\r\n"


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
    parts = urlsplit(uri)
    if parts.scheme not in DIRECT.schemes:
        raise CarrierBroken(f"{uri} is no address of this carrier: expected ws://HOST:PORT/link or wss://…")
    context = client_context(tls) if parts.scheme == DIRECT.tls_scheme else None
    carrier = DialledWebSocket(uri, max_packet)
    try:
        async with asyncio.timeout(timeout):
            host, port = parts.hostname or "", parts.port or (443 if context else 80)
            line = await _line(host, port, local)
            name = ((tls.server_name if tls else "") or host) if context else None
            await asyncio.get_running_loop().create_connection(
                lambda: carrier, sock=line, ssl=context, server_hostname=name
            )
            target = quote(parts.path or "/", "/%:@!$&'()*+,;=~") + (f"?{parts.query}" if parts.query else "")
            opened = await carrier.ask(parts.netloc, target)
    except BaseException as error:
        carrier.abort()
        if isinstance(error, BadFrame | OSError | TimeoutError | ValueError | Unanswered):
            raise explain(error, f"{uri} from {local}" if local else uri, timeout, tls) from error
        raise
    if opened.status != 101:
        carrier.abort()
        raise explain_status(opened, uri, tls)
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

    def __init__(self, peer: str, max_packet: int) -> None:
        self.peer = peer
        self.max_packet = max_packet
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames = Frames(max_packet)
        self._key = token_bytes(16)
        self._head = b""
        self._answer: asyncio.Future[Opening] = self._loop.create_future()
        self._packets: list[bytes] = []
        self._unread = 0
        self._waiting: asyncio.Future[None] | None = None
        self._error: CarrierError | None = None
        self._ending: CarrierError | None = None
        self._drained = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_short = False
        self._is_large = False
        self._said_end = False

    def __repr__(self) -> str:
        state = type(self._error).__name__ if self._error else "open"
        return f"<DialledWebSocket to {self.peer} {state}, {self._buffered} bytes buffered>"

    # --- opening

    async def ask(self, host: str, target: str) -> Opening:
        """Ask for the WebSocket, once. Raises `BadFrame`, `Unanswered`."""
        assert self._transport is not None
        self._transport.write(request(host, target, self._key))
        return await self._answer

    def _answered(self, data: bytes) -> bytes:
        """A part of the answer's head has come. Returns what came behind it."""
        self._head += data
        head, found, rest = self._head.partition(_END)
        if not found and len(self._head) <= MAX_HEAD and not self._head.startswith(_TLS_ALERT):
            return b""
        self._head = b""
        try:
            self._answer.set_result(opening(head, self._key))
        except BadFrame as error:
            self._answer.set_exception(error)
        return rest

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class
        self._transport.set_write_buffer_limits(high=BUFFER_BYTES - 1, low=BUFFER_BYTES // 2)
        self._drained.set()

    def data_received(self, data: bytes) -> None:
        if not self._answer.done():
            data = self._answered(data)
        try:
            for opcode, payload in self._frames.receive(data):
                self._take(opcode, payload)
        except BadFrame as error:
            self._say_end(error.code, str(error))
            self._end(CarrierBroken(f"the connection to {self.peer} broke: {error}"))
            self._hang_up()
        if self._packets:
            self._wake()
            if self._unread > _MOST_UNREAD and self._transport is not None:
                self._transport.pause_reading()

    def _take(self, opcode: int, payload: bytes) -> None:
        if self._ending is not None or self._error is not None:
            if opcode == CLOSE:  # it has heard that we are through; nothing else counts any more
                self._hang_up()
        elif opcode == BINARY:
            self._packets.append(payload)
            self._unread += len(payload)
        elif opcode == PING:
            if self.room > 0:  # the answer to a later one is an answer to those before
                self._write(PONG, payload)
        elif opcode == CLOSE:
            code, reason = closing(payload)
            self._say_end(code if code != 1005 else 1000, "")
            self._end(end_of(self.peer, code, reason))
            self._hang_up()
        elif opcode == TEXT:
            self._end(CarrierBroken(f"{self.peer} sent text: expected binary packets; is it a Sapwood node?"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        if not self._answer.done():
            self._answer.set_exception(Unanswered(exc))
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
        if self.check_size(packets) >= LARGE and not self._is_large:
            self._is_large = True
            self._loop.run_in_executor(None, load_fast_mask)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines([frame(BINARY, packet, token_bytes(4)) for packet in packets])

    def _write(self, opcode: int, payload: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame(opcode, payload, token_bytes(4)))

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

    def _say_end(self, code: int, reason: str) -> None:
        if not self._said_end:
            self._said_end = True
            self._write(CLOSE, code.to_bytes(2) + _short(reason))

    def _hang_up(self) -> None:
        """After what is still to be sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Nothing is sent any more."""
        if not self._answer.done():
            self._answer.cancel()
        elif not self._answer.cancelled():
            self._answer.exception()  # who asked has been told, or has gone
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
        self._say_end(1000, reason)
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


def _short(reason: str) -> bytes:
    return reason.encode()[:_MOST_REASON].decode(errors="ignore").encode()


def keep_short(line: Any) -> None:
    """Let the system say that it takes no more while it has that much unsent, where it can."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if line is not None and option is not None:
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, option, UNSENT)
