"""A node in memory, and its real port: what the HTTP side is tested against."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from nodes import running_node

from bridges.carriers.base import Carrier, CarrierError
from broker.buffers import Buffers
from broker.core.clients.transfers import Fetched
from broker.core.errors import NoSuchQueue, NotFound, NotLoggedIn, QueueFull, SwitchError
from broker.core.sessions.sessions import Connection
from broker.entrance.entrance import Entrance
from broker.entrance.operators import Operators
from broker.entrance.policy import EntrancePolicy
from broker.http.port import listen
from broker.http.settings import HttpSettings
from broker.node import Node
from broker.shares import Shares
from config.model import AdvisoryLog, Listener, Site
from sapwood.protocol.bundles import Message
from sapwood.protocol.session_frames import (
    ClientFrame,
    Confirm,
    Create,
    Done,
    Failed,
    Login,
    Send,
    SessionPing,
    SessionPong,
    Welcome,
)

Outcome = Callable[[SwitchError | None], None]


@dataclass
class Waiting:
    """A blocked transfer of the fake switch."""

    token: str
    ready: Callable[[], None]


@dataclass
class FakeSwitch:
    """Queues in lists. What must be on disk is told when the node is woken."""

    quota: int = 1000
    tokens: dict[Connection, str] = field(default_factory=dict)
    closed: list[Connection] = field(default_factory=list)
    queues: dict[str, list[tuple[int, Message]]] = field(default_factory=dict)
    readers: dict[str, set[str]] = field(default_factory=dict)
    waiters: list[Waiting] = field(default_factory=list)
    woken: int = 0
    after: list[Callable[[], None]] = field(default_factory=list)
    received: list[ClientFrame] = field(default_factory=list)
    hold_confirms: bool = False
    full: bool = False
    gone_on: list[Connection] = field(default_factory=list)
    last_id: int = 0

    def login(self, connection: Connection, token: str) -> None:
        if connection.rights is None:
            raise NotLoggedIn("this connection has not proved whose it is")
        self.tokens[connection] = token

    def close(self, connection: Connection) -> None:
        self.tokens.pop(connection, None)
        self.closed.append(connection)

    def create(self, connection: Connection, name: str, home: bool = False) -> str:
        name = name or f"fresh{len(self.queues)}@here"
        self.queues.setdefault(name, [])
        return name

    def when_committed(self, call: Callable[[], None]) -> None:
        self.after.append(call)

    def subscribe(self, connection: Connection, name: str, credit: int = 0, *, make: bool = False) -> bool:
        made = make and name not in self.queues
        if made:
            self.create(connection, name)
        if name not in self.queues:
            raise NotFound(f"this node has no queue {name!r}")
        self.readers.setdefault(self.tokens[connection], set()).add(name)
        return made

    def send(
        self, connection: Connection, name: str, message: Message, done: Outcome, *, tell: bool = False
    ) -> None:
        if tell and name not in self.queues:
            raise NoSuchQueue(f"QUEUE_DOES_NOT_EXIST: nobody serves {name}")
        queue = self.queues.setdefault(name, [])
        if len(queue) >= self.quota:
            raise QueueFull(f"{name} has no room")
        self.last_id += 1
        queue.append((self.last_id, message))
        self.after.append(lambda: done(None))
        for waiting in list(self.waiters):
            if name in self.readers.get(waiting.token, ()):
                self.waiters.remove(waiting)
                self.woken += 1
                self.after.append(waiting.ready)
                break

    def acknowledge(self, line: Connection, transfer: int, done: Outcome, *, rejected: str = "") -> None:
        for queue in self.queues.values():
            for item in queue:
                if item[0] == transfer:
                    queue.remove(item)
                    self.after.append(lambda: done(None))
                    return
        raise NotFound(f"no message {transfer}")

    def is_full(self, connection: Connection) -> bool:
        return self.full

    def transfer(self, connection: Connection, ack_to: int, waiter: Any = None) -> list[Fetched]:
        names = self.readers.get(self.tokens[connection], ())
        found = (Fetched(*item) for name in names for item in self.queues[name] if item[0] > ack_to)
        return sorted(found, key=lambda each: each.number)

    def when_told(self, found: list[Fetched], call: Callable[[], None]) -> None:
        call()

    def wait(self, connection: Connection, ack_to: int, ready: Callable[[], None]) -> Waiting:
        waiting = Waiting(self.tokens[connection], ready)
        self.waiters.append(waiting)
        return waiting

    def cancel(self, waiter: Waiting) -> None:
        if waiter in self.waiters:
            self.waiters.remove(waiter)

    def go_on(self, connection: Connection) -> None:
        self.gone_on.append(connection)

    def receive(self, connection: Connection, frames: list[ClientFrame]) -> None:
        for frame in frames:
            self.received.append(frame)
            match frame:
                case Login():
                    self.tokens[connection] = frame.session
                    connection.send(Welcome("here", frame.session, 0, 1))
                case Send():
                    through = frame.first + frame.count - 1
                    if not self.hold_confirms:
                        self.after.append(lambda c=connection, n=through: c.send(Confirm(n)))  # type: ignore[misc]
                case Create():
                    connection.send(Done(frame.request, self.create(connection, frame.queue)))
                case SessionPing():
                    connection.send(SessionPong(frame.number))
                case _:
                    connection.send(Failed(getattr(frame, "request", 0), "NOT_FOUND", "not in this test"))


@dataclass
class FakeNode:
    """Commits whenever it is woken."""

    switch: FakeSwitch = field(default_factory=FakeSwitch)
    name: str = "here"
    ready: bool = True
    disconnected: bool = False
    linked: list[list[bytes]] = field(default_factory=list)
    sent_away: list[tuple[str, str]] = field(default_factory=list)
    enrolment: None = None
    report: Any = None
    shares: Shares = field(default_factory=Shares)
    buffers: Buffers = field(default_factory=Buffers)
    policy: EntrancePolicy = field(default_factory=EntrancePolicy)

    @cached_property
    def entrance(self) -> Entrance:
        return Entrance("here", self.policy)

    def matched(self, topic: str) -> str:
        return f"nobody for {topic}"

    def nudge(self) -> None:
        self.wake()

    def wake(self) -> None:
        after, self.switch.after = self.switch.after, []
        for call in after:
            asyncio.get_running_loop().call_soon(call)

    async def status(self) -> dict[str, Any]:
        return {"name": "here", "links": []}

    @property
    def wires(self) -> "FakeNode":
        return self

    @property
    def running(self) -> "FakeNode":
        return self

    def turned_away(self, address: str, text: str) -> None:
        self.sent_away.append((address, text))

    async def serve(self, carrier: Carrier) -> None:
        try:
            while True:
                packets = await carrier.receive()
                self.linked.append(packets)
                carrier.send(packets)
        except CarrierError:
            pass


class Port:
    """The node's port and a way to talk to it with plain sockets."""

    def __init__(self, node: FakeNode, number: int) -> None:
        self.node = node
        self.number = number
        self.clients: list[Plain] = []

    @property
    def http(self) -> str:
        return f"http://127.0.0.1:{self.number}"

    async def dial(self) -> "Plain":
        client = Plain(*await asyncio.open_connection("127.0.0.1", self.number))
        self.clients.append(client)
        return client


