"""What is particular to the WebSocket carrier: TLS, the handshake's errors, hostile or foreign peers."""

import asyncio
import base64
import contextlib
import datetime
import hashlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import trustme
import uvloop
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.uri import parse_uri

from bridges.carriers import websocket, websocket_accept
from bridges.carriers.base import BUFFER_BYTES, CarrierBroken, CarrierBusy, CarrierEnded, CarrierError
from bridges.tls import TlsSettings, server_context

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def echo(request: web.Request) -> web.StreamResponse:
    """Send back what comes, until the carrier ends."""
    carrier = await websocket_accept.accept(request, max_packet=1000)
    try:
        while True:
            carrier.send(await carrier.receive())
    except CarrierError:
        await carrier.close()
    return carrier.response


@asynccontextmanager
async def listening(handler: Handler = echo, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    app = web.Application()
    app.router.add_get("/link", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


async def exchange(uri: str, tls: TlsSettings | None = None) -> list[bytes]:
    carrier = await websocket.connect(uri, tls=tls)
    try:
        carrier.send([b"there and back"])
        async with asyncio.timeout(60):
            return await carrier.receive()
    finally:
        await carrier.close()


class Authority:
    """A certificate authority with files for one server and one client."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))

    def issue(self, name: str, *hosts: str, until: datetime.datetime | None = None) -> tuple[Path, Path]:
        leaf = self.authority.issue_cert(*hosts, not_after=until)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        leaf.cert_chain_pems[0].write_to_path(str(certificate))
        leaf.private_key_pem.write_to_path(str(key))
        return certificate, key


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    (tmp_path / "ours").mkdir()
    return Authority(tmp_path / "ours")


@pytest.fixture
def foreign(tmp_path: Path) -> Authority:
    (tmp_path / "foreign").mkdir()
    return Authority(tmp_path / "foreign")


async def test_wss_with_a_trusted_certificate(ours: Authority) -> None:
    context = server_context(*ours.issue("server", "127.0.0.1"))
    async with listening(context=context) as port:
        answer = await exchange(f"wss://127.0.0.1:{port}/link", TlsSettings(ca=ours.ca))
    assert answer == [b"there and back"]


async def test_an_unknown_authority_is_refused(ours: Authority, foreign: Authority) -> None:
    context = server_context(*ours.issue("server", "127.0.0.1"))
    async with listening(context=context) as port:
        with pytest.raises(CarrierBroken, match=r"is not trusted .* setting `ca`"):
            await exchange(f"wss://127.0.0.1:{port}/link", TlsSettings(ca=foreign.ca))


async def test_an_expired_certificate_is_refused(ours: Authority) -> None:
    long_ago = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    context = server_context(*ours.issue("server", "127.0.0.1", until=long_ago))
    async with listening(context=context) as port:
        with pytest.raises(CarrierBroken, match="has expired: renew it"):
            await exchange(f"wss://127.0.0.1:{port}/link", TlsSettings(ca=ours.ca))


async def test_a_certificate_for_another_host_is_refused_unless_told_not_to_look(ours: Authority) -> None:
    context = server_context(*ours.issue("server", "elsewhere.example"))
    async with listening(context=context) as port:
        uri = f"wss://127.0.0.1:{port}/link"
        with pytest.raises(CarrierBroken, match="is for another host"):
            await exchange(uri, TlsSettings(ca=ours.ca))
        assert await exchange(uri, TlsSettings(ca=ours.ca, verify_hostname=False))
        assert await exchange(uri, TlsSettings(ca=ours.ca, server_name="elsewhere.example"))


async def test_a_client_certificate_tells_its_names_where_its_authority_is_given(
    ours: Authority, foreign: Authority
) -> None:
    shown: list[frozenset[str]] = []

    async def certified(request: web.Request) -> web.StreamResponse:
        carrier = await websocket_accept.accept(request)
        shown.append(carrier.shown.certified)
        carrier.send(await carrier.receive())
        await carrier.close()
        return carrier.response

    context = server_context(*ours.issue("server", "127.0.0.1"), ours.ca)
    known = TlsSettings(ours.ca, *ours.issue("client", "store-1.example"))
    unknown = TlsSettings(ours.ca, *foreign.issue("client", "store-1.example"))
    async with listening(certified, context) as port:
        uri = f"wss://127.0.0.1:{port}/link"
        assert await exchange(uri, known) == [b"there and back"]
        assert await exchange(uri, TlsSettings(ca=ours.ca)) == [b"there and back"]
        assert shown == [frozenset({"store-1.example"}), frozenset()]
        with pytest.raises(CarrierBroken):
            await exchange(uri, unknown)


async def test_who_is_asked_for_a_certificate_is_told_which_setting_gives_one(ours: Authority) -> None:
    async def refuse(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=401)

    async with listening(refuse, server_context(*ours.issue("server", "127.0.0.1"), ours.ca)) as port:
        with pytest.raises(CarrierBroken, match="may ask for a client certificate: give `certificate`"):
            await exchange(f"wss://127.0.0.1:{port}/link", TlsSettings(ca=ours.ca))


async def test_plain_words_to_a_tls_port_and_the_other_way_round(ours: Authority) -> None:
    context = server_context(*ours.issue("server", "127.0.0.1"))
    async with listening(context=context) as port:
        with pytest.raises(CarrierBroken):
            await exchange(f"ws://127.0.0.1:{port}/link")
    async with listening() as port:
        with pytest.raises(CarrierBroken, match=r"TLS with wss://127.0.0.1"):
            await exchange(f"wss://127.0.0.1:{port}/link", TlsSettings(ca=ours.ca))


@pytest.mark.parametrize("scheme", ["ws", "wss"])
async def test_nobody_listens(scheme: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(CarrierBroken, match=f"127.0.0.1:{port}/link cannot be reached") as caught:
            await websocket.connect(f"{scheme}://127.0.0.1:{port}/link")
        assert "certificate" not in str(caught.value)


async def test_a_silent_listener_costs_the_timeout_only() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(CarrierBroken, match=r"did not answer within 0.05 s"):
            await websocket.connect(f"ws://127.0.0.1:{port}/link", timeout=0.05)


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (404, CarrierBroken, "links live at /link"),
        (403, CarrierBroken, "it refuses us .a leaf takes no children"),
        (200, CarrierBroken, "is it a Sapwood node"),
        (503, CarrierBusy, "try later"),
    ],
)
async def test_an_answer_that_is_no_websocket(status: int, error: type[CarrierError], said: str) -> None:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status)

    async with listening(answer) as port:
        with pytest.raises(error, match=said):
            await websocket.connect(f"ws://127.0.0.1:{port}/link")


async def test_a_redirect_is_not_followed() -> None:
    async def away(_request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound("http://127.0.0.1:1/elsewhere")

    async with listening(away) as port:
        with pytest.raises(CarrierBroken, match=r"redirects to http://127.0.0.1:1/elsewhere"):
            await websocket.connect(f"ws://127.0.0.1:{port}/link")


async def test_another_scheme_is_refused_by_name() -> None:
    with pytest.raises(CarrierBroken, match=r"tcp://x:1 is no address .* expected ws://HOST:PORT/link"):
        await websocket.connect("tcp://x:1")


async def test_a_request_without_upgrade_is_no_carrier() -> None:
    said: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        with pytest.raises(CarrierBroken) as caught:
            await websocket_accept.accept(request)
        said.append(str(caught.value))
        return web.Response(status=426)

    async with (
        listening(handle) as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/link") as answer,
    ):
        assert answer.status == 426
    assert "asked /link without a WebSocket upgrade" in said[0]


async def collect_end(carrier: websocket_accept.AcceptedWebSocket) -> CarrierError:
    async with asyncio.timeout(60):
        while True:
            try:
                await carrier.receive()
            except CarrierError as error:
                return error


async def test_a_message_over_the_limit_ends_the_connection_on_both_sides() -> None:
    async with listening() as port:
        carrier = await websocket.connect(f"ws://127.0.0.1:{port}/link", max_packet=5000)
        carrier.send([b"x" * 1001])
        error = await collect_end(carrier)
        await carrier.close()
    assert isinstance(error, CarrierBroken)
    assert "code 1009" in str(error)


def noting_ends() -> tuple[asyncio.Queue[CarrierError], Any]:
    """The errors that carriers end with, and a handler that accepts these carriers."""
    ends: asyncio.Queue[CarrierError] = asyncio.Queue()

    async def handle(request: web.Request) -> web.StreamResponse:
        carrier = await websocket_accept.accept(request)
        ends.put_nowait(await collect_end(carrier))
        await carrier.close()
        return carrier.response

    return ends, handle


async def test_text_is_not_ours() -> None:
    ends, handle = noting_ends()
    async with (
        listening(handle) as port,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/link") as plain,
    ):
        await plain.send_str("hello")
        assert "sent text: expected binary packets" in str(await ends.get())


async def test_a_line_that_breaks_is_broken_not_ended() -> None:
    ends, handle = noting_ends()
    async with listening(handle) as port, aiohttp.ClientSession() as session:
        plain = await session.ws_connect(f"http://127.0.0.1:{port}/link")
        transport = plain.get_extra_info("socket")
        transport.shutdown(socket.SHUT_RDWR)
        error = await ends.get()
        await plain.close()
    assert isinstance(error, CarrierBroken)
    assert "was lost" in str(error)


async def test_a_pings_answer_is_given_and_not_seen() -> None:
    async with (
        listening() as port,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/link", autoping=False) as plain,
    ):
        await plain.ping(b"alive?")
        await plain.send_bytes(b"data")
        answer = await plain.receive()
        assert (answer.type, answer.data) == (aiohttp.WSMsgType.PONG, b"alive?")
        assert (await plain.receive()).data == b"data"


async def test_small_packets_leave_at_once_and_nothing_is_compressed() -> None:
    seen: asyncio.Queue[web.Request] = asyncio.Queue()

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.put_nowait(request)
        return await echo(request)

    async with listening(handle) as port:
        carrier = await websocket.connect(f"ws://127.0.0.1:{port}/link")
        request = await seen.get()
        line = carrier._transport.get_extra_info("socket")
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert "Sec-WebSocket-Extensions" not in request.headers
        await carrier.close()


class Kept(asyncio.Transport):
    """A connection with `place` that keeps what is written."""

    def __init__(self, place: str) -> None:
        super().__init__({"peername": (place, 7600)})
        self.written = b""

    def writelines(self, parts: Iterable[Any]) -> None:
        self.written += b"".join(parts)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def abort(self) -> None:
        pass


@pytest.mark.parametrize(
    ("uri", "place", "hidden"),
    [
        ("ws://hq.example:7600/link", "192.0.2.1", True),
        ("ws://hq.example:7600/link", "2001:db8::1", True),
        ("wss://hq.example:7600/link", "192.0.2.1", False),
        ("ws://localhost:7600/link", "127.0.0.9", False),
        ("ws://localhost:7600/link", "::1", False),
    ],
)
async def test_a_mask_hides_what_others_may_read_on_the_way(uri: str, place: str, hidden: bool) -> None:
    line, transport = websocket.DialledWebSocket("hq", parse_uri(uri), 1 << 20), Kept(place)
    line.connection_made(transport)
    transport.written = b""
    for _ in range(2):
        line.send_in_parts([b"a" * 8])
    frames = [transport.written[:14], transport.written[14:]]
    masks = [each[2:6] for each in frames]
    assert [each[:2] for each in frames] == [b"\x82\x88"] * 2
    assert [each[6:] == b"a" * 8 for each in frames] == [not hidden] * 2
    assert (masks[0] != masks[1]) is hidden
    line.abort()


async def test_the_environments_proxy_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with listening() as port:
        assert await exchange(f"ws://127.0.0.1:{port}/link") == [b"there and back"]


async def test_a_given_local_address_is_bound_and_one_that_is_not_ours_is_named() -> None:
    callers = []

    async def hear(request: web.Request) -> web.StreamResponse:
        callers.append(request.remote)
        return await echo(request)

    async with listening(hear) as port:
        carrier = await websocket.connect(f"ws://127.0.0.1:{port}/link", local="127.0.0.9")
        await carrier.close()
        with pytest.raises(CarrierBroken, match=r"/link from 192.0.2.1 cannot be reached"):
            await websocket.connect(f"ws://127.0.0.1:{port}/link", local="192.0.2.1")
    assert callers == ["127.0.0.9"]


# --- a server that says what none should, byte by byte


@asynccontextmanager
async def raw(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """Where a server listens that does as `serve` says, and then ends the connection."""
    handling: list[asyncio.Task[None]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handling.append(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), 1)
        except (asyncio.CancelledError, OSError):
            writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/link"
    finally:
        server.close()
        for task in handling:
            task.cancel()
        await asyncio.gather(*handling, return_exceptions=True)


async def opening(reader: asyncio.StreamReader, key: bytes = b"") -> bytes:
    """Read a request for a WebSocket. Returns the head that opens it."""
    request = await reader.readuntil(b"\r\n\r\n")
    key = key or request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
    proof = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: upgrade\r\n"
    return head + b"Sec-WebSocket-Accept: " + proof + b"\r\n\r\n"


def said(first: int, payload: bytes) -> bytes:
    """A frame as a server sends it."""
    size = len(payload)
    if size < 126:
        return bytes((first, size)) + payload
    return bytes((first, 126)) + size.to_bytes(2) + payload


async def heard(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The next frame of a client: its first byte and its payload."""
    first, size = await reader.readexactly(2)
    assert size >= 0x80, "a client masks"
    size &= 0x7F
    if size == 126:
        size = int.from_bytes(await reader.readexactly(2))
    key = await reader.readexactly(4)
    payload = await reader.readexactly(size)
    return first, bytes(octet ^ key[place % 4] for place, octet in enumerate(payload))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "is no WebSocket: .* Does its port speak TLS"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "is no WebSocket: .* Does its port speak TLS"),
        (b"HTTP/1.1 101 Switching Proto", "ended the connection: does its port speak TLS"),
        (b"HTTP/1.1 404 Not Found\r\n\r\nfor as long as the line", "links live at /link"),
        (b"HTTP/1.1 302 Found\r\nLocation: a\r\nLocation: b\r\n\r\n", "redirects to a, which"),
        (b"HTTP/1.1 101 " + b"x" * 100_000, "is no WebSocket"),
        (b"HTTP/1.1 101 x\r\n" + b"x: y\r\n" * 100_000, "is no WebSocket"),
    ],
)
async def test_an_answer_that_does_not_open_says_what_to_do(answer: bytes, expected: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await opening(reader)
        writer.write(answer)

    async with raw(serve) as uri:
        with pytest.raises(CarrierBroken, match=expected):
            await websocket.connect(uri, timeout=60)


async def test_an_alert_of_tls_is_known_while_the_line_stays() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x15\x03\x01\x00\x02\x02\x46")
        await asyncio.Event().wait()

    async with raw(serve) as uri:
        with pytest.raises(CarrierBroken, match=r"is no WebSocket: .* Then write wss://"):
            await websocket.connect(uri)


@pytest.mark.parametrize("wrong", ["proof", "extension"])
async def test_an_opening_that_is_not_to_our_request_is_refused(wrong: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await opening(reader, b"another" if wrong == "proof" else b"")
        extension = b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        writer.write(head if wrong == "proof" else head[:-4] + extension)

    async with raw(serve) as uri:
        with pytest.raises(CarrierBroken, match="is no WebSocket: "):
            await websocket.connect(uri)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (said(0x82, b"x" * 1001), 1009),
        (said(0x02, b"x" * 600) + said(0x80, b"x" * 401), 1009),
        (b"\x82\x7f" + (1 << 40).to_bytes(8), 1009),
        (b"\x82\x81\0\0\0\0x", 1002),
        (said(0xC2, b"x"), 1002),
        (said(0x80, b"x"), 1002),
        (said(0x02, b"x") + said(0x82, b"x"), 1002),
        (said(0x83, b"x"), 1002),
        (said(0x09, b"x"), 1002),
        (said(0x89, b"x" * 126), 1002),
        (said(0x88, b"\x03\xed"), 1002),
    ],
)
async def test_a_frame_that_breaks_the_rules_ends_it_after_the_packets_before(line: bytes, code: int) -> None:
    told: asyncio.Future[tuple[int, bytes]] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await opening(reader) + said(0x82, b"before") + line)
        told.set_result(await heard(reader))

    async with raw(serve) as uri:
        carrier = await websocket.connect(uri, max_packet=1000)
        assert await carrier.receive() == [b"before"]
        with pytest.raises(CarrierBroken, match=r"the connection to .* broke: "):
            await carrier.receive()
        first, payload = await told
        assert (first, int.from_bytes(payload[:2])) == (0x88, code)
        await carrier.close()


