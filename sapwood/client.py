"""The client of a streaming session: sends with confirmation, subscriptions with credit, reconnection.

Law: nothing is lost and nothing doubled by a lost connection. What the node has not confirmed is sent again
under the same numbers, by name of the producer; subscriptions are made again; acknowledgements that had
not left go first. What the node cannot know, an acknowledgement that was under way when a *node* stopped,
may come again and is marked `redelivered`.

Wrinkle: an application that starts again under the same `producer` goes on after `committed`, the number
of its last message that is on disk; numbers begin at 1, so `committed` counts all it has ever sent.
"""

import asyncio
import contextlib
import ssl
import uuid
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Self

from sapwood.address import session_uri
from sapwood.errors import ConnectFailed, Rejection, SendRejected, Unconfirmed
from sapwood.outbox import Call, FrameRoute, Outbox, bodies, encode_message
from sapwood.session import Session
from sapwood.subscription import Subscription
from sapwood.tasks import current as current_task
from treeconnector.bundles import Properties
from treeconnector.destinations import Destination, Kind, parse
from treeconnector.session_frames import MAX_PACKET, VERSION, Create, EndSubscription, Login

DEFAULT_ADDRESS: Final = "http://127.0.0.1:7600"
_YIELD_BYTES: Final = 512 * 1024
_LARGEST_BODY: Final = MAX_PACKET - 64 * 1024
_parse = lru_cache(maxsize=4096)(parse)


def connect(address: str = DEFAULT_ADDRESS, *, session: str = "", **options: Any) -> "Client":
    """A client of the node at `address` (http, https, ws or wss; port 7600 unless given).

    Use it as `async with connect(...) as client`. For the options see `Client`.
    """
    return Client(address, session=session, **options)


