"""Streaming sessions on the port: packets in, packets out, and their bounds."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from bridges.carriers import memory
from bridges.carriers.base import CarrierEnded
from broker import shares
from broker.buffers import Buffers
from broker.core.sessions.parts import AT_ONCE
from broker.core.sessions.sessions import ConsumerDelivery, Unacked
from broker.entrance.entrance import Caller
from broker.http.session_endpoint import StreamingSession
from broker.http.settings import HttpSettings
from sapwood import connect
from sapwood.protocol.destinations import queue
from sapwood.protocol.session_frames import (
    Acknowledge,
    Confirm,
    Done,
    Failed,
    Login,
    Send,
    SessionPing,
    SessionPong,
    Welcome,
    decode_node_packet,
    encode_packet,
)

LOGIN = Login(1, "till-7")


def send(first: int, count: int = 1, body: bytes = b"x") -> Send:
    return Send(first, queue("q"), count, body)


class Line:
    """The client's end of a session in memory."""

    def __init__(self, node: Any, **settings: Any) -> None:
        self.near, far = memory.pair(max_packet=1 << 24, buffer_bytes=1 << 30)
        self.session = StreamingSession(
            node,
            HttpSettings(**settings),
            far,
            Caller("session", "memory", near=True),
        )
        self.far = far
        self.serving = asyncio.create_task(self.session.serve())

    def say(self, *frames: Any) -> None:
        self.near.send([encode_packet(frames)])

    async def until_sent(self, node: Any) -> None:
        """Wait until the node's switch has a first send."""
        async with asyncio.timeout(60):
            while not any(isinstance(frame, Send) for frame in node.switch.received):
                await asyncio.sleep(0)

    async def hear(self) -> list[Any]:
        async with asyncio.timeout(60):
            return [frame for packet in await self.near.receive() for frame in decode_node_packet(packet)]


async def test_the_client_library_and_the_port_understand_each_other(port: Any) -> None:
    async with connect(port.http, session="till-7") as client:
        assert client.node == "here"
        assert await client.create("sales") == "sales"
        await client.send_many("queue:sales", [b"%d" % n for n in range(2000)])
        await client.send("queue:sales", b"last")
    assert sum(frame.count for frame in port.node.switch.received if isinstance(frame, Send)) == 2001
    while not port.node.switch.closed:
        await asyncio.sleep(0)


async def test_without_proof_nobody_logs_in_from_elsewhere(serve: Any, node: Any) -> None:
    """A proxy that says so stands for another machine."""
    proven = Login(1, "till-7", "s3cret")
    for secret, login, headers, welcome in (
        ("", LOGIN, {}, True),
        ("", LOGIN, {"X-Forwarded-For": "192.0.2.7"}, False),
        ("", proven, {"X-Real-IP": "127.0.0.1"}, False),
        ("s3cret", LOGIN, {}, False),
        ("s3cret", LOGIN, {"X-Forwarded-For": "192.0.2.7"}, False),
        ("s3cret", proven, {"X-Forwarded-For": "192.0.2.7"}, True),
    ):
        port = await serve(secret=secret)
        uri = f"{port.http}/session"
        async with aiohttp.ClientSession() as http, http.ws_connect(uri, headers=headers) as socket:
            await socket.send_bytes(encode_packet([login]))
            (answer,) = decode_node_packet((await socket.receive()).data)
        assert isinstance(answer, Welcome if welcome else Failed), (secret, headers)
        assert welcome or answer.code == "NOT_LOGGED_IN"


async def test_what_is_said_in_one_turn_leaves_as_one_packet(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "SLICE", 60.0)  # a busy machine may end a slice, and a turn with it, anywhere
    line = Line(node)
    line.say(LOGIN, SessionPing(1), SessionPing(2))
    (packet,) = await line.near.receive()
    assert decode_node_packet(packet) == [Welcome("here", "till-7", 0, 1), SessionPong(1), SessionPong(2)]


async def test_confirms_come_after_the_commit(node: Any) -> None:
    line = Line(node)
    line.say(LOGIN)
    await line.hear()
    line.say(send(1, 3))
    assert await line.hear() == [Confirm(3)]


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([SessionPing(1)], "NOT_LOGGED_IN"),
        ([], "NOT_LOGGED_IN"),
        ([Login(99, "till-7")], "BAD_REQUEST"),
    ],
)
async def test_a_session_begins_with_a_login_of_our_version(node: Any, frames: list[Any], code: str) -> None:
    line = Line(node)
    line.say(*frames)
    (failed,) = await line.hear()
    assert isinstance(failed, Failed)
    assert (failed.request, failed.code) == (0, code)
    with pytest.raises(CarrierEnded):
        await line.near.receive()
    await line.serving
    assert len(node.switch.closed) == 1
    assert not node.switch.received


