"""An MQTT client has a slice of the loop like everybody: between its packets others have their turns."""

import asyncio
import logging
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trustme

from bridges.mqtt import readers
from bridges.mqtt.fields import variable
from broker import shares
from broker.core.clients import kept_sessions
from broker.core.clients.kept_sessions import KeptSessions
from broker.core.rows import Transaction
from broker.intake import Guest
from broker.mqtt.client import MqttConnection
from broker.mqtt.door import Door
from broker.mqtt.reading import MqttReading
from broker.node import Node
from broker.store.commit import GroupCommit
from config.model import AdvisoryLog, Limits, Listener, Mqtt, ServerTls, Site, Spool
from sapwood.protocol.errors import StoreError

CONNECT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a"
KEPT = b"\x10\x0d\x00\x04MQTT\x04\x00\x00\x00\x00\x01b"
UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
COUNT = 200
SUBSCRIBED = b"".join(b"\x00\x04f%03d\x00" % number for number in range(COUNT))
UNSUBSCRIBED = b"".join(b"\x00\x04f%03d" % number for number in range(COUNT))


class Turns:
    """Somebody else: how many turns of the loop it had."""

    def __init__(self) -> None:
        self.had = 0
        self._next()

    def _next(self) -> None:
        self.had += 1
        self._handle = asyncio.get_running_loop().call_soon(self._next)

    def end(self) -> None:
        self._handle.cancel()


def server_tls(folder: Path) -> ServerTls:
    """A certificate for this machine, and the file `ca.pem` of its authority."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "own.pem")
    return ServerTls(certificate=folder / "own.pem", key=folder / "own.pem")


@asynccontextmanager
async def running(folder: Path, limits: Limits | None = None, tls: bool = False) -> AsyncIterator[Node]:
    """A node with a door."""
    site = Site(
        name="hq",
        data=folder,
        listener=Listener(port=0, tls=server_tls(folder) if tls else ServerTls()),
        advisory_log=AdvisoryLog(enabled=False),
        mqtt=Mqtt(port=0),
        limits=limits or Limits(),
    )
    node = Node(site)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def logged_in(
    folder: Path, limits: Limits | None = None, connect: bytes = CONNECT, tls: bool = False
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client at a node with a door."""
    async with running(folder, limits, tls) as node:
        assert node.report.door is not None
        context = client_context(folder) if tls else None
        reader, writer = await asyncio.open_connection("localhost", node.report.door.port, ssl=context)
        try:
            writer.write(connect)
            assert await asyncio.wait_for(reader.readexactly(4), 120) == b"\x20\x02\x00\x00"
            yield reader, writer
        finally:
            writer.close()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[MqttConnection]:
    """The connections of doors, in the order in which they came."""
    found: list[MqttConnection] = []
    connection = Door.connection

    def keep(door: Door, guest: Guest) -> MqttConnection:
        found.append(connection(door, guest))
        return found[-1]

    monkeypatch.setattr(Door, "connection", keep)
    return found


def client_context(folder: Path) -> ssl.SSLContext:
    """Of a client that trusts the node of `logged_in`."""
    return ssl.create_default_context(cafile=str(folder / "ca.pem"))


async def opened(writer: asyncio.StreamWriter, context: ssl.SSLContext | None) -> socket.socket:
    """One more line to the same door, whose bytes go out and in when a test says so."""
    line = socket.create_connection(writer.get_extra_info("peername")[:2])
    if context is not None:
        line = await asyncio.to_thread(context.wrap_socket, line, server_hostname="localhost")
    line.settimeout(120)
    return line


async def heard(line: socket.socket, count: int) -> bytes:
    """So many bytes, and no more."""
    return b"".join([await asyncio.to_thread(line.recv, 1) for _ in range(count)])


def framed(packets: bytes) -> bytes:
    """A WebSocket's frame, with a mask that changes nothing."""
    return b"\x82" + bytes((0x80 | len(packets),)) + bytes(4) + packets


def publish(number: int) -> bytes:
    """QoS 1, to a queue."""
    return b"\x32\x0c\x00\x07queue/q" + number.to_bytes(2) + b"x"


