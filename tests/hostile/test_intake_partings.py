"""Connections that end however they like, wherever they are: a node says nothing of a mistake of its own."""

import asyncio
import contextlib
import secrets
import signal
import socket
import ssl
import struct
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from sapwood.protocol import packets

sys.path.insert(0, str(Path(__file__).parent))

from intake_peers import MIB, Target, frame_head, frame_of_a_stranger, running, running_over_tls
from mqtt_wire import length

from bridges.carriers.base import CLOSE_TIMEOUT
from broker.http.pages import TO_FINISH
from sapwood.protocol.session_frames import VERSION, Login, encode

OF_EACH = 3
ENDINGS = ("reset", "end", "half-close")
_UPGRADE = (
    b"GET /%b HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_PAGE = b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n"
_CONNECT = b"\x10\x14\x00\x04MQTT\x04\x02\x00\x00\x00\x08"
_SUBSCRIBE = b"\x82\x06\x00\x01\x00\x01#\x01"
_PUBLISH = b"\x30" + length(MIB) + b"\x00\x01t"
Step = bytes | int
"""Bytes that are said, or the number of bytes that are waited for."""


def name() -> bytes:
    return secrets.token_hex(4).encode()


def log_in() -> bytes:
    login = packets.packet([encode(Login(VERSION, secrets.token_hex(4), ""))])
    return frame_head(len(login)) + login


def stages_of_http() -> dict[str, list[Step]]:
    login = b"GET /login/%b HTTP/1.1\r\n\r\n" % name()
    chunked = b"POST /%b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc"
    found: dict[str, list[Step]] = {
        "silence": [],
        "a byte": [b"G"],
        "half a head": [b"GET /login/x HTTP/1.1\r\nHo"],
        "what is no request": [b"\x00\xff\r\n\r\n"],
        "TLS hello": [b"\x16\x03\x01\x02\x00\x01"],
        "a verb": [login],
        "a body of a verb": [b"GET /login/x HTTP/1.1\r\nContent-Length: 99\r\n\r\nabc"],
        "half a send": [login, 1, b"POST /send/q/1 HTTP/1.1\r\nContent-Length: 9999\r\n\r\nabc"],
        "a send": [login, 1, b"POST /send/q/1 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"],
        "waiting for messages": [login, 1, b"GET /receive/empty/9/60 HTTP/1.1\r\n\r\n"],
        "many verbs": [login * 50],
        "chunks": [chunked % b"login/x"],
        "a page": [_PAGE % b"api/status"],
        "half read pages": [_PAGE % b"docs" * 300, 1],
        "pages and half a head": [_PAGE % b"docs" * 20 + b"GET /api/st"],
        "a page with a body": [
            b"POST /enrol/join HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\nabc"
        ],
        "a page in chunks": [chunked % b"enrol/join"],
        **{
            f"half a body for {where}": [
                b"POST /api/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\nabc"
                % where.encode()
            ]
            for where in ("publish/queue:q", "definitions", "permits", "queues/q/move", "nothing")
        },
        "a body for publish in chunks": [chunked % b"api/publish/queue:q"],
        "a live page": [_PAGE % b"api/live?interval=0.1", 1],
        "a page and its body's end": [
            b"POST /api/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc" + _PAGE % b"docs"
        ],
    }
    for path in (b"link", b"session"):
        upgrade, where = _UPGRADE % path, path.decode()
        found |= {
            f"half an upgrade to {where}": [upgrade[:-40]],
            f"an upgrade to {where}": [upgrade],
            f"an upgrade to {where} that cannot be": [upgrade.replace(b"==", b"!!")],
            f"a WebSocket at {where}": [upgrade, 1],
            f"half a frame's head at {where}": [upgrade, 1, frame_head(MIB)[:5]],
            f"half a frame at {where}": [upgrade, 1, frame_head(9999), b"abc"],
            f"a frame too long at {where}": [upgrade, 1, frame_head(MIB), bytes(MIB // 4)],
            f"a frame of rubbish at {where}": [upgrade, 1, frame_head(9), b"\xff" * 9],
            f"a text at {where}": [upgrade, 1, b"\x81\x80\x00\x00\x00\x00"],
            f"a frame that is none at {where}": [upgrade, 1, b"\xff\xff\xff\xff\xff\xff"],
            f"a ping at {where}": [upgrade, 1, b"\x89\x80\x00\x00\x00\x00" * 10],
            f"a close at {where}": [upgrade, 1, b"\x88\x80\x00\x00\x00\x00"],
            f"a frame before the upgrade to {where}": [upgrade + frame_head(9) + bytes(9)],
        }
    found["a session"] = [_UPGRADE % b"session", 130, log_in(), 1]
    found["half a frame of a session"] = [*found["a session"], frame_head(15 * MIB), bytes(MIB)]
    return found


def stages_of_mqtt() -> dict[str, list[Step]]:
    connect = _CONNECT + name()
    return {
        "silence to MQTT": [],
        "half a CONNECT": [connect[:9]],
        "a long CONNECT": [b"\x10" + length(15 * MIB) + b"\x00\x04MQTT"],
        "no CONNECT": [b"\xff\xff\xff\xff\xff\xff"],
        "a CONNECT": [connect],
        "an MQTT client": [connect, 1],
        "a subscriber": [connect, 1, _SUBSCRIBE, 1],
        "half a PUBLISH": [connect, 1, _PUBLISH, b"abc"],
        "rubbish of a client": [connect, 1, b"\xf3\x7f"],
        "DISCONNECT": [connect, 1, b"\xe0\x00"],
    }


async def part(port: int, steps: list[Step], ending: str, context: ssl.SSLContext | None) -> None:
    """Say and hear this much, and then end in this way. The node may have ended it before."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1024)
    except OSError:
        return
    line: socket.socket = writer.get_extra_info("socket")
    try:
        await follow(steps, reader, writer)
        if ending == "reset" and not writer.is_closing():
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif ending == "half-close" and context is None:
            writer.write_eof()
            await asyncio.sleep(0.5)
    except (OSError, asyncio.IncompleteReadError):
        pass  # it is over already
    finally:
        writer.transport.abort()


async def follow(steps: list[Step], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    for step in steps:
        if isinstance(step, int):
            async with asyncio.timeout(60):
                await reader.readexactly(step)
        else:
            writer.write(step)
            await writer.drain()


async def part_in_every_way(target: Target, context: ssl.SSLContext | None = None) -> None:
    room = asyncio.Semaphore(30)

    async def one(port: int, steps: list[Step], ending: str) -> None:
        async with room:
            await part(port, steps, ending, context)

    async with asyncio.TaskGroup() as group:
        for _ in range(OF_EACH):
            for ending in ENDINGS:
                for port, stages in ((target.port, stages_of_http()), (target.mqtt, stages_of_mqtt())):
                    for steps in stages.values():
                        group.create_task(one(port, steps, ending))


def no_mistakes(log: str) -> None:
    for word in ("Traceback", "Unhandled", "Error handling", "never retrieved", "please report"):
        assert word not in log, log[max(log.index(word) - 500, 0) :][:4000]


@pytest_asyncio.fixture
async def target(tmp_path: Path) -> AsyncIterator[Target]:
    async with running(tmp_path) as made:
        yield made


async def test_who_goes_leaves_no_trace_in_the_log(target: Target) -> None:
    await part_in_every_way(target)
    await target.until(lambda status: status["intake"]["connections"] <= 2, "alone again")
    assert await target.process.stop() == 0
    no_mistakes(target.log)


async def test_who_goes_while_the_node_stops_leaves_none_either(target: Target) -> None:
    going = asyncio.create_task(part_in_every_way(target))
    await asyncio.sleep(1)
    assert await target.process.stop() == 0
    await going
    no_mistakes(target.log)


async def test_who_goes_leaves_none_over_tls(tmp_path: Path) -> None:
    async with running_over_tls(tmp_path) as target:
        await part_in_every_way(target, target.context)
        await part_in_every_way(target)  # who does not get to the end of the handshake
        assert await target.process.stop() == 0
    no_mistakes(target.log)


async def test_a_request_that_ends_just_when_a_stopping_node_would_end_it(target: Target) -> None:
    """Both are due while the process does not run, and so come in one turn of its loop."""
    raws = [await frame_of_a_stranger(target) for _ in range(20)]
    for raw in raws:
        with contextlib.suppress(ConnectionError):
            await raw.say(bytes(MIB // 4))
    refused = time.monotonic()
    lead = CLOSE_TIMEOUT - TO_FINISH + 0.2
    await asyncio.sleep(lead)
    stopping = asyncio.create_task(target.process.stop())
    await asyncio.sleep(refused + CLOSE_TIMEOUT - 0.2 - time.monotonic())
    target.process.signal(signal.SIGSTOP)
    await asyncio.sleep(1)
    target.process.signal(signal.SIGCONT)
    assert await stopping == 0
    for raw in raws:
        raw.break_off()
    no_mistakes(target.log)
