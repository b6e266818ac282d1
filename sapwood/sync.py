"""The same client for programs without asyncio: every call waits for its end.

    from sapwood import sync

    with sync.connect("http://127.0.0.1:7600", session="till-7") as client:
        client.send("queue:sales", b"...")
        level = client.rpc.call("stock", "level", article=4711, timeout=5)
        for delivery in client.subscribe("queue:prices"):
            show(delivery.payload)
            delivery.ack()

A thread of its own runs the event loop, one for each client, from `open` to `close`. Any number of threads
may use one client at once. Ctrl-C in a call ends the wait, and the call is forgotten as a cancelled one is.

Law: whatever belongs to the loop is touched on the loop only; what an application gets are values, or
wrappers that go there. The task of the calling thread (`sapwood.task`) goes with each call.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from sapwood import client as asynchronous
from sapwood.errors import ClientClosed
from sapwood.inbox import Batch, Delivery
from sapwood.interfaces import Handlers, Interface
from sapwood.rpc import DEFAULT_TIMEOUT, Rpc, Service
from sapwood.serving import Server
from sapwood.subscription import Subscription
from treeconnector.bundles import Properties
from treeconnector.destinations import Destination

if TYPE_CHECKING:
    from sapwood.journal import Journal

__all__ = ["Client", "SyncDelivery", "SyncRpc", "SyncServer", "SyncSubscription", "connect"]

Result = TypeVar("Result")
_STOP_TIME: Final = 5.0
_CANCEL_TIME: Final = 1.0


class Background:
    """An event loop in a thread. `run` waits for a coroutine there, `do` for a plain call."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The coroutine's result; if the wait is interrupted, it is cancelled. Keeps the caller's context."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("this is the client's own thread: handlers that are coroutines use `await`")
        if self._loop.is_closed():
            work.close()
            raise ClientClosed("this client was closed")
        result: Future[Result] = Future()
        context = contextvars.copy_context()
        tasks: list[asyncio.Task[None]] = []

        async def settle() -> None:
            try:
                result.set_result(await work)
            except asyncio.CancelledError:
                result.set_exception(ClientClosed("this client was closed"))
                raise
            except BaseException as error:
                result.set_exception(error)

        self._loop.call_soon_threadsafe(
            lambda: tasks.append(self._loop.create_task(settle(), context=context))
        )
        try:
            return result.result()
        except BaseException:
            if not result.done():
                self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
                wait([result], _CANCEL_TIME)
            raise

    def do(self, call: Callable[[], Result]) -> Result:
        """The result of a call that is made on the loop."""

        async def once() -> Result:
            return call()

        return self.run(once())

    def soon(self, call: Callable[[], object]) -> None:
        """Have a call made on the loop, without waiting for it."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """Cancel what still runs, and end the thread. Idempotent."""
        if self._loop.is_closed():
            return
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_TIME)
        self._loop.close()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def connect(address: str = asynchronous.DEFAULT_ADDRESS, *, session: str = "", **options: Any) -> "Client":
    """A client of the node at `address`, to be used with `with`. Options as of `sapwood.connect`."""
    return Client(address, session=session, **options)


class Client:
    """One application's session at its node, for any number of threads. See `sapwood.Client` for options."""

    def __init__(self, address: str, **options: Any) -> None:
        self._address = address
        self._options = options
        self._background: Background | None = None
        self._client: asynchronous.Client | None = None
        self._rpc: SyncRpc | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<sync {self._client!r}>" if self._client else f"<sync Client at {self._address}, not open>"

    # --- life

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(wait=kind is None)

    def open(self) -> Self:
        """Connect. Raises `ConnectFailed` or `SessionRefused`."""
        if self._background is not None:
            raise ClientClosed("this client was opened before: make a new one with `connect`")
        background = self._background = Background(f"sapwood client of {self._address}")
        try:
            self._client = background.do(lambda: asynchronous.Client(self._address, **self._options))
            background.run(self._client.open())
        except BaseException:
            background.stop()
            raise
        return self

    def close(self, *, wait: bool = True) -> None:
        """Wait for the last confirmations (if `wait`), and end. Raises as `sapwood.Client.close` does."""
        background, client = self._background, self._client
        if background is None or client is None:
            return
        try:
            if self._rpc is not None:
                self._rpc.close()
            self._client = None
            background.run(client.close(wait=wait))
        finally:
            background.stop()

    @property
    def asynchronous(self) -> asynchronous.Client:
        """The client behind; only to be used on its own loop."""
        if self._client is None:
            raise ClientClosed("this client is not open: use it within `with connect(...)`")
        return self._client

    @property
    def background(self) -> Background:
        if self._background is None or self._client is None:
            raise ClientClosed("this client is not open: use it within `with connect(...)`")
        return self._background

    @property
    def node(self) -> str:
        """Name of the node that the client is, or was last, connected to."""
        return self.asynchronous.node

    @property
    def committed(self) -> int:
        """Number of this producer's last message that is on disk at the node, or was rejected."""
        return self.asynchronous.committed

    @property
    def rpc(self) -> "SyncRpc":
        """Calls and servers over this client, with the default timeout."""
        with self._lock:
            if self._rpc is None:
                self._rpc = SyncRpc(self)
            return self._rpc

    # --- messages

    def send(self, destination: Destination | str, payload: bytes | str, **properties: Any) -> None:
        """Send one message and wait until the node has it on disk."""
        self.background.run(self.asynchronous.send(destination, payload, **properties))

    def publish(self, destination: Destination | str, payload: bytes | str, **properties: Any) -> None:
        """Send one message, waiting for room in the window only; `flush` waits for all."""
        self.background.run(self.asynchronous.publish(destination, payload, **properties))

    def flush(self) -> None:
        """Wait until everything published is confirmed. Raises `SendRejected` for what was not taken."""
        self.background.run(self.asynchronous.flush())

    def send_many(
        self,
        destination: Destination | str,
        payloads: Iterable[bytes],
        *,
        wait: bool = True,
        **properties: Any,
    ) -> None:
        """Send many messages to one destination, and wait until all are on disk."""
        work = self.asynchronous.send_many(destination, list(payloads), wait=wait, **properties)
        self.background.run(work)

    def publish_journal(self, journal: "Journal") -> int:
        """Send everything that waits in a journal, until the node has it all; returns how many entries."""
        return self.background.run(journal.publish(self.asynchronous))

    def create(self, name: str = "", *, home: bool = False) -> str:
        """Make a queue and return its name. '' = a transient one with a fresh name, for replies."""
        return self.background.run(self.asynchronous.create(name, home=home))

    def subscribe(
        self, destination: Destination | str, *, credit: int = 2000, durable: str = ""
    ) -> "SyncSubscription":
        """Read a queue or a topic pattern: `for delivery in client.subscribe(...)`."""

        async def ask() -> Subscription:
            made = self.asynchronous.subscribe(destination, credit=credit, durable=durable)
            return await made.ready()

        return SyncSubscription(self.background, self.background.run(ask()))