async def test_connections_without_a_connect_are_said_once_of_a_host_and_not_each(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sapwood.mqtt")
    async with logged_in(tmp_path) as (_, writer):
        host, port = writer.get_extra_info("peername")[:2]
        for _ in range(5):
            probe, ending = await asyncio.open_connection(host, port)
            ending.write_eof()
            assert await asyncio.wait_for(probe.read(), 120) == b""
            ending.close()
        writer.write_eof()
    said = [each.getMessage() for each in caplog.records]
    ended = [text.partition(" at ")[0] for text in said if text.startswith("- ")]
    assert ended == ["- MQTT client ''", "- MQTT client 'a'"]


async def test_a_client_of_3_1_1_that_has_no_room_and_tries_again_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It can only be sent away, and comes back at once, for as long as the disk is full."""
    caplog.set_level(logging.INFO, "sapwood.mqtt")
    async with logged_in(tmp_path, Limits(spool=Spool(max_bytes_up=100))) as (reader, writer):
        host, port = writer.get_extra_info("peername")[:2]
        writer.write(publish(1) * 10)
        await asyncio.wait_for(reader.readexactly(10 * 4), 120)
        for _ in range(3):
            again, sending = await asyncio.open_connection(host, port)
            sending.write(CONNECT + publish(1))
            assert await asyncio.wait_for(again.read(), 120) == b"\x20\x02\x00\x00"
            sending.close()
    said = [each.getMessage() for each in caplog.records]
    assert sum("a message was refused: " in text for text in said) == 1


async def test_others_have_turns_between_the_packets_of_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with logged_in(tmp_path) as (reader, writer):
        monkeypatch.setattr(shares, "SLICE", 0.0)
        monkeypatch.setattr(readers, "MOST", 0)  # no rows
        turns = Turns()
        try:
            writer.write(b"".join(publish(number) for number in range(1, COUNT + 1)))
            answered = await asyncio.wait_for(reader.readexactly(4 * COUNT), 300)
        finally:
            turns.end()
    assert answered == b"".join(b"\x40\x02" + number.to_bytes(2) for number in range(1, COUNT + 1))
    assert turns.had >= COUNT * shares.TURNS


async def test_what_a_client_sent_together_is_committed_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit takes one turn of the loop here, so none hides another."""
    submitted: list[Transaction] = []

    def submit(
        _: GroupCommit, transaction: Transaction, done: Callable[[StoreError | None], None], *, at_once: bool
    ) -> None:
        assert at_once
        submitted.append(transaction)
        asyncio.get_running_loop().call_soon(done, None)

    async with logged_in(tmp_path) as (reader, writer):
        monkeypatch.setattr(shares.LoopShare, "is_over", True)
        monkeypatch.setattr(readers, "MOST", 0)
        monkeypatch.setattr(shares, "GATHERS", 1e9)
        monkeypatch.setattr(GroupCommit, "submit", submit)
        writer.write(b"".join(publish(number) for number in range(1, COUNT + 1)))
        answered = await asyncio.wait_for(reader.readexactly(4 * COUNT), 300)
        monkeypatch.undo()
    assert answered == b"".join(b"\x40\x02" + number.to_bytes(2) for number in range(1, COUNT + 1))
    assert len(submitted) < COUNT / 4


async def test_a_client_that_is_not_read_while_the_disk_is_slow_is_not_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: list[MqttConnection]
) -> None:
    held: list[Callable[[StoreError | None], None]] = []
    async with logged_in(tmp_path, connect=CONNECT.replace(b"\x04\x02\x00\x00", b"\x04\x02\x00\x01")) as (
        reader,
        writer,
    ):
        client = made[0]
        with monkeypatch.context() as patched:
            patched.setattr(GroupCommit, "submit", lambda _self, _transaction, done, **_: held.append(done))
            body = b"\x00\x07queue/q\x00\x01" + bytes(5 * 1024 * 1024)
            writer.write(b"\x32" + variable(len(body)) + body)
            while client.transport.is_reading():
                await asyncio.sleep(0.01)
            client._heard -= 100
            client._look()
            assert not client.over
        for done in held:
            done(None)
        assert await asyncio.wait_for(reader.readexactly(4), 120) == b"\x40\x02\x00\x01"
        client._heard -= 100
        client._look()
        assert client.over


@pytest.mark.parametrize("encrypted", [False, True])
async def test_what_was_acknowledged_counts_though_a_write_finds_first_that_the_line_broke(
    tmp_path: Path, made: list[MqttConnection], encrypted: bool
) -> None:
    """`mosquitto_sub -C` closes with messages unread, and its machine resets the line."""
    messages = [b"\x32\x06\x00\x01t" + number.to_bytes(2) + b"%d" % number for number in (1, 2, 3)]
    async with logged_in(tmp_path, tls=encrypted) as (reader, writer):
        context = client_context(tmp_path) if encrypted else None
        line = await opened(writer, context)
        line.send(KEPT)
        assert await heard(line, 4) == b"\x20\x02\x00\x00"
        line.send(b"\x82\x06\x00\x01\x00\x01t\x01")
        assert await heard(line, 5) == b"\x90\x03\x00\x01\x01"
        writer.write(b"".join(messages))
        assert len(await asyncio.wait_for(reader.readexactly(12), 120)) == 12
        assert await heard(line, 16) == b"".join(messages[:2])
        line.send(b"\x40\x02\x00\x01\x40\x02\x00\x02")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.close()
        made[-1].write(b"\xd0\x00")
        line = await opened(writer, context)
        line.send(KEPT)
        assert await heard(line, 12) == b"\x20\x02\x01\x00\x3a\x06\x00\x01t\x00\x013"
        line.close()


