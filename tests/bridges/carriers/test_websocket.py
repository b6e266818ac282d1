"""What is particular to the WebSocket carrier: TLS, the handshake's errors, hostile or foreign peers."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web

from bridges.carriers import websocket, websocket_accept
from bridges.carriers.base import CarrierBroken, CarrierBusy, CarrierError
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


async def test_text_is_not_ours() -> None:
    ends: asyncio.Queue[CarrierError] = asyncio.Queue()

    async def handle(request: web.Request) -> web.StreamResponse:
        carrier = await websocket_accept.accept(request)
        ends.put_nowait(await collect_end(carrier))
        await carrier.close()
        return carrier.response

    async with (
        listening(handle) as port,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{port}/link") as plain,
    ):
        await plain.send_str("hello")
        assert "sent text: expected binary packets" in str(await ends.get())


async def test_a_line_that_breaks_is_broken_not_ended() -> None:
    ends: asyncio.Queue[CarrierError] = asyncio.Queue()

    async def handle(request: web.Request) -> web.StreamResponse:
        carrier = await websocket_accept.accept(request)
        ends.put_nowait(await collect_end(carrier))
        await carrier.close()
        return carrier.response

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
