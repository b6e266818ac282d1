"""Raw connections that say whatever a test likes, and the one real node that they are said to."""

import asyncio
import contextlib
import json
import secrets
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import trustme
from harness import LoadedNode
from mqtt_wire import length

from broker.cli.demo.plan import free_ports
from broker.cli.demo.processes import Nodes, Status
from sapwood.protocol import packets
from sapwood.protocol.session_frames import VERSION, Login, Welcome, decode_node_packet, encode

MIB = 1024 * 1024
MUCH = 15 * MIB
ALLOWED = 20 * MIB
"""What may be left of all that broken connections took."""
OF_ALL = 256 * MIB
"""That all connections together may make a node keep."""
PATIENCE = 180.0
ASKED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Target:
    """A node with a port for MQTT, as a process of its own. `tls`: of both ports; `context`: of who comes."""

    def __init__(
        self,
        folder: Path,
        *,
        tls: dict[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        **settings: Any,
    ) -> None:
        self.port, self.mqtt = free_ports(2)
        self.context = context
        listener = {"port": self.port} | ({"tls": tls} if tls else {})
        site = {"name": "hq", "tree": "test", "listener": listener, "mqtt": {"port": self.mqtt}}
        file = folder / "hq.yaml"
        file.write_text(json.dumps({"broker": site | settings}), encoding="utf-8")
        self.process = LoadedNode("hq", file, f"http://127.0.0.1:{self.port}")
        self.nodes = Nodes([self.process])

    async def status(self) -> Status:
        return await self.until(lambda _: True, "answering")

    async def until(self, holds: Callable[[Status], bool], what: str) -> Status:
        if self.context is None:
            return await self.nodes.until("hq", holds, what, PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while (status := await self._encrypted_status(self.context)) is None or not holds(status):
                assert self.process.running, f"ended before it was {what}: {self.log}"
                await asyncio.sleep(0.1)
        return status

    async def _encrypted_status(self, context: ssl.SSLContext) -> Status | None:
        with contextlib.suppress(aiohttp.ClientError):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"https://127.0.0.1:{self.port}/api/status", ssl=context) as answer,
            ):
                found: Status = await answer.json()
                return found
        return None

    @property
    def resident(self) -> int:
        """Bytes of memory that the process has."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def log(self) -> str:
        return self.process.log.read_text(encoding="utf-8", errors="replace")


def most_resident(target: Target) -> int:
    """The most bytes of memory that the process has ever had."""
    for line in Path(f"/proc/{psutil.Process(target.process.pid).pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the system does not tell the peak of a process")


async def expect_resident(target: Target, most: int) -> None:
    """In the end: the system is told of what was freed a moment later."""
    for _ in range(100):
        if target.resident <= most:
            break
        await asyncio.sleep(0.1)
    assert target.resident <= most


@asynccontextmanager
async def running(folder: Path, **settings: Any) -> AsyncIterator[Target]:
    """A node that answers; it is gone at the end."""
    made = Target(folder, **settings)
    async with made.nodes:
        made.process.start()
        await made.status()
        yield made


@asynccontextmanager
async def running_over_tls(folder: Path) -> AsyncIterator[Target]:
    """A node with a certificate, both of whose ports are encrypted."""
    authority, files = trustme.CA(), {}
    issued = authority.issue_cert("127.0.0.1")
    for what, blob in (("certificate", issued.cert_chain_pems[0]), ("key", issued.private_key_pem)):
        files[what] = f"{what}.pem"
        blob.write_to_path(folder / files[what])
        (folder / files[what]).chmod(0o600)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with running(folder, tls=files, context=context) as made:
        yield made


class Raw:
    """One connection."""

    def __init__(self, made: socket.socket) -> None:
        self.socket = made
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def to(cls, port: int) -> "Raw":
        made = socket.socket()
        made.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        except BaseException:
            made.close()
            raise
        return cls(made)

    async def say(self, data: bytes | memoryview) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def hear(self, most: int = 65536) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self._loop.sock_recv(self.socket, most)

    async def until(self, end: bytes) -> bytes:
        """All that comes, up to `end` somewhere in it."""
        heard = b""
        while end not in heard:
            more = await self.hear()
            assert more, f"closed after {heard!r}"
            heard += more
        return heard

    async def closed(self) -> bytes:
        """All that comes until the node closes."""
        heard = b""
        try:
            while more := await self.hear():
                heard += more
        except ConnectionError:
            pass
        return heard

    def break_off(self, *, hard: bool = False) -> None:
        if hard:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Sealed(Raw):
    """One connection over TLS."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(writer.get_extra_info("socket"))
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to_target(cls, target: Target) -> "Sealed":
        return cls(*await asyncio.open_connection("127.0.0.1", target.port, ssl=target.context))

    async def say(self, data: bytes | memoryview) -> None:
        """In pieces: what is encrypted is kept until it has gone."""
        for start in range(0, len(data), MIB):
            self._writer.write(data[start : start + MIB])
            await self._writer.drain()

    async def hear(self, most: int = 65536) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self._reader.read(most)

    def break_off(self, *, hard: bool = False) -> None:
        if hard and not self._writer.is_closing():
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


# --- how each kind of connection comes into the middle of 15 MiB, all but the 15 MiB themselves


