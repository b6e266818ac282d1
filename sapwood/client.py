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
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Self, Unpack

from sapwood.address import session_uris
from sapwood.connection_watch import ConnectionWatch
from sapwood.errors import (
    ConnectFailed,
    NotKnown,
    Rejection,
    RequestTimeout,
    SendRejected,
    SendTimeout,
    Unconfirmed,
)
from sapwood.options import (
    ClientOptions,
    NodePlace,
    Reach,
    SendOptions,
    TlsFiles,
    at_least,
    check_notice,
    destination_of,
    flag,
    payload_of,
    payloads_of,
    properties_of,
    scope_of,
    seconds,
    text,
    whole,
)
from sapwood.outbox import Call, FrameRoute, Outbox, bodies, encode_message
from sapwood.protocol.bundles import Properties
from sapwood.protocol.destinations import Destination
from sapwood.protocol.session_frames import (
    MAX_PACKET,
    VERSION,
    ClientFrame,
    Create,
    Delete,
    EndSubscription,
    Login,
)
from sapwood.session import Session
from sapwood.subscription import Subscription
from sapwood.tasks import current as current_task
from sapwood.waits import within

DEFAULT_ADDRESS: Final = "http://127.0.0.1:7600"
_YIELD_BYTES: Final = 512 * 1024
_LARGEST_BODY: Final = MAX_PACKET - 64 * 1024


def connect(
    address: str | Sequence[str] = DEFAULT_ADDRESS, *, session: str = "", **options: Unpack[ClientOptions]
) -> "Client":
    """A client of the node at `address` (http, https, ws or wss; port 7600 unless given), or of the first of
    several that answers.

    Use it as `async with connect(...) as client`. For the options see `Client`.
    """
    return Client(address, session=session, **options)


class _Waiter(Call):
    """A call with a future: done when settled, or failed with what was rejected."""

    __slots__ = ("future",)

    def __init__(self, *, asks: bool = False) -> None:
        super().__init__(asks=asks)
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def settled(self) -> None:
        if self.future.done():
            return
        if self.rejections:
            self.failed(SendRejected(self.rejections))
        else:
            self.future.set_result(None)

    def failed(self, error: Exception) -> None:
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # whoever still waits raises it; asyncio misses nobody who has gone