class SyncDelivery:
    """A `Delivery` for any thread."""

    __slots__ = ("_background", "_delivery")

    def __init__(self, background: Background, delivery: Delivery) -> None:
        self._background = background
        self._delivery = delivery

    def __repr__(self) -> str:
        return repr(self._delivery)

    @property
    def payload(self) -> bytes:
        return self._delivery.payload

    @property
    def properties(self) -> Properties:
        return self._delivery.properties

    @property
    def destination(self) -> Destination:
        return self._delivery.destination

    @property
    def redelivered(self) -> bool:
        return self._delivery.redelivered

    @property
    def message_id(self) -> str:
        return self._delivery.message_id

    @property
    def key(self) -> str:
        return self._delivery.key

    @property
    def origin(self) -> str:
        return self._delivery.origin

    @property
    def notice(self) -> bool:
        return self._delivery.notice

    def ack(self) -> None:
        """Say that this message is dealt with: the node forgets it."""
        self._background.soon(self._delivery.ack)

    def reject(self, reason: str = "") -> None:
        """Say that nobody can deal with this message: it becomes a dead letter, with the reason."""
        self._background.soon(lambda: self._delivery.reject(reason))


class SyncSubscription:
    """Deliveries, one after the other; `next(timeout)` waits no longer. One thread iterates it."""

    def __init__(self, background: Background, subscription: Subscription) -> None:
        self._background = background
        self._subscription = subscription
        self._current: Iterator[Delivery] = iter(())

    def __repr__(self) -> str:
        return f"<sync {self._subscription!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[SyncDelivery]:
        return self

    def __next__(self) -> SyncDelivery:
        found = self.next()
        if found is None:
            raise StopIteration
        return found

    def next(self, timeout: float | None = None) -> SyncDelivery | None:
        """The next message; None if none came within `timeout` seconds, or the subscription was closed."""
        delivery = next(self._current, None)
        while delivery is None:
            batch = self._background.run(self._fetch(timeout))
            if batch is None:
                return None
            self._current = iter(batch)
            delivery = next(self._current, None)
        return SyncDelivery(self._background, delivery)

    async def _fetch(self, timeout: float | None) -> Batch | None:
        try:
            async with asyncio.timeout(timeout):
                return await self._subscription.next_batch()
        except (TimeoutError, StopAsyncIteration):
            return None

    def close(self) -> None:
        """End it. What was not acknowledged is given to other readers."""
        self._background.do(self._subscription.close)