@settings(max_examples=20, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=6), st.lists(st.integers(1, 200), min_size=1))
async def test_packets_come_out_whole_however_the_line_cuts_them(
    packets: list[bytes], cuts: list[int]
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, at = await opening(reader) + b"".join(said(0x82, packet) for packet in packets), 0
        for turn in range(len(line)):
            writer.write(line[at : at + cuts[turn % len(cuts)]])
            await asyncio.sleep(0)
            at += cuts[turn % len(cuts)]
        await reader.read()

    async with raw(serve) as uri:
        carrier = await websocket.connect(uri)
        got: list[bytes] = []
        while len(got) < len(packets):
            got += await carrier.receive()
        carrier.abort()
    assert got == packets


async def test_a_packet_in_parts_is_one_with_a_ping_between_which_is_answered() -> None:
    answers: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = said(0x02, b"one") + said(0x89, b"?") + said(0x00, b" and ") + said(0x80, b"two")
        writer.write(await opening(reader) + parts + said(0x82, b"next"))
        answers.put_nowait(await heard(reader))
        writer.write(said(0x88, b"\x03\xe9gone"))
        answers.put_nowait(await heard(reader))

    async with raw(serve) as uri:
        carrier = await websocket.connect(uri)
        assert await carrier.receive() == [b"one and two", b"next"]
        with pytest.raises(CarrierEnded, match="closed the connection: gone"):
            await carrier.receive()
        assert await answers.get() == (0x8A, b"?")
        assert await answers.get() == (0x88, b"\x03\xe9gone")
        await carrier.close()


async def test_text_of_a_server_and_its_code_for_busy_are_told() -> None:
    lines = [said(0x81, b"hello"), said(0x88, b"\x03\xf5full")]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await opening(reader) + lines.pop(0))
        await heard(reader)

    async with raw(serve) as uri:
        for expected, text in ((CarrierBroken, "sent text: expected binary"), (CarrierBusy, "us now: full")):
            carrier = await websocket.connect(uri)
            with pytest.raises(expected, match=text):
                await carrier.receive()
            await carrier.close()