class Client:
    """One application's session at its node. Use it on one event loop, as an async context manager.

    `session`: the identity; several connections may share it. Fresh unless given.
    `producer`: names the numbered stream of sends across connections and runs; fresh unless given.
    `secret`: where the node has one. `account`, `password`: instead of it, what the node knows this
    application by. `timeout`: seconds for the first connection, and for the last
    confirmations when closing. `window_messages`, `window_bytes`: how much may be unconfirmed.
    `keep_alive`: seconds of silence after which the node is asked for a sign of life.
    `tls`: a context for https and wss; or just `ca`, the authority's file, and where a client certificate
    proves the application `certificate` and `key`, its files (one file may hold both). Each connection
    reads the files again.
    `on_connected(node)`, `on_lost(error)`: called on the loop after each login, and after each connection
    that broke.

    Wrinkle: of several addresses another is tried where one does not answer. Nodes do not share what they
    know of a producer: what one of them had taken and not confirmed is sent to the next as well. A `producer`
    with a name counts at one node, so all its addresses have to be that node's.
    """

    def __init__(
        self,
        address: str | Sequence[str],
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
        on_connected: Callable[[str], object] | None = None,
        on_lost: Callable[[Exception], object] | None = None,
    ) -> None:
        at_least(0.001, timeout=timeout, keep_alive=keep_alive)
        whole(1, window_messages=window_messages, window_bytes=window_bytes)
        for option, given in (("session", session), ("producer", producer or ""), ("account", account)):
            text(option, given)
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
        self._place = NodePlace("", account, (password if account else secret) or "", ca, certificate, key)
        self._session = Session(
            session_uris(address),
            Login(VERSION, self.name, self._place.secret, self.producer, account),
            self._outbox,
            timeout=timeout,
            keep_alive=keep_alive,
            context=(lambda: tls) if tls else TlsFiles(ca, certificate, key).context,
            watch=ConnectionWatch(on_connected, on_lost),
            stays=bool(producer),
        )

    def __repr__(self) -> str:
        session = self._session
        return f"<Client {self.name} at {session.uri} {session.state}, {self._outbox.messages} unconfirmed>"

    @property
    def node(self) -> str:
        """Name of the node that the client is, or was last, connected to."""
        return self._session.node

    @property
    def place(self) -> NodePlace:
        """Where the node is, and how this client proves itself there: for the process beside a channel."""
        return self._place._replace(uri=self._session.uri)

    @property
    def state(self) -> str:
        """'connected', 'not connected' (it tries again by itself), 'closed', or 'not open' yet."""
        return self._session.state

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
                    await self.flush(timeout=self._timeout)
                await self._send_rest()
        finally:
            await self._session.close()
        if wait and self._outbox.messages:
            raise Unconfirmed(self._outbox.messages)

    async def _send_rest(self) -> None:
        """The last acknowledgements."""
        with contextlib.suppress(ConnectFailed, TimeoutError):
            async with asyncio.timeout(self._timeout):
                await self._session.send_rest()

    # --- sending

    async def send(
        self,
        destination: Destination | str,
        payload: bytes | str,
        *,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> Reach | None:
        """Send one message and wait until the node has it on disk, `timeout` seconds at most. Returns how far
        a topic's message goes from there; None for a queue's, and of an older node.

        `destination`: 'queue:NAME', 'queue:NAME@NODE', 'topic:PATTERN'. Options: see `SendOptions`. Raises
        `SendRejected`; `SendTimeout`, which says whether it may have been sent; and `TypeError` or
        `ValueError` for a message that no node would read. A wait that is cancelled takes the message back
        where it has not been sent.
        """
        route, message = _message(destination, payload, options)
        waiter = _Waiter(asks=True)
        async with self._waits(waiter, timeout):
            await self._room()
            self._outbox.add(route, message, waiter)
            waiter.end()
            self._session.work()
            await waiter.future
        said = waiter.matched
        return Reach(said.readers, said.onward, said.passed_by, said.scope) if said else None

    @contextlib.asynccontextmanager
    async def _waits(self, waiter: _Waiter, timeout: float | None) -> AsyncIterator[None]:
        """A wait that is given up takes back what has not been sent."""
        limit = asyncio.timeout(seconds("timeout", timeout))
        try:
            async with limit:
                yield
        except (TimeoutError, asyncio.CancelledError) as error:
            if limit.expired() and waiter.future.done() and not waiter.future.cancelled():
                waiter.future.result()  # its end came in the same moment
                return
            unsent = self._outbox.withdraw(waiter)
            waiter.future.cancel()
            self._session.moved()
            if limit.expired():
                raise SendTimeout(timeout or 0.0, sent=not unsent) from None
            if not unsent:
                error.add_note("the message was sent, and may be taken")
            raise

    async def publish(
        self,
        destination: Destination | str,
        payload: bytes | str,
        *,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send one message without waiting for its confirmation, but for room in the window.

        Waits for that `timeout` seconds at most. `flush` waits for all, and tells what was rejected. Options
        and errors as of `send`.
        """
        route, message = _message(destination, payload, options)
        await self._room(seconds("timeout", timeout))
        self._outbox.add(route, message)
        self._session.work()

    def seal(self) -> int:
        """Number everything that was published so far; returns the producer's last number.

        Between two calls, numbers follow the order of publishing within one destination only.
        """
        return self._outbox.seal()

    async def flush(self, *, timeout: float | None = None) -> None:
        """Wait until everything published is confirmed, `timeout` seconds at most.

        Raises `SendRejected` for what was not taken, `Unconfirmed` if the confirmations did not come.
        """
        limit, outbox = seconds("timeout", timeout), self._outbox
        self._session.check_open()
        target = outbox.seal()
        self._session.work()
        async with within(limit, lambda _: Unconfirmed(outbox.messages)):
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
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send many messages to one destination, the fast way, and wait until all are on disk, `timeout`
        seconds at most.

        `wait=False`: like `publish`. The options hold for each, see `send`; so do the errors.
        """
        route, shared = _route(destination, dict(options))
        given = payloads_of(payloads)
        prepared = list(bodies(given, shared))
        for body, _ in prepared:
            _check_size(body)
        waiter = _Waiter()
        async with self._waits(waiter, timeout):
            for body, number in prepared:
                await self._room()
                self._outbox.add_body(route, body, number, waiter if wait else None)
                waiter.is_sent = waiter.is_sent or not wait
                self._session.work()
            waiter.end()
            await waiter.future

    async def _room(self, limit: float | None = None) -> None:
        """Wait until the window has room, `limit` seconds at most; now and then let others run."""
        if not self._outbox.has_room:
            async with within(limit, partial(SendTimeout, sent=False)):
                while not self._outbox.has_room and self._session.is_open:
                    await self._session.wait_moved()
        self._session.check_open()
        if self._outbox.total - self._rested > _YIELD_BYTES:
            self._rested = self._outbox.total
            await asyncio.sleep(0)

    # --- queues and subscriptions

    async def create(self, name: str = "", *, home: bool = False, timeout: float | None = None) -> str:
        """Make a queue and return its name. '' = a transient one with a fresh name, for replies.

        One that exists is no error. Raises `RequestFailed`, or `RequestTimeout` after `timeout` seconds.
        """
        text("name", name)
        flag("home", home)
        what = f"creating queue {name or '(transient)'}"
        return await self._request(what, lambda number: Create(number, name, home), timeout)

    async def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a queue with all its messages; its subscriptions end. It takes the right to make it; a
        transient one is its own session's alone.

        Raises `RequestFailed` (`NOT_FOUND`: there is none), `NotKnown` of an older node, or `RequestTimeout`.
        """
        text("name", name)
        self._session.check_open()
        if not self._session.deletes:
            raise NotKnown(f"node {self.node} is of a version in which only an operator deletes queues")
        await self._request(f"deleting queue {name}", lambda number: Delete(number, name), timeout)

    async def _request(self, what: str, frame_of: Callable[[int], ClientFrame], timeout: float | None) -> str:
        self._session.check_open()
        async with within(seconds("timeout", timeout), partial(RequestTimeout, what)):
            return await self._session.request(what, frame_of)

    def subscribe(
        self, destination: Destination | str, *, credit: int = 2000, durable: str = "", auto_ack: bool = False
    ) -> Subscription:
        """Read a queue or a topic pattern: `async for delivery in client.subscribe(...)`.

        `credit`: messages that may be unacknowledged at once. `durable`: (topics) a name under which the
        subscription outlives the session. `auto_ack`: a delivery is acknowledged when the next is asked
        for; else call `delivery.ack()`. Raises `RequestFailed` when iterated, if the node refuses.
        """
        self._session.check_open()
        whole(1, credit=credit)
        text("durable", durable)
        flag("auto_ack", auto_ack)
        where = destination_of(destination)
        return self._session.subscribe(where, credit, durable, auto_ack)

    async def end_subscription(self, durable: str, *, timeout: float | None = None) -> None:
        """End this session's durable subscription of that name for good, with all that waits for it.

        Raises `RequestFailed`: there is none; `RequestTimeout` after `timeout` seconds.
        """
        what = f"ending the durable subscription {text('durable', durable)}"
        await self._request(what, lambda number: EndSubscription(number, durable), timeout)


def _route(destination: Destination | str, options: dict[str, Any]) -> tuple[FrameRoute, Properties | None]:
    """The route of a message, and its properties; what is sent within a task belongs to it."""
    where = destination_of(destination)
    task = current_task.get()
    if task:
        options.setdefault("task_id", task)
    if not options:
        return FrameRoute(where), None
    route = FrameRoute(
        where,
        flag("persistent", options.pop("persistent", True)),
        flag("retained", options.pop("retained", False)),
        scope_of(options.pop("scope", -1)),
        flag("tell", options.pop("tell", False)),
    )
    check_notice(where, route.tell, options.get("reply_to"))
    return route, properties_of(**options) if options else None


def _message(
    destination: Destination | str, payload: bytes | str, options: SendOptions
) -> tuple[FrameRoute, bytes]:
    route, properties = _route(destination, dict(options))
    message = encode_message(payload_of(payload), properties)
    _check_size(message)
    return route, message


def _check_size(body: bytes) -> None:
    """A packet that no node reads would end each connection on which it is sent."""
    if len(body) > _LARGEST_BODY:
        text = f"{len(body)} bytes: a session takes messages of at most {_LARGEST_BODY}"
        raise SendRejected([Rejection(0, 0, "TOO_LARGE", text)])