async def answers_meanwhile(target: Target, work: Coroutine[Any, Any, None], pause: float = 0.0) -> int:
    """How many requests of somebody else the node answers, one after the other, until this is done.

    `pause`: seconds between an answer and the next request.
    """
    other, under_way, answered = await Raw.to(target.port), asyncio.create_task(work), 0
    while not under_way.done():
        await other.say(ASKED)
        await other.until(b"\r\n\r\n")
        answered += 1
        await asyncio.sleep(pause)
    await under_way
    other.break_off()
    return answered


def frame_head(size: int) -> bytes:
    """The head of a binary WebSocket frame of a client, whose mask changes nothing."""
    if size < 126:
        return bytes((0x82, 0x80 | size)) + bytes(4)
    if size < 65536:
        return b"\x82\xfe" + size.to_bytes(2) + bytes(4)
    return b"\x82\xff" + size.to_bytes(8) + bytes(4)


async def upgraded(port: int, path: str, further: str = "") -> Raw:
    raw = await Raw.to(port)
    key = "AAAAAAAAAAAAAAAAAAAAAA=="
    await raw.say(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n{further}\r\n".encode()
    )
    assert b" 101 " in await raw.until(b"\r\n\r\n")
    return raw


async def body_of_a_verb(target: Target) -> Raw:
    raw = await Raw.to(target.port)
    await raw.say(b"GET /login/x HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % MUCH)
    return raw


async def body_of_a_send(target: Target) -> Raw:
    raw = await Raw.to(target.port)
    await begin_to_send(raw)
    return raw


async def begin_to_send(raw: Raw) -> None:
    """Log in, and announce a message of 15 MiB."""
    await raw.say(b"GET /login/%b HTTP/1.1\r\n\r\n" % secrets.token_hex(4).encode())
    assert b" 200 " in await raw.until(b"\r\n\r\n")
    await raw.say(b"POST /send/q/1 HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % MUCH)


async def body_of_a_page(target: Target) -> Raw:
    raw = await Raw.to(target.port)
    await raw.say(b"POST /enrol/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % MUCH)
    return raw


async def frame_of_a_stranger(target: Target) -> Raw:
    raw = await upgraded(target.port, "/session")
    await raw.say(frame_head(MUCH))
    return raw


async def session_of(target: Target) -> Raw:
    """Logged in."""
    raw = await upgraded(target.port, "/session")
    login = packets.packet([encode(Login(VERSION, secrets.token_hex(4), ""))])
    await raw.say(frame_head(len(login)) + login)
    heard = await raw.hear()
    assert isinstance(decode_node_packet(heard[2:])[0], Welcome)
    return raw


async def frame_of_a_session(target: Target) -> Raw:
    raw = await session_of(target)
    await raw.say(frame_head(MUCH))
    return raw


async def hello_of_a_link(target: Target) -> Raw:
    raw = await upgraded(target.port, "/link")
    await raw.say(frame_head(MUCH))
    return raw


async def connect_of_mqtt(target: Target) -> Raw:
    raw = await Raw.to(target.mqtt)
    await raw.say(b"\x10" + length(MUCH) + b"\x00\x04MQTT")
    return raw


async def publish_of_mqtt(target: Target) -> Raw:
    raw = await Raw.to(target.mqtt)
    name = secrets.token_hex(4).encode()
    await raw.say(b"\x10\x14\x00\x04MQTT\x04\x02\x00\x00\x00\x08" + name)
    assert await raw.hear() == b"\x20\x02\x00\x00"
    await raw.say(b"\x30" + length(MUCH) + b"\x00\x01t")
    return raw


async def mqtt_over_a_websocket(target: Target) -> Raw:
    """Logged in."""
    raw = await upgraded(target.port, "/mqtt", "Sec-WebSocket-Protocol: mqtt\r\n")
    said = b"\x10\x14\x00\x04MQTT\x04\x02\x00\x00\x00\x08" + secrets.token_hex(4).encode()
    await raw.say(frame_head(len(said)) + said)
    assert (await raw.hear()).endswith(b"\x20\x02\x00\x00")
    return raw


async def frame_of_mqtt(target: Target) -> Raw:
    """Over a WebSocket, in one frame."""
    raw = await mqtt_over_a_websocket(target)
    await raw.say(frame_head(MUCH))
    return raw


Kind = Callable[[Target], Awaitable[Raw]]
STRANGERS: list[Kind] = [
    body_of_a_verb,
    body_of_a_page,
    frame_of_a_stranger,
    hello_of_a_link,
    connect_of_mqtt,
]
KNOWN: list[Kind] = [body_of_a_send, frame_of_a_session, publish_of_mqtt, frame_of_mqtt]


OF_EACH = 1000
AT_ONCE = 20


async def break_off_many(
    target: Target,
    kind: Kind,
    count: int,
    say: Callable[[Raw, int], Awaitable[None]] | None = None,
) -> None:
    """So many connections come, `say` something, and break off, in both ways by turns; then all are gone."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with room:
            raw = await kind(target)
            if say is not None:
                with contextlib.suppress(ConnectionError):
                    await say(raw, number)
            raw.break_off(hard=number % 2 == 0)

    await asyncio.gather(*(one(number) for number in range(count)))
    await target.until(lambda status: status["intake"]["connections"] <= 2, "alone again")