@pytest.mark.parametrize("closes", [False, True], ids=["open", "closing"])
async def test_who_floods_with_pings_and_reads_no_answer_fills_no_memory(closes: bool) -> None:
    pings = said(0x89, b"x" * 125) * 500
    through = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await opening(reader))
        writer.transport.pause_reading()
        for _ in range(16 * BUFFER_BYTES // len(pings)):
            writer.write(pings)
            await writer.drain()
        through.set()
        await asyncio.Event().wait()

    async with raw(serve) as uri:
        carrier = await websocket.connect(uri)
        assert carrier._transport is not None
        ending = asyncio.create_task(carrier.close()) if closes else None
        most = 0
        # On a busy machine it has closed before all pings are through: the last of them reach nobody then.
        while not (through.is_set() or (ending and ending.done())) and most < 2 * BUFFER_BYTES:
            await asyncio.sleep(0.01)
            most = max(most, carrier._transport.get_write_buffer_size())
        carrier.abort()
        assert most < 2 * BUFFER_BYTES
        if ending:
            await ending


@pytest.mark.parametrize("kind", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_peer_that_has_reset_before_we_begin_breaks_the_carrier_and_leaves_nothing_open(
    kind: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    told, lines = list[object](), list[socket.socket]()

    async def reset(*_told: object) -> socket.socket:
        with socket.create_server(("127.0.0.1", 0)) as server:
            line = socket.create_connection(server.getsockname())
            there, _ = server.accept()
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            there.close()
        async with asyncio.timeout(60):
            while is_connected(line):
                await asyncio.sleep(0.01)
        line.setblocking(False)
        lines.append(line)
        return line

    async def dial() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
        with pytest.raises(CarrierBroken, match="127"):
            await websocket.connect("ws://127.0.0.1:1/link", timeout=60)
        while lines[0].fileno() >= 0:
            await asyncio.sleep(0.01)

    monkeypatch.setattr(websocket, "line_to", reset)
    with asyncio.Runner(loop_factory=kind) as runner:
        runner.run(asyncio.wait_for(dial(), 120))
    assert told == []


def is_connected(line: socket.socket) -> bool:
    try:
        line.getpeername()
    except OSError:
        return False
    return True
