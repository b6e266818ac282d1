"""The session behind a client: one connection after the other, and what has to be said again on each.

Everything that the node and the client say to each other passes here; the bookkeeping is in `outbox`,
`inbox` and `subscription`, which do no I/O.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Sequence
from itertools import count
from typing import Final, assert_never

from sapwood.connection_watch import ConnectionWatch
from sapwood.errors import (
    ClientClosed,
    ClientError,
    ConnectFailed,
    NotKnown,
    Rejection,
    RequestFailed,
    SessionRefused,
)
from sapwood.inbox import Acks
from sapwood.outbox import Outbox
from sapwood.protocol import packets
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import FrameError
from sapwood.protocol.session_frames import (
    Acknowledge,
    ClientFrame,
    Confirm,
    Deliver,
    Done,
    Failed,
    Forget,
    Login,
    Matched,
    NodeFrame,
    ReadingEnded,
    RefuseDelivery,
    Reject,
    SessionPing,
    SessionPong,
    Subscribe,
    Unsubscribe,
    Welcome,
    decode_node_packet,
    encode,
)
from sapwood.socket import Socket, open_socket
from sapwood.subscription import Subscription
from sapwood.waits import within

_log = logging.getLogger("sapwood.session")
_PACKET_BYTES: Final = 1024 * 1024
_MOST_SAID: Final = 300
_FIRST_PAUSE: Final = 0.05  # seconds between two attempts; each is twice the one before, up to
_LONGEST_PAUSE: Final = 5.0
_FINAL_CODES: Final = frozenset({"REFUSED", "BAD_REQUEST", "NOT_LOGGED_IN"})


class Session:
    """See the module. `timeout`, `keep_alive`: seconds. After `finish`, everything raises its error.

    `uris`: of the node, or of several; where one does not answer, the next is tried. `stays`: they are all to
    be of one node.
    """

    def __init__(
        self,
        uris: Sequence[str],
        login: Login,
        outbox: Outbox,
        *,
        timeout: float,
        keep_alive: float,
        context: Callable[[], ssl.SSLContext | None],
        watch: ConnectionWatch,
        stays: bool = False,
    ) -> None:
        if not uris:
            raise ValueError("no address of a node: expected one or more")
        self._uris = list(uris)
        self._watch = watch
        self.outbox = outbox
        self.acks = Acks()
        self.node = ""
        self._store: tuple[str, bytes] | None = None
        self._stays = stays
        self.committed = 0
        self._refuses = self._returns = self._forgets = self.deletes = False
        self.error: ClientError | None = None
        self._login = login
        self._timeout = timeout
        self._keep_alive = keep_alive
        self._context = context
        self._requests: dict[int, tuple[str, bytes, asyncio.Future[str]]] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._asked: dict[int, Subscription] = {}
        self._numbers = count(1)
        self._loose: list[bytes] = []
        self._work = asyncio.Event()
        self._moved = asyncio.Event()
        self._socket: Socket | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def uri(self) -> str:
        """Of the node that is connected, or tried next."""
        return self._uris[0]

    @property
    def state(self) -> str:
        if self.error:
            return "closed"
        if not self._task:
            return "not open"
        return "connected" if self._socket else "not connected"

    @property
    def is_open(self) -> bool:
        return self._task is not None and self.error is None

    def check_open(self) -> None:
        """Raise what ended the session, or `ClientClosed` if it was never opened."""
        if self.error:
            raise self.error
        if not self._task:
            raise ClientClosed("this client is not open: use it within `async with connect(...)`")
        if self._task.get_loop() is not asyncio.get_running_loop():
            raise RuntimeError("this client is of another event loop: connect anew on this one")

    async def open(self) -> None:
        """Connect, within `timeout`. Raises `ConnectFailed` or `SessionRefused`."""
        if self._task or self.error:
            raise ClientClosed("this client was opened before: make a new one with `connect`")
        text = f"none of {', '.join(self._uris)} answered within {self._timeout:g} s"
        async with within(self._timeout if len(self._uris) > 1 else None, lambda _: ConnectFailed(text)):
            await self._connect(self._timeout)
        self._task = asyncio.create_task(self._run(), name=f"sapwood session at {self.uri}")

    async def close(self) -> None:
        """End the connection; who still waits gets `ClientClosed`."""
        self.finish(ClientClosed("this client was closed"))
        task, self._task = self._task, None
        try:
            if task:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        finally:  # also where this wait is cancelled: the line would stay for good
            socket, self._socket = self._socket, None
            if socket:
                await socket.close()

    async def send_rest(self) -> None:
        """Say on the line, if there is one, what is left, and that nobody goes on. Raises `ConnectFailed`."""
        if self._forgets and not (self._stays or self.outbox.messages):
            self._say(encode(Forget()))
        if self._socket:
            await self._write_once(self._socket)

    def finish(self, error: ClientError) -> None:
        """Nothing goes any more: everybody who waits gets `error`."""
        self.error = self.error or error
        self._moved.set()
        for subscription in self._subscriptions.values():
            subscription.failed(self.error)
        for _what, _frame, future in self._requests.values():
            if not future.done():
                future.set_exception(self.error)
        self._requests.clear()
        self.outbox.fail(self.error)

    # --- for the client

    def work(self) -> None:
        """There is something to write."""
        self._work.set()

    def moved(self) -> None:
        """There may be room, or news: whoever waits looks again."""
        self._moved.set()

    async def wait_moved(self) -> None:
        """Wait until the node has said something. Raises what ended the session."""
        self._moved.clear()
        await self._moved.wait()
        if self.error:
            raise self.error

    async def request(self, what: str, frame_of: Callable[[int], ClientFrame]) -> str:
        """Ask, also on the next connection if this one is lost. Raises `RequestFailed`."""
        number = next(self._numbers)
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        frame = encode(frame_of(number))
        self._requests[number] = (what, frame, future)
        self._say(frame)
        try:
            return await future
        finally:
            self._requests.pop(number, None)

    def subscribe(self, destination: Destination, credit: int, durable: str, auto_ack: bool) -> Subscription:
        number = next(self._numbers)
        subscription = Subscription(
            number,
            destination,
            credit,
            durable,
            auto_ack,
            self.acks,
            self._work.set,
            self._leave,
            self._refuse,
            self._give_back,
        )
        self._subscriptions[number] = subscription
        self._say(self._ask(subscription))
        return subscription

    def _ask(self, subscription: Subscription) -> bytes:
        request = next(self._numbers)
        self._asked[request] = subscription
        number, where = subscription.number, subscription.destination
        return encode(Subscribe(request, number, where, subscription.credit, subscription.durable))

    def _leave(self, subscription: Subscription) -> None:
        """Unsubscribe."""
        if self._subscriptions.pop(subscription.number, None):
            self._say(encode(Unsubscribe(next(self._numbers), subscription.number)))

    def _refuse(self, first: int, last: int, reason: str) -> None:
        """Give messages up. An older node does not know that: it gives them to others, and counts."""
        _log.warning("! messages %d to %d are given up: %s", first, last, reason)
        if self._refuses:
            self._say(encode(RefuseDelivery(first, last, reason[:_MOST_SAID])))

    def _give_back(self, transfer_id: int) -> None:
        """Raises `NotKnown`: an older node would take it for a dead letter."""
        if not self._returns:
            raise NotKnown(
                f"node {self.node} is of a version that takes no message back: ack it, or reject it"
            )
        self._say(encode(RefuseDelivery(transfer_id, transfer_id, "", True)))

    def _say(self, frame: bytes) -> None:
        self._loose.append(frame)
        self._work.set()

    # --- the connection

    async def _run(self) -> None:
        """Serve one connection after the other until the client is closed or refused."""
        loop = asyncio.get_running_loop()
        try:
            while self._socket:
                error = await self._serve(self._socket)
                await self._socket.close()
                self._socket = None
                for subscription in self._subscriptions.values():
                    subscription.forget_waiting()
                await asyncio.sleep(self._watch.lost(error, loop.time(), self.committed))
                await self._connect(None)
        except ClientError as refused:
            _log.error("! the session with %s is over: %s", self.uri, refused)
            self.finish(refused)
        except Exception as fault:
            _log.exception("! the client ends for a fault of its own: please report this")
            self.finish(ClientClosed(f"the client ended for a fault of its own: {fault!r}"))

    async def _connect(self, seconds: float | None) -> None:
        """Try until it works, `seconds` at most; None = for ever."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        pause = _FIRST_PAUSE
        while True:
            try:
                self._socket = await self._log_in_anywhere()
                break
            except ConnectFailed:
                if end is not None and loop.time() >= end:
                    raise
            await asyncio.sleep(pause + random.uniform(0, 0.1))
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._watch.connected(self.node, self.uri, loop.time(), self.committed)

    async def _log_in_anywhere(self) -> Socket:
        """At the first address that answers, which is the first from then on. Raises the last's error."""
        failed: ConnectFailed | None = None
        for _ in self._uris:
            try:
                return await self._log_in()
            except ConnectFailed as error:
                failed = error
                self._uris.append(self._uris.pop(0))
        assert failed is not None
        raise failed

    async def _log_in(self) -> Socket:
        socket = await open_socket(self.uri, self._context(), self._timeout)
        try:
            await socket.send(packets.packet([encode(self._login)]))
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
            raise ConnectFailed(f"{self.uri} answered the login with {type(frame).__name__}, not Welcome")
        self._meet((frame.node, frame.store))
        rejected = [Rejection(each.first, each.last, each.code, each.text) for each in frame.rejected]
        if not self.outbox.begin(frame.last, rejected):
            raise SessionRefused(
                "PRODUCER_IN_USE",
                f"another client sends as producer {self._login.producer!r}: give each its own",
            )
        self.node, self.committed = frame.node, frame.last
        self._refuses, self._returns, self._forgets = frame.refuses, frame.returns, frame.forgets
        self.deletes = frame.deletes
        self._asked.clear()
        self._loose = [self._ask(subscription) for subscription in self._subscriptions.values()]
        self._loose += [frame for _what, frame, _future in self._requests.values()]
        self._work.set()
        self._moved.set()

    def _meet(self, store: tuple[str, bytes]) -> None:
        """Transfer ids, and the numbers of a producer with a name, count in one node's store only."""
        if self._store not in (None, store):
            if self._stays and store[0] != self.node:
                name = self._login.producer
                raise ConnectFailed(f"{self.uri} is node {store[0]}: producer {name!r} counts at {self.node}")
            self.acks.take()
            for subscription in self._subscriptions.values():
                subscription.move()
        self._store = store

    async def _serve(self, socket: Socket) -> Exception:
        """Read, write and probe until one of them fails; returns why. Raises what is no fault of the line."""
        loops = (self._read(socket), self._write(socket), self._probe(socket))
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        errors = [result for result in results if isinstance(result, Exception)]
        for error in errors:
            if not isinstance(error, ConnectFailed | FrameError):
                raise error
        return errors[0] if errors else ConnectFailed(f"{self.uri} ended the connection")

    async def _read(self, socket: Socket) -> None:
        while True:
            for frame in _decode(await socket.receive()):
                self._handle(frame)
            self._moved.set()
            if self.outbox.has_unsent:  # it may have waited for a confirmation
                self._work.set()

    async def _write(self, socket: Socket) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            await self._write_once(socket)

    async def _write_once(self, socket: Socket) -> None:
        """Acknowledgements first: what is given back, or read no more, would else come again."""
        encoded = [encode(Acknowledge(ranges)) for ranges in self.acks.take()]
        encoded += self._loose
        encoded += self.outbox.frames_to_send()
        self._loose = []
        for packet in packets.packets(encoded, _PACKET_BYTES):
            await socket.send(packet)

    async def _probe(self, socket: Socket) -> None:
        """After silence ask for a sign of life; after more silence the connection is dead."""
        while True:
            if await socket.is_silent(self._keep_alive):
                self._say(encode(SessionPing(next(self._numbers))))
                if await socket.is_silent(self._keep_alive):
                    raise ConnectFailed(f"{self.uri} has been silent for {2 * self._keep_alive:g} s")

    def _handle(self, frame: NodeFrame) -> None:
        match frame:
            case Deliver():
                subscription = self._subscriptions.get(frame.subscription)
                if subscription:
                    subscription.arrived(frame)
            case Confirm():
                self.outbox.confirm(frame.through)
                self.committed = self.outbox.settled_through
            case Reject():
                self.outbox.reject(Rejection(frame.first, frame.last, frame.code, frame.text))
            case Done() | Failed():
                self._answered(frame)
            case ReadingEnded(number, code, text):
                if ended := self._subscriptions.pop(number, None):
                    ended.failed(RequestFailed(f"the subscription to {ended.destination}", code, text))
            case Matched():
                self.outbox.matched(frame)
            case SessionPong() | Welcome():
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
        what = f"subscribing to {subscription.destination}"
        subscription.failed(RequestFailed(what, frame.code, frame.text))


def _decode(packets: list[bytes]) -> list[NodeFrame]:
    if len(packets) == 1:
        return decode_node_packet(packets[0])
    return [frame for packet in packets for frame in decode_node_packet(packet)]
