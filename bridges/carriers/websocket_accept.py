"""The WebSocket carrier, accepted: on the node's own port, with aiohttp, which upgrades the request.

Wrinkle: aiohttp hands out one message per `receive()`. To return all that has arrived we look, once per
message, whether its queue still holds some (`_queued`); without that knowledge each packet comes alone.
Wrinkle: aiohttp refuses messages of exactly its limit, so it is told one byte more than `max_packet`.
Wrinkle: aiohttp sends by a coroutine, which nearly always ends without waiting. So it is begun by hand where
the packet is given, and gets a task only if it waits, because the line takes no more.
Wrinkle: aiohttp answers pings while it receives, so receiving can fail as sending does.
"""

import asyncio
import contextlib
import types
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping, Sequence
from typing import Any, Final

import aiohttp
from aiohttp import web

from bridges.carriers.base import (
    BUFFER_BYTES,
    CLOSE_TIMEOUT,
    Carrier,
    CarrierBroken,
    CarrierClosed,
    CarrierError,
    CarrierFlooded,
)
from bridges.carriers.websocket import keep_short
from bridges.carriers.websocket_errors import end_of
from bridges.tls import shown_by
from treeconnector.frames import DEFAULT_MAX_FRAME

_MAX_REASON_BYTES: Final = 120
_SENDING_FAILED: Final = (aiohttp.ClientError, OSError, RuntimeError)


async def accept(
    request: web.BaseRequest,
    *,
    max_packet: int = DEFAULT_MAX_FRAME,
    when_proven: Callable[[], object] = lambda: None,
    refusal: Callable[[], str] = lambda: "",
    protocols: Sequence[str] = (),
) -> "AcceptedWebSocket":
    """Upgrade a request. The handler returns `carrier.response` when the carrier has ended.

    `when_proven`: told what `Carrier.proven` is. `refusal`: why nothing more is read of the other side, '' as
    long as it is; asked when a text comes instead of a packet. `protocols`: subprotocols that may be chosen.
    Raises `CarrierBroken` if the request asks for no WebSocket; nothing was answered then.
    """
    opened: web.WebSocketResponse[Any] = web.WebSocketResponse(
        protocols=protocols,
        compress=False,
        max_msg_size=max_packet + 1,
        timeout=CLOSE_TIMEOUT,
        decode_text=False,
    )
    peer = _address(request)
    if not _asks(opened, request):
        raise CarrierBroken(f"{peer} asked {request.path} without a WebSocket upgrade")
    try:
        await opened.prepare(request)
    except (aiohttp.ClientError, OSError) as error:
        raise CarrierBroken(f"{peer} went away while its WebSocket was opened: {error}") from error
    carrier = AcceptedWebSocket(opened, peer, max_packet)
    carrier.when_proven, carrier.refusal = when_proven, refusal
    carrier.shown = shown_by(peer_certificate(request))
    return carrier


def _asks(opened: "web.WebSocketResponse[Any]", request: web.BaseRequest) -> bool:
    """Wrinkle: a key with bytes that no key has is an error in aiohttp, not an answer."""
    try:
        return bool(opened.can_prepare(request))
    except ValueError:
        return False


def peer_certificate(request: web.BaseRequest) -> Mapping[str, Any] | None:
    """The proof that the caller has shown, verified; None or empty if it showed no certificate."""
    found: Mapping[str, Any] | None = (
        request.transport.get_extra_info("peercert") if request.transport else None
    )
    return found


