"""The MQTT carrier at a real Mosquitto: TLS, logins, the broker's limits, and errors that help."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from brokered_harness import PATIENCE, broker_at, linked, parent_at
from mosquitto_server import MosquittoServer

from bridges.carriers.base import Carrier, CarrierBroken, CarrierBusy
from bridges.carriers.brokered.carrier import connect
from bridges.carriers.brokered.line import BrokerAccess
from bridges.carriers.mqtt import MqttBroker
from bridges.mqtt.bulk import PahoInBulk
from bridges.tls import TlsSettings
from broker.cli.demo.plan import free_ports

AUTHORITY = trustme.CA()


@pytest.fixture
def ca(tmp_path: Path) -> Path:
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path / "ca.pem"


@pytest.fixture
def encrypted(tmp_path: Path, ca: Path) -> Iterator[MosquittoServer]:
    """A Mosquitto that speaks TLS and asks for a client certificate."""
    made = AUTHORITY.issue_cert("localhost")
    made.private_key_pem.write_to_path(tmp_path / "key")
    made.cert_chain_pems[0].write_to_path(tmp_path / "certificate")
    lines = (f"cafile {ca}", f"certfile {tmp_path / 'certificate'}", f"keyfile {tmp_path / 'key'}")
    server = MosquittoServer(tmp_path / "server", "allow_anonymous true", *lines, "require_certificate true")
    server.start()
    yield server
    server.stop()


def own(folder: Path, authority: Path | None) -> TlsSettings:
    """TLS of a client with a certificate."""
    made = AUTHORITY.issue_cert("york")
    made.private_key_pem.write_to_path(folder / "own.key")
    made.cert_chain_pems[0].write_to_path(folder / "own.pem")
    return TlsSettings(ca=authority, certificate=folder / "own.pem", key=folder / "own.key")


async def test_a_link_rides_on_mqtts(encrypted: MosquittoServer, tmp_path: Path, ca: Path) -> None:
    broker = MqttBroker(BrokerAccess("localhost", encrypted.port, tls=own(tmp_path, ca)), "acme", 65536)
    assert broker.uri == f"mqtts://localhost:{encrypted.port}"
    async with linked(broker) as (near, far):
        packets = [bytes([i]) * 60_000 for i in range(100)]
        sending = asyncio.create_task(send_all(near, packets))
        got: list[bytes] = []
        async with asyncio.timeout(PATIENCE):
            while len(got) < len(packets):
                got += await far.receive()
        await sending
        assert got == packets


async def send_all(carrier: Carrier, packets: list[bytes]) -> None:
    for packet in packets:
        await carrier.drain()
        carrier.send([packet])


async def test_tls_that_does_not_fit_is_explained(
    encrypted: MosquittoServer, mosquitto: MosquittoServer, tmp_path: Path, ca: Path
) -> None:
    mosquitto.start()
    cases = [
        (
            BrokerAccess("localhost", encrypted.port, tls=own(tmp_path, None)),
            "is not trusted .*: name its authority",
        ),
        (
            BrokerAccess("127.0.0.1", encrypted.port, tls=own(tmp_path, ca)),
            "is not trusted .*dial the name that it",
        ),
        (
            BrokerAccess("localhost", mosquitto.port, tls=own(tmp_path, ca)),
            "TLS with|cannot be reached|was lost",
        ),
        (BrokerAccess("localhost", encrypted.port), "was lost|did not answer|cannot be reached"),
        (BrokerAccess("localhost", encrypted.port, tls=TlsSettings(ca=ca)), "TLS|was lost|cannot be reached"),
    ]
    for access, expected in cases:
        with pytest.raises(CarrierBroken, match=expected):
            await connect(MqttBroker(access, "acme", 65536), "york", timeout=5)


async def test_a_wrong_password_is_explained(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.touch(mode=0o600)
    server = MosquittoServer(tmp_path / "server", "allow_anonymous false", f"password_file {passwords}")
    server.start()
    try:
        with pytest.raises(CarrierBroken, match=r"does not take 'york' \(Not authorized\): look at user"):
            await connect(broker_at(server, user="york", password="wrong"), "york", timeout=PATIENCE)
        with pytest.raises(CarrierBroken, match="does not take a client without a user name"):
            await connect(broker_at(server), "york", timeout=PATIENCE)
    finally:
        server.stop()


async def test_a_broker_that_takes_small_packets_makes_the_links_frames_smaller(tmp_path: Path) -> None:
    server = MosquittoServer(tmp_path / "server", "allow_anonymous true", "max_packet_size 40000")
    server.start()
    try:
        async with linked(broker_at(server)) as (near, far):
            assert near.max_packet == far.max_packet == 40_000 - 256
            near.send([b"x" * near.max_packet, *[b"y"] * 50_000])
            got: list[bytes] = []
            async with asyncio.timeout(PATIENCE):
                while len(got) < 50_001:
                    got += await far.receive()
            assert [len(got[0]), len(got)] == [40_000 - 256, 50_001]
    finally:
        server.stop()


async def test_a_broker_that_drops_what_is_too_large_ends_the_link_by_name(tmp_path: Path) -> None:
    """Mosquitto does not announce `message_size_limit`."""
    server = MosquittoServer(tmp_path / "server", "allow_anonymous true", "message_size_limit 40000")
    server.start()
    try:
        async with linked(broker_at(server)) as (near, far):
            near.send([b"x" * 50_000])
            near.send([b"y"])
            with pytest.raises(CarrierBroken, match="refuses a message as too large: raise its"):
                await asyncio.wait_for(near.receive(), PATIENCE)
            with pytest.raises(CarrierBroken):
                await asyncio.wait_for(far.receive(), PATIENCE)
    finally:
        server.stop()


async def test_nobody_there_is_explained() -> None:
    port = free_ports(1)[0]
    with pytest.raises(CarrierBroken, match=f"mqtt://127.0.0.1:{port} cannot be reached: Connection refused"):
        await connect(MqttBroker(BrokerAccess("127.0.0.1", port), "acme", 65536), "york", timeout=PATIENCE)
    with pytest.raises(CarrierBroken, match="its host is not known to DNS"):
        await connect(
            MqttBroker(BrokerAccess("nobody.invalid", port), "acme", 65536), "york", timeout=PATIENCE
        )


async def test_a_socket_that_the_loop_watches_no_more_is_a_lost_connection(
    mosquitto: MosquittoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with uvloop, which closes its watch when a connection breaks; it must not reach who sends."""
    mosquitto.start()

    def closed(*_given: object) -> None:
        raise RuntimeError("unable to perform operation on <UVPoll closed=True>; the handler is closed")

    def full(*_given: object) -> int:
        raise BlockingIOError

    async with linked(broker_at(mosquitto)) as (near, _far):
        with monkeypatch.context() as patch:
            for name in ("add_writer", "remove_writer", "remove_reader"):
                patch.setattr(asyncio.get_running_loop(), name, closed)
            patch.setattr(PahoInBulk, "_sock_send", full)
            near.send([b"x"])
            with pytest.raises(CarrierBroken, match=r"was lost|has gone"):
                await asyncio.wait_for(near.receive(), PATIENCE)


