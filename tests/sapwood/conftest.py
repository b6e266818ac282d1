"""A node that a test plays: it speaks session frames on a real WebSocket and does what it is told."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from sapwood.protocol.bundles import Message, encode_message
from sapwood.protocol.destinations import queue
from sapwood.protocol.session_frames import (
    Acknowledge,
    ClientFrame,
    Confirm,
    Create,
    Deliver,
    Done,
    Failed,
    Login,
    NodeFrame,
    RefuseDelivery,
    Send,
    SessionPing,
    SessionPong,
    Subscribe,
    Unsubscribe,
    Welcome,
    decode_client_packet,
    encode_packet,
)


class PlayedNode:
    """Keeps what producers send, once, in order. `holding`: sends are kept but not confirmed."""

    def __init__(self) -> None:
        self.lines: list[web.WebSocketResponse[Any]] = []
        self.logins: list[Login] = []
        self.frames: list[ClientFrame] = []
        self.committed: dict[str, int] = {}
        self.kept: list[Send] = []
        self.holding = False
        self.deaf = False
        self.refuses_logins = self.returns = False
        self.name, self.store = "played", b""
        self.answers_pings = True
        self.refusal: Failed | None = None
        self.subscriptions: dict[int, Subscribe] = {}
        self.refuse_queues: set[str] = set()
        self.port = 0
        self.changed = asyncio.Event()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def line(self) -> "web.WebSocketResponse[Any]":
        return self.lines[-1]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.refuses_logins:
            raise web.HTTPServiceUnavailable
        line: web.WebSocketResponse[Any] = web.WebSocketResponse(max_msg_size=0)
        await line.prepare(request)
        self.lines.append(line)
        async for message in line:
            if message.type is aiohttp.WSMsgType.BINARY and not self.deaf:
                answers: list[NodeFrame] = []
                for frame in decode_client_packet(message.data):
                    answers += self.answer(frame)
                if answers:
                    await self.say(*answers, line=line)
                self.changed.set()
        return line

    def answer(self, frame: ClientFrame) -> list[NodeFrame]:
        self.frames.append(frame)
        match frame:
            case Login():
                self.logins.append(frame)
                if self.refusal:
                    return [self.refusal]
                last = self.committed.get(frame.producer, 0)
                knows = (True, self.returns, self.store)
                return [Welcome(self.name, frame.session, last, 1 << 24, [], *knows)]
            case Send():
                return self.keep(frame)
            case Create():
                return [Done(frame.request, frame.queue or f"fresh{frame.request}@played")]
            case Subscribe():
                if frame.destination.name in self.refuse_queues:
                    return [Failed(frame.request, "NOT_FOUND", "there is no such queue")]
                self.subscriptions[frame.subscription] = frame
                return [Done(frame.request)]
            case Unsubscribe():
                del self.subscriptions[frame.subscription]
                return [Done(frame.request)]
            case SessionPing():
                return [SessionPong(frame.number)] if self.answers_pings else []
            case Acknowledge() | RefuseDelivery():
                return []

    def keep(self, frame: Send) -> list[NodeFrame]:
        producer = self.logins[-1].producer
        last = frame.first + frame.count - 1
        if last > self.committed.get(producer, 0):
            assert frame.first == self.committed.get(producer, 0) + 1, "a number was left out"
            self.committed[producer] = last
            self.kept.append(frame)
        return [] if self.holding else [Confirm(last)]

    async def say(self, *frames: NodeFrame, line: "web.WebSocketResponse[Any] | None" = None) -> None:
        await (line or self.line).send_bytes(encode_packet(frames))

    async def deliver(self, subscription: int, first: int, payloads: list[bytes], **fields: Any) -> None:
        body = b"".join(encode_message(Message(payload)) for payload in payloads)
        frame = Deliver(
            subscription,
            queue("q"),
            first,
            len(payloads),
            fields.pop("bundle", b"b" * 16),
            fields.pop("position", 0),
            fields.pop("flags", 0),
            len(body),
            fields.pop("body", body),
            **fields,
        )
        await self.say(frame)

    async def cut(self) -> None:
        """Break the line as a network does."""
        transport = self.line._req.transport if self.line._req else None
        assert transport
        transport.abort()

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    @property
    def acknowledged(self) -> list[tuple[int, int]]:
        return [pair for frame in self.frames if isinstance(frame, Acknowledge) for pair in frame.ranges]

    @property
    def refused(self) -> list[RefuseDelivery]:
        return [frame for frame in self.frames if isinstance(frame, RefuseDelivery)]

    @property
    def sent(self) -> list[Send]:
        return [frame for frame in self.frames if isinstance(frame, Send)]


@pytest.fixture
async def played() -> AsyncIterator[PlayedNode]:
    node = PlayedNode()
    app = web.Application()
    app.router.add_get("/session", node.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    node.port = runner.addresses[0][1]
    yield node
    for line in node.lines:
        await line.close()
    await runner.cleanup()
