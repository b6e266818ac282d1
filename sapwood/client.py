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
from itertools import count
from typing import Any, Final, Self, assert_never

from sapwood.address import session_uri
from sapwood.errors import (
    ClientClosed,
    ClientError,
    ConnectFailed,
    Rejection,
    RequestFailed,
    SendRejected,
    SessionRefused,
    Unconfirmed,
)
from sapwood.inbox import Acks
from sapwood.outbox import Call, Item, Outbox, Route, chunks
from sapwood.socket import Socket, open_socket
from sapwood.subscription import Subscription
from treeconnector import frames
from treeconnector.bundles import Properties
from treeconnector.destinations import Destination, parse
from treeconnector.errors import FrameError
from treeconnector.session_frames import (
    VERSION,
    Acknowledge,
    Confirm,
    Create,
    Deliver,
    Done,
    Failed,
    Login,
    NodeFrame,
    Ping,
    Pong,
    Reject,
    Subscribe,
    Unsubscribe,
    Welcome,
    decode_node_packet,
    encode,
)

DEFAULT_ADDRESS: Final = "http://127.0.0.1:7600"
_PACKET_BYTES: Final = 1024 * 1024
_YIELD_BYTES: Final = 512 * 1024
_FINAL_CODES: Final = frozenset({"REFUSED", "BAD_REQUEST", "NOT_LOGGED_IN"})
_parse = lru_cache(maxsize=4096)(parse)