def _context(ca: str | None, certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """None: the system's authorities, and nothing of our own."""
    if not (ca or certificate):
        return None
    context = ssl.create_default_context(cafile=ca)
    if certificate:
        context.load_cert_chain(certificate, key)
    return context


class _Waiter(Call):
    """A call with a future: done when settled, or failed with what was rejected."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        super().__init__()
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settled(self) -> None:
        if self.future.done():
            return
        if self.rejections:
            self.future.set_exception(SendRejected(self.rejections))
        else:
            self.future.set_result(None)

    def failed(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Client:
    """One application's session at its node. Use it on one event loop, as an async context manager.

    `session`: the identity; several connections may share it. Fresh unless given.
    `producer`: names the numbered stream of sends across connections and runs; fresh unless given.
    `secret`: where the node has one. `account`, `password`: instead of it, what the node knows this
    application by. `timeout`: seconds for the first connection, and for the last
    confirmations when closing. `window_messages`, `window_bytes`: how much may be unconfirmed.
    `keep_alive`: seconds of silence after which the node is asked for a sign of life.
    `tls`: a context for https and wss; or just `ca`, the authority's file, and where a client certificate
    proves the application `certificate` and `key`, its files (one file may hold both).
    """

    def __init__(
        self,
        address: str,
        *,
        session: str = "",
        secret: str | None = None,
        account: str = "",
        password: str | None = None,
        producer: str | None = None,
        timeout: float = 10.0,
        window_messages: int = 65_536,
        window_bytes: int = 32 * 1024 * 1024,
        keep_alive: float = 15.0,
        tls: ssl.SSLContext | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        if password is not None and not account:
            raise ValueError(
                "a password is an account's: give `account` too, or the session secret as `secret`"
            )
        fresh = uuid.uuid4().hex
        self.name = session or f"session-{fresh}"
        self.producer = f"{self.name}-{fresh}" if producer is None else producer
        self.has_producer = bool(session and producer)
        self._timeout = timeout
        self._outbox = Outbox(window_messages, window_bytes)
        self._rested = 0
        self._session = Session(
            session_uri(address),
            Login(VERSION, self.name, (password if account else secret) or "", self.producer, account),
            self._outbox,
            timeout=timeout,
            keep_alive=keep_alive,
            context=tls or _context(ca, certificate, key),
        )

    def __repr__(self) -> str:
        session = self._session
        return f"<Client {self.name} at {session.uri} {session.state}, {self._outbox.messages} unconfirmed>"

    @property
    def node(self) -> str:
        """Name of the node that the client is, or was last, connected to."""
        return self._session.node

    @property
    def committed(self) -> int:
        """Number of this producer's last message that is on disk at the node, or was rejected."""
        return self._session.committed

    # --- life

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(wait=kind is None)

    async def open(self) -> Self:
        """Connect, within `timeout`. Raises `ConnectFailed` or `SessionRefused`."""
        await self._session.open()
        return self

    async def close(self, *, wait: bool = True) -> None:
        """Wait for the last confirmations (if `wait`, `timeout` seconds), and end. Idempotent.

        Raises `Unconfirmed` if they did not come, `SendRejected` for published messages not taken.
        """
        try:
            if self._session.is_open:
                if wait:
                    await self._flush_within(self._timeout)
                await self._send_rest()
        finally:
            await self._session.close()
        if wait and self._outbox.messages:
            raise Unconfirmed(self._outbox.messages)

    async def _flush_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.flush()
        except TimeoutError:
            raise Unconfirmed(self._outbox.messages) from None

    async def _send_rest(self) -> None:
        """The last acknowledgements."""
        with contextlib.suppress(ConnectFailed, TimeoutError):
            async with asyncio.timeout(self._timeout):
                await self._session.send_rest()

    # --- sending

    async def send(self, destination: Destination | str, payload: bytes | str, **properties: Any) -> None:
        """Send one message and wait until the node has it on disk.

        `destination`: 'queue:NAME', 'queue:NAME@NODE', 'topic:PATTERN'. Properties: those of
        `treeconnector.bundles.Properties`, and `persistent`, `retained`, `scope` (0 vertical, 1 tree), and
        `tell`: where nobody in the tree serves the queue, a notice comes to `reply_to` at once (see
        `Delivery.notice`) and the message is not kept. Raises `SendRejected`.
        """
        waiter = _Waiter()
        await self._room()
        self._outbox.add(*_message(destination, payload, properties), waiter)
        waiter.end()
        self._session.work()
        await waiter.future

    async def publish(self, destination: Destination | str, payload: bytes | str, **properties: Any) -> None:
        """Send one message without waiting for its confirmation, but for room in the window.

        `flush` waits for all, and tells what was rejected.
        """
        await self._room()
        self._outbox.add(*_message(destination, payload, properties))
        self._session.work()

    def seal(self) -> int:
        """Number everything that was published so far; returns the producer's last number.

        Between two calls, numbers follow the order of publishing within one destination only.
        """
        return self._outbox.seal()

    async def flush(self) -> None:
        """Wait until everything published is confirmed. Raises `SendRejected` for what was not taken."""
        self._session.check_open()
        outbox = self._outbox
        target = outbox.seal()
        self._session.work()
        while outbox.settled_through < target:
            await self._session.wait_moved()
        if outbox.rejections:
            rejections, outbox.rejections = outbox.rejections, []
            raise SendRejected(rejections)

    async def send_many(
        self,
        destination: Destination | str,
        payloads: Iterable[bytes],
        *,
        wait: bool = True,
        **properties: Any,
    ) -> None:
        """Send many messages to one destination, the fast way, and wait until all are on disk.

        `wait=False`: like `publish`. The properties hold for each. Raises `SendRejected`.
        """
        route = _route(destination, properties)
        shared = _properties(properties)
        waiter = _Waiter() if wait else None
        for body, number in bodies(list(payloads), shared):
            _check_size(body)
            await self._room()
            self._outbox.add_body(route, body, number, waiter)
            self._session.work()
        if waiter:
            waiter.end()
            await waiter.future

    async def _room(self) -> None:
        """Wait until the window has room; now and then let others run."""
        while not self._outbox.has_room and self._session.is_open:
            await self._session.wait_moved()
        self._session.check_open()
        if self._outbox.total - self._rested > _YIELD_BYTES:
            self._rested = self._outbox.total
            await asyncio.sleep(0)

    # --- queues and subscriptions

    async def create(self, name: str = "", *, home: bool = False) -> str:
        """Make a queue and return its name. '' = a transient one with a fresh name, for replies.

        One that exists is no error. Raises `RequestFailed`.
        """
        self._session.check_open()
        what = f"creating queue {name or '(transient)'}"
        return await self._session.request(what, lambda number: Create(number, name, home))

    def subscribe(
        self, destination: Destination | str, *, credit: int = 2000, durable: str = "", auto_ack: bool = False
    ) -> Subscription:
        """Read a queue or a topic pattern: `async for delivery in client.subscribe(...)`.

        `credit`: messages that may be unacknowledged at once. `durable`: (topics) a name under which the
        subscription outlives the session. `auto_ack`: a delivery is acknowledged when the next is asked
        for; else call `delivery.ack()`. Raises `RequestFailed` when iterated, if the node refuses.
        """
        self._session.check_open()
        if credit < 1:
            raise ValueError(f"a credit of {credit} messages: expected 1 or more")
        where = _parse(destination) if isinstance(destination, str) else destination
        return self._session.subscribe(where, credit, durable, auto_ack)

    async def end_subscription(self, durable: str) -> None:
        """End this session's durable subscription of that name for good, with all that waits for it.

        Raises `RequestFailed`: there is none.
        """
        self._session.check_open()
        what = f"ending the durable subscription {durable}"
        await self._session.request(what, lambda number: EndSubscription(number, durable))


def _route(destination: Destination | str, properties: dict[str, Any]) -> FrameRoute:
    """The route of a message; takes its own options out of `properties`."""
    where = _parse(destination) if isinstance(destination, str) else destination
    if not properties:
        return FrameRoute(where)
    return FrameRoute(
        where,
        properties.pop("persistent", True),
        properties.pop("retained", False),
        properties.pop("scope", -1),
        _tells(where, properties),
    )


def _tells(where: Destination, properties: dict[str, Any]) -> bool:
    if not properties.pop("tell", False):
        return False
    if where.kind != Kind.QUEUE or not properties.get("reply_to"):
        raise ValueError(f"{where} with `tell`: expected a queue, and a `reply_to` where the notice goes")
    return True


def _properties(given: dict[str, Any]) -> Properties | None:
    """The properties of a message; what is sent within a task belongs to it."""
    task = current_task.get()
    if task and "task_id" not in given:
        return Properties(task_id=task, **given)
    return Properties(**given) if given else None


def _message(
    destination: Destination | str, payload: bytes | str, properties: dict[str, Any]
) -> tuple[FrameRoute, bytes]:
    data = payload.encode() if isinstance(payload, str) else payload
    route = _route(destination, properties)
    message = encode_message(data, _properties(properties))
    _check_size(message)
    return route, message


def _check_size(body: bytes) -> None:
    """A packet that no node reads would end each connection on which it is sent."""
    if len(body) > _LARGEST_BODY:
        text = f"{len(body)} bytes: a session takes messages of at most {_LARGEST_BODY}"
        raise SendRejected([Rejection(0, 0, "TOO_LARGE", text)])
