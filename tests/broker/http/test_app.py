"""The port itself."""

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from bridges.tls import server_context
from broker.http.app import build_app
from broker.http.encrypted import PLAIN
from broker.http.port import listen
from sapwood import ConnectFailed, connect


async def test_dead_peers_are_probed_for(port: Any, node: Any) -> None:
    opened = await listen(node, "127.0.0.1", 0)
    accepted = [server.sockets[0] for server in opened.servers]
    for listener in accepted:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
    await opened.cleanup()


async def test_a_taken_port_is_an_os_error(port: Any, node: Any) -> None:
    with pytest.raises(OSError, match="in use"):
        await listen(node, "127.0.0.1", port.number)


async def test_a_paused_port_keeps_its_connections(node: Any) -> None:
    opened = await listen(node, "127.0.0.1", 0)
    uri = f"http://127.0.0.1:{opened.addresses[0][1]}"
    async with connect(uri) as client:
        opened.pause()
        await client.create("still-served")
        with pytest.raises(ConnectFailed):
            await connect(uri, timeout=0.1).open()
    await opened.cleanup()


async def test_pages_are_made_when_somebody_asks_for_one(serve: Any, monkeypatch: Any) -> None:
    made: list[Any] = []

    def build(*arguments: Any) -> Any:
        made.append(build_app(*arguments))
        return made[-1]

    monkeypatch.setattr("broker.http.app.build_app", build)
    port = await serve()
    clients = [await port.dial() for _ in range(3)]
    assert (await clients[0].ask("/login/t")).status == 200
    assert not made
    answers = await asyncio.gather(*(client.ask("/docs") for client in clients))
    assert [answer.status for answer in answers] == [200] * 3
    assert len(made) == 1


async def test_closing_the_port_ends_waiting_requests(serve: Any, node: Any) -> None:
    opened = await listen(node, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*opened.addresses[0])
    for path in (b"/login/t", b"/create/q", b"/subscribe/q", b"/transfer/-1/3000"):
        writer.write(b"GET " + path + b" HTTP/1.1\r\n\r\n")
    while not node.switch.waiters:
        await asyncio.sleep(0.001)
    async with asyncio.timeout(60):
        await opened.cleanup()
        while await reader.read(1000):
            pass
    writer.close()
    assert len(node.switch.closed) == 1


async def test_what_serves_pages_and_cannot_be_loaded_is_told_and_tried_again(
    port: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the program's files were replaced under the node. All who asked waited for ever."""

    def gone(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    with monkeypatch.context() as replaced:
        replaced.setattr("broker.http.port.import_module", gone)
        for path in ("/healthz", "/link"):
            answer = await (await port.dial()).ask(path)
            assert (answer.status, b"its log says why" in answer.body) == (503, True)
    assert caplog.text.count("No module named 'broker.http.app'. Was the program replaced") == 1
    assert (await (await port.dial()).ask("/healthz")).status == 200


async def test_everything_over_tls(node: Any, tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "node.pem"))
    leaf.private_key_pem.write_to_path(str(tmp_path / "node.key"))
    context = server_context(tmp_path / "node.pem", tmp_path / "node.key")
    opened = await listen(node, "127.0.0.1", 0, context)
    uri = f"https://127.0.0.1:{opened.addresses[0][1]}"
    async with connect(uri, ca=str(tmp_path / "ca.pem")) as client:
        await client.send_many("queue:q", [b"x" * 1000] * 3000)
    with pytest.raises(ConnectFailed, match="is not trusted"):
        await connect(uri, timeout=0.1).open()
    await opened.cleanup()


async def test_who_asks_a_node_whose_certificate_does_not_hold_yet_looks_at_the_clock(
    node: Any, tmp_path: Path
) -> None:
    authority, begins = trustme.CA(), datetime.now(UTC) + timedelta(days=60)
    leaf = authority.issue_cert("127.0.0.1", not_before=begins, not_after=begins + timedelta(days=30))
    leaf.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "node.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    opened = await listen(node, "127.0.0.1", 0, server_context(tmp_path / "node.pem", tmp_path / "node.pem"))
    uri = f"https://127.0.0.1:{opened.addresses[0][1]}"
    with pytest.raises(ConnectFailed, match=r"not yet valid\): is the clock right"):
        await connect(uri, ca=str(tmp_path / "ca.pem"), timeout=60).open()
    await opened.cleanup()


GONE = "the other side went away in the handshake; it may not trust this node's certificate"


async def _fail_with_tls(node: Any, folder: Path) -> list[tuple[str, str]]:
    """Who says nothing, who speaks no TLS, who does not trust the node, and who does it right."""
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    leaf.private_key_and_cert_chain_pem.write_to_path(str(folder / "node.pem"))
    failed: list[tuple[str, str]] = []
    context = server_context(folder / "node.pem", None)
    opened = await listen(node, "127.0.0.1", 0, context, lambda *what: failed.append((what[0], what[1])))
    where = opened.addresses[0]
    reader, writer = await asyncio.open_connection(*where)
    silent = (await asyncio.open_connection(*where))[1]
    silent.close()
    await silent.wait_closed()
    writer.write(b"GET / HTTP/1.1\r\n\r\n")
    async with asyncio.timeout(60):
        await reader.read()
        writer.close()
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection(*where, ssl=ssl.create_default_context())
        while len(failed) < 2:
            await asyncio.sleep(0.001)
    async with connect(f"https://127.0.0.1:{where[1]}", ca=str(folder / "ca.pem")) as client:
        await client.send_many("queue:q", [b"x" * 1000] * 1000)
    await opened.cleanup()
    return failed


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_who_fails_to_speak_tls_is_told_with_its_address(node: Any, tmp_path: Path, kind: str) -> None:
    import uvloop

    loop = uvloop.new_event_loop if kind == "uvloop" else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=loop) as runner:
        failed = runner.run(_fail_with_tls(node, tmp_path))
    assert all(address.startswith("127.0.0.1:") for address, _ in failed)
    assert [text for _, text in failed] == [f"TLS failed: {PLAIN}", f"TLS failed: {GONE}"]


def test_uvloop_serves_the_same(node: Any) -> None:
    import uvloop

    async def use() -> None:
        opened = await listen(node, "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*opened.addresses[0])
        for path in (b"/login/t", b"/create/a b"):
            writer.write(b"GET " + path + b" HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(60):
            await reader.readuntil(b"a b")
        assert len(node.switch.tokens) == 1
        writer.close()
        while not node.switch.closed:
            await asyncio.sleep(0.001)
        async with connect(f"http://127.0.0.1:{opened.addresses[0][1]}") as client:
            await client.send("queue:q", b"x")
        await opened.cleanup()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(use())
