"""The WebSocket carrier: one binary WebSocket message is one packet, on ws:// and wss://, with aiohttp.

No compression (bundles are compressed where they enter), no WebSocket pings of our own (links have their
keep-alive; a peer's ping is answered), no proxy from the environment, no redirects, TCP_NODELAY.

Wrinkle: aiohttp hands out one message per `receive()`. To return all that has arrived we look, once per
message, whether its queue still holds some (`_queued`); without that knowledge each packet comes alone.
Wrinkle: aiohttp refuses messages of exactly its limit, so it is told one byte more than `max_packet`.
Wrinkle: aiohttp sends by a coroutine, which nearly always ends without waiting. So it is begun by hand where
the packet is given, and gets a task only if it waits, because the line takes no more.
Wrinkle: aiohttp answers pings while it receives, so receiving can fail as sending does.
"""

import asyncio
import contextlib
import os
import socket
import ssl
import types
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Generator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from bridges.carriers.base import (
    BUFFER_BYTES,
    CLOSE_TIMEOUT,
    Carrier,
    CarrierBroken,
    CarrierBusy,
    CarrierClosed,
    CarrierEnded,
    CarrierError,
    CarrierFlooded,
)
from bridges.tls import TlsSettings, client_context, is_not_tls, shown_by
from config.schemes import DIRECT
from treeconnector.frames import DEFAULT_MAX_FRAME

DEFAULT_TIMEOUT: Final = 10.0
UNSENT: Final = 16 * 1024
_MAX_REASON_BYTES: Final = 120
_CLOSED_WELL: Final = frozenset({aiohttp.WSCloseCode.OK, aiohttp.WSCloseCode.GOING_AWAY})
_SENDING_FAILED: Final = (aiohttp.ClientError, OSError, RuntimeError)
_Socket = aiohttp.ClientWebSocketResponse[Any] | web.WebSocketResponse[Any]


async def connect(
    uri: str,
    *,
    tls: TlsSettings | None = None,
    timeout: float = DEFAULT_TIMEOUT,
    max_packet: int = DEFAULT_MAX_FRAME,
    local: str = "",
) -> "WebSocketCarrier":
    """Dial `uri` (ws:// or wss://, with path). `timeout`: seconds for everything until it is open.

    `local`: the address to bind, '' = as the system chooses.
    Raises `CarrierBroken`, `CarrierBusy`, or `bridges.tls.TlsError` for unusable files.
    """
    scheme = urlsplit(uri).scheme
    if scheme not in DIRECT.schemes:
        raise CarrierBroken(f"{uri} is no address of this carrier: expected ws://HOST:PORT/link or wss://…")
    context = client_context(tls) if scheme == DIRECT.tls_scheme else None
    session = _session(context, local)
    try:
        async with asyncio.timeout(timeout):
            opened = await session.ws_connect(
                uri,
                max_msg_size=max_packet + 1,
                compress=0,
                decode_text=False,
                server_hostname=(tls.server_name or None) if tls and context else None,
                timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT),
            )
    except BaseException as error:
        await session.close()
        if isinstance(error, aiohttp.ClientError | OSError | TimeoutError | ValueError):
            raise _explain(error, f"{uri} from {local}" if local else uri, timeout, tls) from error
        raise
    return WebSocketCarrier(opened, uri, max_packet, session)


async def accept(
    request: web.BaseRequest,
    *,
    max_packet: int = DEFAULT_MAX_FRAME,
    when_proven: Callable[[], object] = lambda: None,
    refusal: Callable[[], str] = lambda: "",
    protocols: Sequence[str] = (),
) -> "WebSocketCarrier":
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
    carrier = WebSocketCarrier(opened, peer, max_packet)
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


class WebSocketCarrier(Carrier):
    """One open WebSocket. Made by `connect` or `accept`."""

    def __init__(
        self, opened: _Socket, peer: str, max_packet: int, session: aiohttp.ClientSession | None = None
    ) -> None:
        self.peer = peer
        self.max_packet = max_packet
        self._socket = opened
        self._session = session
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
        return f"<WebSocketCarrier to {self.peer} {state}, {self._buffered} bytes buffered>"

    @property
    def response(self) -> web.StreamResponse:
        """The answer that the request's handler returns in the end (of an accepted carrier)."""
        assert isinstance(self._socket, web.WebSocketResponse)
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
            reason = message.extra or "no reason given"
            if message.data == aiohttp.WSCloseCode.TRY_AGAIN_LATER:
                return CarrierBusy(f"{self.peer} cannot take us now: {reason}")
            if message.data in _CLOSED_WELL:
                return CarrierEnded(f"{self.peer} closed the connection: {reason}")
            return CarrierBroken(f"{self.peer} gave the connection up with code {message.data}: {reason}")
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
            _keep_short(self._socket)
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
        if self._session and not isinstance(error, CarrierClosed):
            self._stop_writing()

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
        try:
            with contextlib.suppress(TimeoutError, aiohttp.ClientError, OSError, RuntimeError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._socket.close(message=message)
        finally:
            if self._session:
                await self._session.close()


@types.coroutine
def _rest(begun: Coroutine[Any, Any, None], waits: Any) -> Generator[Any, Any, None]:
    """The rest of a coroutine that was begun by hand and waits for a future now."""
    yield waits
    yield from begun


def _queue_of(opened: _Socket) -> Collection[Any]:
    """The messages that aiohttp has parsed already; empty for ever if it does not show them."""
    reader = getattr(opened, "_reader", None)
    queue = getattr(reader, "_buffer", ())
    return queue if isinstance(queue, deque) else ()


def _keep_short(opened: _Socket) -> None:
    """Let the system say that it takes no more while it has that much unsent, where it can."""
    line = opened.get_extra_info("socket")
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if line is not None and option is not None:
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, option, UNSENT)