async def test_what_was_acknowledged_over_a_websocket_counts_though_a_write_finds_that_the_line_broke(
    tmp_path: Path, made: list[MqttConnection]
) -> None:
    async with running(tmp_path) as node:
        line = socket.create_connection(("localhost", node.port))
        line.settimeout(120)
        line.send(UPGRADE)
        while not (await heard(line, 1) == b"\n" and await heard(line, 2) == b"\r\n"):
            pass
        line.send(framed(KEPT))
        assert await heard(line, 6) == b"\x82\x04\x20\x02\x00\x00"
        line.send(framed(b"\x82\x06\x00\x01\x00\x01t\x01"))
        assert await heard(line, 7) == b"\x82\x05\x90\x03\x00\x01\x01"
        line.send(framed(b"".join(b"\x32\x06\x00\x01t\x00%c%d" % (each, each) for each in (1, 2, 3))))
        while await heard(line, 1) != b"3":
            pass
        line.send(framed(b"\x40\x02\x00\x01\x40\x02\x00\x02"))
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        line.close()
        made[0].write(b"\xd0\x00")
        while not made[0].over:
            await asyncio.sleep(0.01)
        door = node.report.door
        assert door is not None
        line = socket.create_connection(("localhost", door.port))
        line.settimeout(120)
        line.send(KEPT)
        assert await heard(line, 12) == b"\x20\x02\x01\x00\x3a\x06\x00\x01t\x00\x013"
        line.close()


async def test_a_packet_that_fails_unexpectedly_ends_its_session_too(
    tmp_path: Path, made: list[MqttConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(asyncio.get_running_loop(), "call_exception_handler", lambda _context: None)
    async with logged_in(tmp_path) as (reader, writer):
        with monkeypatch.context() as patched:
            patched.setattr(MqttConnection, "_take", fail)
            writer.write(publish(1) + publish(2))
            assert await asyncio.wait_for(reader.read(), 120) == b""
        assert made[-1].over


def filters_packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + variable(len(body) + 2) + b"\x00\x07" + body


@pytest.mark.parametrize(
    ("method", "asked", "answer"),
    [
        ("subscribe", filters_packet(0x82, SUBSCRIBED), filters_packet(0x90, bytes(COUNT))),
        ("unsubscribe", filters_packet(0xA2, UNSUBSCRIBED), b"\xb0\x02\x00\x07"),
    ],
)
async def test_others_have_turns_between_the_filters_of_a_packet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, asked: bytes, answer: bytes
) -> None:
    """A packet behind it is read once all its filters are done."""
    async with logged_in(tmp_path) as (reader, writer):
        monkeypatch.setattr(shares, "SLICE", 0.0)
        turns, met = Turns(), list[int]()
        of_one = getattr(MqttReading, method)

        def counted(reading: MqttReading, *filter: Any) -> int:
            met.append(turns.had)
            return int(of_one(reading, *filter))

        monkeypatch.setattr(MqttReading, method, counted)
        try:
            writer.write(asked + publish(9))
            answered = await asyncio.wait_for(reader.readexactly(len(answer) + 4), 300)
        finally:
            turns.end()
    puback = b"\x40\x02\x00\x09"
    assert answered in (answer + puback, puback + answer)
    assert len(met) == COUNT
    assert all(later - earlier >= shares.TURNS for earlier, later in pairwise(met))


@pytest.mark.parametrize(
    ("flags", "owner", "method", "answer"),
    [
        (b"\x00", MqttReading, "_read", b"\x20\x02\x01\x00"),
        (b"\x02", KeptSessions, "end_some", b"\x20\x02\x00\x00"),
    ],
)
async def test_others_have_turns_while_a_client_returns_to_many_filters_or_leaves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: bytes, owner: type, method: str, answer: bytes
) -> None:
    """Packets behind its CONNECT are read once that is done."""

    def connect(flags: bytes) -> bytes:
        return b"\x10\x0d\x00\x04MQTT\x04" + flags + b"\x00\x00\x00\x01b"

    async with logged_in(tmp_path) as (_, other):
        port = other.get_extra_info("peername")[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(connect(b"\x00") + filters_packet(0x82, SUBSCRIBED))
        suback = filters_packet(0x90, bytes(COUNT))
        heard = await asyncio.wait_for(reader.readexactly(4 + len(suback)), 300)
        assert heard == b"\x20\x02\x00\x00" + suback
        writer.write(b"\xe0\x00")
        assert await asyncio.wait_for(reader.read(), 300) == b""
        writer.close()
        monkeypatch.setattr(shares, "SLICE", 0.0)
        monkeypatch.setattr(kept_sessions, "AT_ONCE", 1)
        turns, met = Turns(), list[int]()
        of_one = getattr(owner, method)

        def counted(self: Any, *given: Any, **named: Any) -> Any:
            met.append(turns.had)
            return of_one(self, *given, **named)

        monkeypatch.setattr(owner, method, counted)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(connect(flags) + b"\xc0\x00")
            answered = await asyncio.wait_for(reader.readexactly(6), 300)
        finally:
            turns.end()
            writer.close()
    assert answered == answer + b"\xd0\x00"
    assert len(met) >= COUNT
    assert met[-1] - met[0] >= COUNT