def connect(address: str = DEFAULT_ADDRESS, *, session: str = "", **options: Any) -> "Client":
    """A client of the node at `address` (http, https, ws or wss; port 7600 unless given).

    Use it as `async with connect(...) as client`. For the options see `Client`.
    """
    return Client(address, session=session, **options)


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
    `secret`: where the node has one. `timeout`: seconds for the first connection, and for the last
    confirmations when closing. `window_messages`, `window_bytes`: how much may be unconfirmed.
    `keep_alive`: seconds of silence after which the node is asked for a sign of life.
    `tls`: a context for https and wss; `ca`: or just the authority's file.
    """

    def __init__(
        self,
        address: str,
        *,
        session: str = "",
        secret: str | None = None,
        producer: str | None = None,
        timeout: float = 10.0,
        window_messages: int = 65_536,
        window_bytes: int = 32 * 1024 * 1024,
        keep_alive: float = 15.0,
        tls: ssl.SSLContext | None = None,
        ca: str | None = None,
    ) -> None:
        fresh = uuid.uuid4().hex
        self.uri = session_uri(address)
        self.session = session or f"session-{fresh}"
        self.producer = f"{self.session}-{fresh}" if producer is None else producer
        self.node = ""
        self.committed = 0
        self._secret = secret or ""
        self._timeout = timeout
        self._keep_alive = keep_alive
        self._context = tls or (ssl.create_default_context(cafile=ca) if ca else None)
        self._outbox = Outbox(window_messages, window_bytes)
        self._acks = Acks()
        self._requests: dict[int, tuple[str, bytes, asyncio.Future[str]]] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._asked: dict[int, Subscription] = {}
        self._numbers = count(1)
        self._loose: list[bytes] = []
        self._work = asyncio.Event()
        self._moved = asyncio.Event()
        self._rested = 0
        self._heard = False
        self._socket: Socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: ClientError | None = None

    def __repr__(self) -> str:
        state = "closed" if self._error else "connected" if self._socket else "not connected"
        return f"<Client {self.session} at {self.uri} {state}, {self._outbox.messages} unconfirmed>"

    # --- life

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.close(wait=kind is None)

    async def open(self) -> Self:
        """Connect, within `timeout`. Raises `ConnectFailed` or `SessionRefused`."""
        if self._task or self._error:
            raise ClientClosed("this client was opened before: make a new one with `connect`")
        await self._connect(self._timeout)
        self._task = asyncio.create_task(self._run(), name=f"sapwood client {self.session}")
        return self

    async def close(self, *, wait: bool = True) -> None:
        """Wait for the last confirmations (if `wait`, `timeout` seconds), and end. Idempotent.

        Raises `Unconfirmed` if they did not come, `SendRejected` for published messages not taken.
        """
        if not self._task:
            return
        task = self._task
        try:
            if wait and not self._error:
                await self._flush_within(self._timeout)
            await self._send_rest()
        finally:
            self._task = None
            self._finish(ClientClosed("this client was closed"))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if self._socket:
                await self._socket.close()
                self._socket = None

    async def _flush_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.flush()
        except TimeoutError:
            raise Unconfirmed(self._outbox.messages) from None

    async def _send_rest(self) -> None:
        """Give the last acknowledgements to the line, if there is one."""
        with contextlib.suppress(ConnectFailed, TimeoutError):
            async with asyncio.timeout(self._timeout):
                if self._socket and self._acks:
                    await self._write_once(self._socket)

    def _finish(self, error: ClientError) -> None:
        """Nothing goes any more: everybody who waits gets `error`."""
        self._error = self._error or error
        self._moved.set()
        for subscription in self._subscriptions.values():
            subscription.failed(self._error)
        for _what, _frame, future in self._requests.values():
            if not future.done():
                future.set_exception(self._error)
        self._requests.clear()
        self._outbox.fail(self._error)

    # --- sending

    async def send(self, destination: Destination | str, payload: bytes | str, **properties: Any) -> None:
        """Send one message and wait until the node has it on disk.

        `destination`: 'queue:NAME', 'queue:NAME@NODE', 'topic:PATTERN'. Properties: those of
        `treeconnector.bundles.Properties`, and `persistent`, `retained`, `scope` (0 vertical, 1 tree).
        Raises `SendRejected`.
        """
        waiter = _Waiter()
        await self._room()
        self._outbox.add(*_message(destination, payload, properties), waiter)
        waiter.end()
        self._work.set()
        await waiter.future

    async def publish(self, destination: Destination | str, payload: bytes | str, **properties: Any) -> None:
        """Send one message without waiting for its confirmation, but for room in the window.

        `flush` waits for all, and tells what was rejected.
        """
        await self._room()
        self._outbox.add(*_message(destination, payload, properties))
        self._work.set()

    async def flush(self) -> None:
        """Wait until everything published is confirmed. Raises `SendRejected` for what was not taken."""
        self._check_open()
        outbox = self._outbox
        target = outbox.seal()
        self._work.set()
        while outbox.settled_through < target:
            await self._wait_moved()
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
        shared = Properties(**properties) if properties else None
        items: list[Item] = [(p,) for p in payloads] if shared is None else [(p, shared) for p in payloads]
        waiter = _Waiter() if wait else Call()
        for part, size in chunks(items):
            await self._room()
            self._outbox.add_many(route, part, size, waiter)
            self._work.set()
        waiter.end()
        if isinstance(waiter, _Waiter):
            await waiter.future

    async def _room(self) -> None:
        """Wait until the window has room; now and then let others run."""
        while not self._outbox.has_room and not self._error:
            await self._wait_moved()
        self._check_open()
        if self._outbox.total - self._rested > _YIELD_BYTES:
            self._rested = self._outbox.total
            await asyncio.sleep(0)

    async def _wait_moved(self) -> None:
        self._moved.clear()
        await self._moved.wait()
        if self._error:
            raise self._error

    def _check_open(self) -> None:
        if self._error:
            raise self._error
        if not self._task:
            raise ClientClosed("this client is not open: use it within `async with connect(...)`")

    # --- queues and subscriptions

    async def create(self, name: str = "", *, home: bool = False) -> str:
        """Make a queue and return its name. '' = a transient one with a fresh name, for replies.

        One that exists is no error. Raises `RequestFailed`.
        """
        self._check_open()
        number = next(self._numbers)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        frame = encode(Create(number, name, home))
        self._requests[number] = (f"creating queue {name or '(transient)'}", frame, future)
        self._say(frame)
        try:
            return await future
        finally:
            self._requests.pop(number, None)

    def subscribe(
        self, destination: Destination | str, *, credit: int = 2000, durable: str = "", auto_ack: bool = False
    ) -> Subscription:
        """Read a queue or a topic pattern: `async for delivery in client.subscribe(...)`.

        `credit`: messages that may be unacknowledged at once. `durable`: (topics) a name under which the
        subscription outlives the session. `auto_ack`: a delivery is acknowledged when the next is asked
        for; else call `delivery.ack()`. Raises `RequestFailed` when iterated, if the node refuses.
        """
        self._check_open()
        if credit < 1:
            raise ValueError(f"a credit of {credit} messages: expected 1 or more")
        where = _parse(destination) if isinstance(destination, str) else destination
        number = next(self._numbers)
        subscription = Subscription(
            number, where, credit, durable, auto_ack, self._acks, self._work.set, self._leave
        )
        self._subscriptions[number] = subscription
        self._say(self._ask(subscription))
        return subscription

    def _ask(self, subscription: Subscription) -> bytes:
        request = next(self._numbers)
        self._asked[request] = subscription
        return encode(
            Subscribe(
                request,
                subscription.number,
                subscription.destination,
                subscription.credit,
                subscription.durable,
            )
        )

    def _leave(self, subscription: Subscription) -> None:
        if self._subscriptions.pop(subscription.number, None):
            self._say(encode(Unsubscribe(next(self._numbers), subscription.number)))

    def _say(self, frame: bytes) -> None:
        self._loose.append(frame)
        self._work.set()

    # --- the connection

    async def _run(self) -> None:
        """Serve one connection after the other until the client is closed or refused."""
        while self._socket:
            await self._serve(self._socket)
            await self._socket.close()
            self._socket = None
            for subscription in self._subscriptions.values():
                subscription.forget_waiting()
            try:
                await self._connect(None)
            except ClientError as error:
                self._finish(error)

    async def _connect(self, seconds: float | None) -> None:
        """Try until it works, `seconds` at most; None = for ever."""
        from tenacity import (
            AsyncRetrying,
            retry_if_exception_type,
            stop_after_delay,
            stop_never,
            wait_exponential_jitter,
        )

        attempts = AsyncRetrying(
            retry=retry_if_exception_type(ConnectFailed),
            wait=wait_exponential_jitter(initial=0.05, max=10.0, jitter=0.1),
            stop=stop_never if seconds is None else stop_after_delay(seconds),
            reraise=True,
        )
        async for attempt in attempts:
            with attempt:
                self._socket = await self._log_in()

    async def _log_in(self) -> Socket:
        socket = await open_socket(self.uri, self._context, self._timeout)
        try:
            login = Login(VERSION, self.session, self._secret, self.producer)
            await socket.send(frames.packet([encode(login)]))
            async with asyncio.timeout(self._timeout):
                first, *rest = _decode(await socket.receive())
            self._welcome(first)
        except TimeoutError:
            await socket.close()
            raise ConnectFailed(f"{self.uri} did not answer the login within {self._timeout:g} s") from None
        except BaseException:
            await socket.close()
            raise
        for frame in rest:
            self._handle(frame)
        return socket

    def _welcome(self, frame: NodeFrame) -> None:
        """The node's answer to the login; then everything that has to be said again."""
        if isinstance(frame, Failed):
            if frame.code in _FINAL_CODES:
                raise SessionRefused(frame.code, frame.text)
            raise ConnectFailed(f"{self.uri} does not take the session now: {frame.text} [{frame.code}]")
        if not isinstance(frame, Welcome):
            raise ConnectFailed(
                f"{self.uri} answered the login with {type(frame).__name__}: expected Welcome"
            )
        if not self._outbox.begin(frame.last):
            raise SessionRefused(
                "PRODUCER_IN_USE", f"another client sends as producer {self.producer!r}: give each its own"
            )
        self.node, self.committed = frame.node, frame.last
        self._asked.clear()
        self._loose = [encode(Acknowledge(ranges)) for ranges in self._acks.take()]
        self._loose += [self._ask(subscription) for subscription in self._subscriptions.values()]
        self._loose += [frame for _what, frame, _future in self._requests.values()]
        self._work.set()
        self._moved.set()

    async def _serve(self, socket: Socket) -> None:
        """Read, write and probe until one of them fails."""
        loops = (self._read(socket), self._write(socket), self._probe())
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, ConnectFailed | FrameError):
                raise result

    async def _read(self, socket: Socket) -> None:
        while True:
            for frame in _decode(await socket.receive()):
                self._handle(frame)
            self._heard = True
            self._moved.set()

    async def _write(self, socket: Socket) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            await self._write_once(socket)

    async def _write_once(self, socket: Socket) -> None:
        encoded, self._loose = self._loose, []
        encoded += [encode(Acknowledge(ranges)) for ranges in self._acks.take()]
        encoded += self._outbox.frames_to_send()
        for packet in frames.packets(encoded, _PACKET_BYTES):
            await socket.send(packet)

    async def _probe(self) -> None:
        """After silence ask for a sign of life; after more silence the connection is dead."""
        while True:
            self._heard = False
            await asyncio.sleep(self._keep_alive)
            if not self._heard:
                self._say(encode(Ping(next(self._numbers))))
                await asyncio.sleep(self._keep_alive)
                if not self._heard:
                    raise ConnectFailed(f"{self.uri} has been silent for {2 * self._keep_alive:g} s")

    def _handle(self, frame: NodeFrame) -> None:
        match frame:
            case Deliver():
                subscription = self._subscriptions.get(frame.subscription)
                if subscription:
                    subscription.arrived(frame)
            case Confirm():
                self._outbox.confirm(frame.through)
                self.committed = self._outbox.settled_through
            case Reject():
                self._outbox.reject(Rejection(frame.first, frame.last, frame.code, frame.text))
            case Done() | Failed():
                self._answered(frame)
            case Pong() | Welcome():
                pass
            case _:
                assert_never(frame)

    def _answered(self, frame: Done | Failed) -> None:
        if isinstance(frame, Failed) and not frame.request:
            raise ConnectFailed(f"{self.uri} ended the session: {frame.text} [{frame.code}]")
        if subscription := self._asked.pop(frame.request, None):
            self._subscription_answered(subscription, frame)
        elif request := self._requests.pop(frame.request, None):
            what, _, future = request
            if future.done():
                return
            if isinstance(frame, Failed):
                future.set_exception(RequestFailed(what, frame.code, frame.text))
            else:
                future.set_result(frame.result)

    def _subscription_answered(self, subscription: Subscription, frame: Done | Failed) -> None:
        if isinstance(frame, Done):
            subscription.granted()
            return
        self._subscriptions.pop(subscription.number, None)
        subscription.failed(
            RequestFailed(f"subscribing to {subscription.destination}", frame.code, frame.text)
        )


def _decode(packets: list[bytes]) -> list[NodeFrame]:
    if len(packets) == 1:
        return decode_node_packet(packets[0])
    return [frame for packet in packets for frame in decode_node_packet(packet)]


def _route(destination: Destination | str, properties: dict[str, Any]) -> Route:
    """The route of a message; takes its own options out of `properties`."""
    where = _parse(destination) if isinstance(destination, str) else destination
    if not properties:
        return Route(where)
    return Route(
        where,
        properties.pop("persistent", True),
        properties.pop("retained", False),
        properties.pop("scope", -1),
    )


def _message(
    destination: Destination | str, payload: bytes | str, properties: dict[str, Any]
) -> tuple[Route, Item]:
    data = payload.encode() if isinstance(payload, str) else payload
    route = _route(destination, properties)
    return route, (data, Properties(**properties)) if properties else (data,)