class Answer:
    """An HTTP answer, read by its Content-Length."""

    def __init__(self, head: str, body: bytes) -> None:
        lines = head.split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
        self.body = body


class Plain:
    """A client of the link-level protocol that knows sockets only."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(
        self, path: str, *, method: str = "GET", body: bytes | None = None, headers: tuple[str, ...] = ()
    ) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", *headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        return await self.answer()

    async def answer(self) -> Answer:
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                int(line.split(":")[1])
                for line in head.split("\r\n")
                if line.lower().startswith("content-length:")
            )
            return Answer(head.strip(), await self.reader.readexactly(length))

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


Opener = Callable[..., Awaitable[Port]]


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


@pytest.fixture
async def serve(node: FakeNode) -> AsyncIterator[Opener]:
    """Open the node's port with the given settings."""
    ports: list[tuple[Any, Port]] = []

    async def start(**settings: Any) -> Port:
        policy = {name: settings.pop(name) for name in ("mode", "secret", "accounts") if name in settings}
        node.policy = EntrancePolicy(**policy)
        node.__dict__.pop("entrance", None)
        operators = Operators(settings.pop("token", ""), settings.pop("operators", ()))
        found = HttpSettings(operators=operators, **settings)
        opened = await listen(node, "127.0.0.1", 0, settings=found)
        port = Port(node, opened.addresses[0][1])
        ports.append((opened, port))
        return port

    yield start
    for opened, port in ports:
        for client in port.clients:
            await client.close()
        await opened.cleanup()


@pytest.fixture
async def port(serve: Opener) -> Port:
    return await serve()


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Node]:
    """A real node."""
    site = Site(name="hq", data=tmp_path, listener=Listener(port=0), advisory_log=AdvisoryLog(enabled=False))
    async with running_node(site) as node:
        yield node