@asynccontextmanager
async def speaking(answer: bytes) -> AsyncIterator[int]:
    """Something that is no broker: says `answer` to whoever says something."""

    served = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await reader.read(10)
            writer.write(answer)
            while await reader.read(1000):
                pass
        writer.close()
        served.set()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        async with asyncio.timeout(PATIENCE):
            await served.wait()


@pytest.mark.parametrize(
    ("answer", "error", "expected"),
    [
        (b"", CarrierBroken, "did not answer within 1 s"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", CarrierBroken, "was lost|did not answer"),
        (b"\x20\x03\x00\x84\x00", CarrierBroken, "links need MQTT 5: Mosquitto 1.6 or later"),
        (b"\x20\x03\x00\x89\x00", CarrierBusy, "Server busy"),
    ],
)
async def test_what_is_no_broker_or_none_for_us_is_explained(
    answer: bytes, error: type[Exception], expected: str
) -> None:
    async with speaking(answer) as port:
        broker = MqttBroker(BrokerAccess("127.0.0.1", port), "acme", 65536)
        with pytest.raises(error, match=expected):
            await connect(broker, "york", timeout=1)


async def test_a_connection_that_nobody_waits_for_is_closed() -> None:
    """The port takes connections and says nothing, as behind a broken balancer."""
    with socket.create_server(("127.0.0.1", 0), backlog=5) as server:
        server.settimeout(PATIENCE)
        broker = MqttBroker(BrokerAccess("127.0.0.1", server.getsockname()[1]), "acme", 65536)
        dialling = asyncio.create_task(connect(broker, "york", timeout=PATIENCE))
        connection, _ = await asyncio.to_thread(server.accept)
        with connection:
            connection.settimeout(PATIENCE)
            assert await asyncio.to_thread(connection.recv, 1) == b"\x10", "a CONNECT begins"
            dialling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await dialling
            while await asyncio.to_thread(connection.recv, 1000):
                pass


async def test_the_listener_says_why_it_cannot_listen(tmp_path: Path) -> None:
    rules = tmp_path / "acl"
    rules.write_text("topic read nothing\n")
    rules.chmod(0o600)
    server = MosquittoServer(tmp_path / "server", "allow_anonymous true", f"acl_file {rules}")
    server.start()
    try:
        async with parent_at(broker_at(server)):
            with pytest.raises(CarrierBroken, match="does not let a nameless client publish to its topic"):
                await connect(broker_at(server), "york", timeout=PATIENCE)
    finally:
        server.stop()


async def test_a_given_local_address_is_bound() -> None:
    callers = []

    def hear(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append(writer.get_extra_info("peername")[0])
        writer.transport.abort()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        broker = MqttBroker(BrokerAccess("127.0.0.1", port, local="127.0.0.9"), "acme", 65536)
        with pytest.raises(CarrierBroken):
            await connect(broker, "york", timeout=PATIENCE)
    assert callers == ["127.0.0.9"]
