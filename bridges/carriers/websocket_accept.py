"""The WebSocket carrier at the other end: one that the node's own port has accepted (`websocket` dials).

aiohttp, which owns that port, reads the request and hands on what comes, as long as the other side is a
stranger: so much of it is read as the port allows. Then the carrier takes the connection over.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import aiohttp
from aiohttp import web
from websockets.utils import accept_key

from bridges.carriers.base import SOON, CarrierBroken, CarrierFlooded
from bridges.carriers.websocket_line import WebSocketLine
from bridges.resets import rest_of, take
from bridges.tls import shown_by
from treeconnector.frames import DEFAULT_MAX_FRAME

_KEY: Final = "Sec-WebSocket-Key"


async def accept(
    request: web.BaseRequest,
    *,
    max_packet: int = DEFAULT_MAX_FRAME,
    when_proven: Callable[[], object] = lambda: None,
    refusal: Callable[[], str] = lambda: "",
    is_stranger: Callable[[], bool] = lambda: False,
    protocols: Sequence[str] = (),
) -> "AcceptedWebSocket":
    """Upgrade a request. The handler returns `carrier.response` when the carrier has ended.

    `when_proven`: told what `Carrier.proven` is. `refusal`: why nothing more is read of the other side, '' as
    long as it is; asked when a text comes instead of a packet. `is_stranger`: has the other side still to
    prove itself? `protocols`: subprotocols that may be chosen.
    Raises `CarrierBroken` if the request asks for no WebSocket; nothing was answered then.
    """
    peer = _address(request)
    answer = _answer(request, protocols)
    if answer is None:
        raise CarrierBroken(f"{peer} asked {request.path} without a WebSocket upgrade")
    try:
        await answer.prepare(request)
    except (aiohttp.ClientError, OSError) as error:
        raise CarrierBroken(f"{peer} went away while its WebSocket was opened: {error}") from error
    if request.transport is None:
        raise CarrierBroken(f"{peer} went away while its WebSocket was opened")
    carrier = AcceptedWebSocket(answer, request.transport, peer, max_packet)
    carrier.when_proven, carrier.refusal, carrier.is_stranger = when_proven, refusal, is_stranger
    carrier.shown = shown_by(peer_certificate(request))
    request.protocol.keep_alive(False)
    request.protocol.set_parser(cast("Any", carrier))
    carrier.look_who_it_is()
    return carrier


class _Answer(web.StreamResponse):
    """Its head is all that aiohttp sends."""

    _length_check = False

    async def write_eof(self, data: bytes = b"") -> None:
        """The carrier has closed the connection."""


def _answer(request: web.BaseRequest, protocols: Sequence[str]) -> _Answer | None:
    """Wrinkle: a key with bytes that no key has is an error in aiohttp, not an answer."""
    try:
        found = web.WebSocketResponse(protocols=protocols).can_prepare(request)
    except ValueError:
        return None
    if not found:
        return None
    headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
    headers["Sec-WebSocket-Accept"] = accept_key(request.headers[_KEY])
    if found.protocol:
        headers["Sec-WebSocket-Protocol"] = found.protocol
    answer = _Answer(status=101, headers=headers)
    answer.force_close()
    return answer


def peer_certificate(request: web.BaseRequest) -> Mapping[str, Any] | None:
    """The proof that the caller has shown, verified; None or empty if it showed no certificate."""
    found: Mapping[str, Any] | None = (
        request.transport.get_extra_info("peercert") if request.transport else None
    )
    return found


class AcceptedWebSocket(WebSocketLine):
    """One open WebSocket, of which we are the server. Made by `accept`.

    `response`: the answer that the request's handler returns in the end.
    """

    def __init__(
        self, response: web.StreamResponse, transport: asyncio.Transport, peer: str, max_packet: int
    ) -> None:
        super().__init__(peer, max_packet, is_client=False)
        self.response = response
        self.when_proven: Callable[[], object] = lambda: None
        self.refusal: Callable[[], str] = lambda: ""
        self.is_stranger: Callable[[], bool] = lambda: False
        self._transport = transport
        self._behind: asyncio.BaseProtocol | None = None
        self._drained.set()

    # --- as long as aiohttp reads

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """As aiohttp's parsers have it."""
        self._take(self._reader.feed(data))
        self.look_who_it_is()
        return False, b""

    def feed_eof(self) -> None:
        """The connection has gone."""
        if not self._gone.is_set():
            super().connection_lost(None)

    def proven(self) -> None:
        super().proven()
        self.when_proven()
        self.look_who_it_is()

    def look_who_it_is(self) -> None:
        """If it is no stranger any more, the connection is read here: when what was told of that is done."""
        if self._behind is None and not self.is_stranger():
            self._loop.call_soon(self._take_over)

    def _take_over(self) -> None:
        """Wrinkle: uvloop notices another protocol's way of reading when reading begins."""
        transport = self._transport
        if self._behind is not None or transport is None or transport.is_closing():
            return
        self._behind = transport.get_protocol()
        if isinstance(self._behind, asyncio.Protocol):
            self._behind.data_received(b"")  # it may keep what has come of a head
        reads = transport.is_reading()
        transport.pause_reading()
        transport.set_protocol(self)
        if reads:
            transport.resume_reading()
        self._took_over(transport)

    async def _told(self) -> None:
        if self._behind is None:
            await asyncio.sleep(SOON)  # a stranger's: aiohttp is told when there is room
        else:
            await super()._told()

    # --- the connection's end

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None and self._transport is not None:
            take(self, rest_of(self._transport))
        super().connection_lost(exc)
        if self._behind is not None:
            self._behind.connection_lost(exc)

    def _text_came(self, data: bytes) -> None:
        if refusal := self.refusal():
            self._end(CarrierFlooded(refusal))
        else:
            super()._text_came(data)


def _address(request: web.BaseRequest) -> str:
    name = request.transport.get_extra_info("peername") if request.transport else None
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "an unknown address")