async def test_who_does_not_log_in_is_sent_away(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.http.session_endpoint._LOGIN_TIMEOUT", 0.01)
    line = Line(node)
    (failed,) = await line.hear()
    assert (failed.code, failed.text) == ("NOT_LOGGED_IN", "no Login within 0.01 s")
    await line.serving


@pytest.mark.parametrize("garbage", [b"", b"\x00", b"\xc1" * 9, b"\x91\x92\x05\xa1\xff", b"\x91" * 5000])
async def test_garbage_ends_this_session_with_a_reason(node: Any, garbage: bytes) -> None:
    line = Line(node)
    line.say(LOGIN)
    await line.hear()
    line.near.send([garbage])
    (failed,) = await line.hear()
    assert failed.code == "BAD_REQUEST"
    assert "not a packet of client frames" in failed.text
    await line.serving
    assert len(node.switch.closed) == 1


async def test_refusals_are_logged_once_for_each_host_and_code(port: Any, caplog: Any) -> None:
    for _ in range(3):
        async with aiohttp.ClientSession() as http, http.ws_connect(f"{port.http}/session") as socket:
            await socket.send_bytes(encode_packet([LOGIN]))
            await socket.receive()
            await socket.send_bytes(b"\x00")
            (failed,) = decode_node_packet((await socket.receive()).data)
            assert failed.code == "BAD_REQUEST"
    lines = [each.getMessage() for each in caplog.records if "its session ends" in each.getMessage()]
    assert len(lines) == 1
    assert "not a packet of client frames" in lines[0]
    assert "[BAD_REQUEST]" in lines[0]


async def test_a_client_with_too_much_under_way_is_read_no_further(node: Any) -> None:
    node.switch.hold_confirms = True
    line = Line(node, max_unconfirmed=1000)
    line.say(LOGIN)
    await line.hear()
    line.say(send(1, 1, b"x" * 2000))
    await line.until_sent(node)
    line.say(send(2, 1, b"y"))
    await asyncio.sleep(0.01)
    assert [frame.first for frame in node.switch.received if isinstance(frame, Send)] == [1]
    (connection,) = node.switch.tokens
    connection.send(Confirm(1))
    await line.hear()
    while len(node.switch.received) < 3:
        await asyncio.sleep(0)
    line.serving.cancel()


async def test_a_client_that_reads_nothing_is_cut_off(node: Any) -> None:
    node.buffers = Buffers(2 * 1024 * 1024)
    line = Line(node)
    line.far._outgoing.limit = 1024 * 1024
    line.say(LOGIN)
    await line.hear()
    (connection,) = node.switch.tokens
    for _ in range(40):
        connection.send(Done(1, "x" * 100_000))
        await asyncio.sleep(0)
    await line.serving
    assert node.switch.closed == [connection]


async def test_of_many_that_read_nothing_those_with_most_end_and_the_others_go_on(node: Any) -> None:
    """None of them comes near its own bound."""
    node.buffers = Buffers(4 * 1024 * 1024)
    lines = [Line(node) for _ in range(5)]
    for line in lines:
        line.far._outgoing.limit = 16 * 1024
        line.say(LOGIN)
        await line.hear()
    first, *others = node.switch.tokens
    for _ in range(30):
        first.send(Done(1, "x" * 1000))
        for connection in others:
            connection.send(Done(1, "x" * 60_000))
        await asyncio.sleep(0)
    while not node.switch.closed:
        await asyncio.sleep(0)
    assert first not in node.switch.closed
    left = [line.session for line in lines if line.session._connection not in node.switch.closed]
    assert 1 < len(left) < 5
    assert sum(session.held for session in left) <= 4 * 1024 * 1024
    for line in lines:
        line.near.cut()
        await line.serving
    assert repr(node.buffers) == "<Buffers 0 of at most 4194304 of 0 connections>"


async def test_who_is_cut_off_while_its_sends_wait_for_confirms_ends_too(node: Any) -> None:
    node.switch.hold_confirms = True
    node.buffers = Buffers(2 * 1024 * 1024)
    line = Line(node, max_unconfirmed=1000)
    line.far._outgoing.limit = 1024 * 1024
    line.say(LOGIN)
    await line.hear()
    line.say(send(1, 1, b"x" * 2000))
    await line.until_sent(node)
    (connection,) = node.switch.tokens
    for _ in range(40):
        connection.send(Done(1, "x" * 100_000))
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await line.serving
    assert node.switch.closed == [connection]


async def test_a_lost_line_leaves_the_session(node: Any) -> None:
    line = Line(node)
    line.say(LOGIN)
    await line.hear()
    line.near.cut()
    await line.serving
    assert not node.switch.tokens
    assert len(node.switch.closed) == 1


async def test_an_accident_in_the_switch_ends_this_session_only(
    node: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    line, other = Line(node), Line(node)
    for one in (line, other):
        one.say(LOGIN)
        await one.hear()

    def accident(*_: Any) -> None:
        raise ValueError("not thought of")

    with monkeypatch.context() as patched:
        patched.setattr(node.switch, "receive", accident)
        line.say(SessionPing(1))
        assert (await line.hear())[0].code == "BAD_REQUEST"
    other.say(SessionPing(1))
    assert await other.hear() == [SessionPong(1)]
    assert "please report" in caplog.text
    other.serving.cancel()


async def test_pages_and_plain_requests_get_no_session(port: Any) -> None:
    client = await port.dial()
    plain = await client.ask("/session")
    assert plain.status == 426
    assert b"without a WebSocket upgrade" in plain.body
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
            await session.ws_connect(f"{port.http}/session", origin="http://evil.example")
    assert caught.value.status == 403


async def test_others_have_turns_in_the_middle_of_an_acknowledgement(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of all that the session has, each in a bundle of its own."""
    monkeypatch.setattr(shares, "SLICE", 0.0)
    line = Line(node)
    line.say(LOGIN)
    await line.hear()
    (connection,) = node.switch.tokens
    unacked = Unacked()
    for number in range(1, 4 * AT_ONCE + 1):
        unacked.put(ConsumerDelivery(number, number - 1, 1, cast("Any", None), cast("Any", None)))
    connection.session = cast("Any", SimpleNamespace(unacked=unacked))
    line.say(Acknowledge([(0, 2**60)]))
    while len(node.switch.received) < 5:
        met = len(node.switch.received)
        await asyncio.sleep(0)
        assert len(node.switch.received) <= met + 1
    found = [each for frame in node.switch.received[1:] for each in frame.ranges]
    assert found == [(at * AT_ONCE + 1, at * AT_ONCE + AT_ONCE) for at in range(4)]
    connection.session = None
    line.serving.cancel()