def _session(context: ssl.SSLContext | None, local: str) -> aiohttp.ClientSession:
    """A session for one connection: no redirects, no proxy, no cookies, no cached names."""
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_refuse_redirect)
    bound = (local, 0) if local else None
    connector = aiohttp.TCPConnector(ssl=context or True, limit=1, use_dns_cache=False, local_addr=bound)
    return aiohttp.ClientSession(
        connector=connector,
        trust_env=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        trace_configs=[trace],
        timeout=aiohttp.ClientTimeout(total=None),
    )


async def _refuse_redirect(
    _session: aiohttp.ClientSession, _context: object, redirect: aiohttp.TraceRequestRedirectParams
) -> None:
    where = redirect.response.headers.get("Location", "elsewhere")
    raise aiohttp.ClientPayloadError(f"it redirects to {where}, which links do not follow")


def _address(request: web.BaseRequest) -> str:
    name = request.transport.get_extra_info("peername") if request.transport else None
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "an unknown address")


def _explain(error: BaseException, uri: str, timeout: float, tls: TlsSettings | None) -> CarrierError:
    """Say in words that help why dialling failed."""
    match error:
        case aiohttp.WSServerHandshakeError():
            return _explain_status(error.status, uri, tls)
        case aiohttp.ClientConnectorCertificateError():
            return CarrierBroken(_explain_certificate(error.certificate_error, uri))
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return CarrierBroken(f"TLS with {uri} failed: {_first(error)}{_tls_hint(error, tls, uri)}")
        case aiohttp.ClientConnectorDNSError() | socket.gaierror():
            return CarrierBroken(f"{uri}: its host is not known to DNS ({_first(error)})")
        case TimeoutError():
            return CarrierBroken(f"{uri} did not answer within {timeout:g} s")
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() if uri.startswith(
            "wss"
        ) and not _nobody_listens(error):
            return CarrierBroken(
                f"{uri} ended the connection in the handshake: {_first(error)}{_certificate_hint(tls, uri)}"
            )
        case aiohttp.ServerDisconnectedError():
            return CarrierBroken(f"{uri} ended the connection: does its port speak TLS? Then write wss://")
        case _:
            return CarrierBroken(f"{uri} cannot be reached: {_first(error)}")


def _explain_status(status: int, uri: str, tls: TlsSettings | None) -> CarrierError:
    if status in (429, 503):
        return CarrierBusy(f"{uri} cannot take us now (HTTP {status}); try later")
    hint = {
        401: "it asks for a credential" + _certificate_hint(tls, uri),
        403: "it refuses us (a leaf takes no children)",
        404: "there is nothing at that path: links live at /link",
    }.get(status, "is it a Sapwood node, and is the path /link?")
    return CarrierBroken(f"{uri} answered HTTP {status} instead of opening a WebSocket: {hint}")


def _explain_certificate(error: Exception, uri: str) -> str:
    why = getattr(error, "verify_message", "") or str(error)
    if "expired" in why:
        return f"the certificate of {uri} has expired: renew it there (is the clock here right?)"
    if "match" in why.lower() or "not valid for" in why:
        return f"the certificate of {uri} is for another host ({why}): dial the name that it carries"
    return f"the certificate of {uri} is not trusted ({why}): name its authority in the setting `ca`"


def _nobody_listens(error: BaseException) -> bool:
    inner = getattr(error, "os_error", None) or error
    return isinstance(inner, ConnectionRefusedError) or "Connect call failed" in str(inner)


def _tls_hint(error: BaseException, tls: TlsSettings | None, uri: str) -> str:
    if is_not_tls(getattr(error, "os_error", error)):
        return "; its port speaks ws only: write ws://, or give the parent's listener a certificate"
    return _certificate_hint(tls, uri)


def _certificate_hint(tls: TlsSettings | None, uri: str) -> str:
    if not uri.startswith("wss") or (tls and tls.certificate):
        return ""
    return "; it may ask for a client certificate: give `certificate` and `key`"


def _first(error: BaseException) -> str:
    inner = getattr(error, "os_error", None) or error
    text = str(getattr(inner, "strerror", None) or inner) or type(error).__name__
    if isinstance(inner, OSError) and inner.errno and text.startswith("Connect call failed"):
        return os.strerror(inner.errno)  # asyncio puts its own words in the place of the system's
    return text