class AcceptedWebSocket(Carrier):
    """One open WebSocket, of which we are the server. Made by `accept`."""

    def __init__(self, opened: "web.WebSocketResponse[Any]", peer: str, max_packet: int) -> None:
        self.peer = peer
        self.max_packet = max_packet
        self._socket = opened
        self.when_proven: Callable[[], object] = lambda: None
        self.refusal: Callable[[], str] = lambda: ""
        self._queue = _queue_of(opened)
        self._error: CarrierError | None = None
        self._ending: CarrierError | None = None
        self._outgoing: deque[bytes] = deque()
        self._buffered = 0
        self._drained = asyncio.Event()
        self._drained.set()
        self._writer: asyncio.Task[None] | None = None
        self._is_short = False

    def __repr__(self) -> str:
        state = type(self._error).__name__ if self._error else "open"
        return f"<AcceptedWebSocket to {self.peer} {state}, {self._buffered} bytes buffered>"

    @property
    def response(self) -> web.StreamResponse:
        """The answer that the request's handler returns in the end."""
        return self._socket

    # --- receiving

    async def receive(self) -> list[bytes]:
        if self._error:
            raise self._error
        packets: list[bytes] = []
        while self._ending is None:
            try:
                message = await self._socket.receive()
            except _SENDING_FAILED as error:
                self._ending = CarrierBroken(f"the connection to {self.peer} was lost: {error}")
                break
            if message.type is aiohttp.WSMsgType.BINARY:
                packets.append(message.data)
                if not self._queue:
                    return packets
            else:
                self._ending = self._end_of(message)
        if packets:
            return packets
        if isinstance(self._ending, CarrierFlooded):
            raise self._ending
        self._fail(self._ending)
        raise self._error or self._ending

    def _end_of(self, message: Any) -> CarrierError:
        """Why there will be no further packets."""
        kind = message.type
        if kind is aiohttp.WSMsgType.CLOSE:
            return end_of(self.peer, message.data, message.extra or "")
        if kind is aiohttp.WSMsgType.ERROR:
            return CarrierBroken(f"the connection to {self.peer} broke: {message.data}")
        if kind is aiohttp.WSMsgType.TEXT:
            if refusal := self.refusal():
                return CarrierFlooded(refusal)
            return CarrierBroken(f"{self.peer} sent text: expected binary packets; is it a Sapwood node?")
        return CarrierBroken(f"the connection to {self.peer} was lost")

    def proven(self) -> None:
        super().proven()
        self.when_proven()

    # --- sending

    def send(self, packets: Sequence[bytes]) -> None:
        if self._error:
            raise self._error
        self._buffered += self.check_size(packets)
        self._outgoing.extend(packets)
        if self._writer is None:
            self._write()
        if self._buffered >= BUFFER_BYTES:
            self._drained.clear()

    @property
    def room(self) -> int:
        return 0 if self._error else BUFFER_BYTES - self._buffered

    @property
    def is_idle(self) -> bool:
        """Asked once, the system takes no more than `UNSENT` bytes that it cannot send from then on."""
        if self._error or self._buffered:
            return False
        if not self._is_short:
            self._is_short = True
            keep_short(self._socket.get_extra_info("socket"))
        transport = getattr(getattr(self._socket, "_writer", None), "transport", None)
        return transport is None or not transport.get_write_buffer_size()

    async def drain(self) -> None:
        while not self._error and self.room <= 0:
            await self._drained.wait()
        if self._error:
            raise self._error

    def _write(self) -> None:
        """Hand buffered packets to the socket, as long as it takes them without waiting."""
        outgoing = self._outgoing
        try:
            while outgoing:
                sending = self._socket.send_bytes(outgoing[0])
                try:
                    waits = sending.send(None)
                except StopIteration:
                    self._buffered -= len(outgoing.popleft())
                else:
                    self._writer = asyncio.create_task(self._write_on(sending, waits))
                    return
        except _SENDING_FAILED as error:
            self._fail(CarrierBroken(f"sending to {self.peer} failed: {error}"))

    async def _write_on(self, sending: Coroutine[Any, Any, None], waits: Any) -> None:
        """Wait with the packet that has to, then go on with those behind it."""
        try:
            await _rest(sending, waits)
            self._written()
            while self._outgoing:
                await self._socket.send_bytes(self._outgoing[0])
                self._written()
        except _SENDING_FAILED as error:
            self._fail(CarrierBroken(f"sending to {self.peer} failed: {error}"))
        finally:
            self._writer = None

    def _written(self) -> None:
        self._buffered -= len(self._outgoing.popleft())
        if self._buffered < BUFFER_BYTES:
            self._drained.set()

    # --- the end

    def _fail(self, error: CarrierError) -> None:
        self._error = self._error or error
        self._drained.set()

    def _stop_writing(self) -> None:
        if self._writer is not None and self._writer is not asyncio.current_task():
            self._writer.cancel()

    async def close(self, reason: str = "") -> None:
        if not isinstance(self._error, CarrierError):
            error = CarrierClosed(
                f"the connection to {self.peer} was closed here: {reason or 'no reason given'}"
            )
            self._error = error
            self._drained.set()
            if self._writer is not None:
                await asyncio.wait((self._writer,), timeout=CLOSE_TIMEOUT)
        self._stop_writing()
        await self._close_socket(reason)

    async def _close_socket(self, reason: str) -> None:
        message = reason.encode()[:_MAX_REASON_BYTES].decode(errors="ignore").encode()
        with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError, RuntimeError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._socket.close(message=message)


@types.coroutine
def _rest(begun: Coroutine[Any, Any, None], waits: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that was begun by hand and waits for a future now."""
    yield waits
    yield from begun


def _queue_of(opened: "web.WebSocketResponse[Any]") -> Collection[Any]:
    """The messages that aiohttp has parsed already; empty for ever if it does not show them."""
    reader = getattr(opened, "_reader", None)
    queue = getattr(reader, "_buffer", ())
    return queue if isinstance(queue, deque) else ()


def _address(request: web.BaseRequest) -> str:
    name = request.transport.get_extra_info("peername") if request.transport else None
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "an unknown address")