class SyncRpc:
    """Calls and serves over a client. `timeout`: seconds that a call waits unless it says otherwise."""

    def __init__(self, client: Client, *, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        self._background = client.background
        self._rpc = self._background.do(lambda: Rpc(client.asynchronous, timeout=timeout))
        self._servers: list[SyncServer] = []

    def __repr__(self) -> str:
        return f"<sync {self._rpc!r}>"

    def call(
        self,
        queue: str,
        method: str,
        /,
        *,
        timeout: float | None = -1.0,
        interface: str = "",
        version: str = "",
        **parameters: Any,
    ) -> Any:
        """Ask a service and wait for its result. Raises an `RpcError`, or `SendRejected`."""
        return self.request(queue, method, parameters, timeout=timeout, interface=interface, version=version)

    def request(self, queue: str, method: str, parameters: Mapping[str, Any], **options: Any) -> Any:
        """As `call`, with the parameters in a mapping. Options as of `Rpc.request`."""
        return self._background.run(self._rpc.request(queue, method, parameters, **options))

    def service(self, queue: str, **options: Any) -> Service:
        """An object whose methods are the service's: `stock.level(article=4711)`."""
        return Service(queue, lambda method, parameters: self.request(queue, method, parameters, **options))

    def serve(self, queue: str, handlers: Handlers | Sequence[Interface], **options: Any) -> "SyncServer":
        """Serve a queue in the background; plain functions run in `workers` threads.

        Options as of `Rpc.serve`. Returns when the queue is being read; `close` it, or `wait`.
        """

        async def begin() -> Server:
            return await self._rpc.serve(queue, handlers, **options).open()

        made = SyncServer(self._background, self._background.run(begin()))
        self._servers.append(made)
        return made

    def close(self) -> None:
        """Close the servers, forget the calls. Idempotent."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        self._background.run(self._rpc.close())


class SyncServer:
    """A server that works in the background."""

    def __init__(self, background: Background, server: Server) -> None:
        self._background = background
        self._server = server

    def __repr__(self) -> str:
        return f"<sync {self._server!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until the server ends; Ctrl-C ends the wait. Raises what ended it."""
        self._background.run(self._server.run())

    def close(self, grace: float = 10.0) -> None:
        """Take no more, let those that run end (`grace` seconds), leave the rest to others."""
        self._background.run(self._server.close(grace))
