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

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from sapwood import client as asynchronous
from sapwood.background import Background
from sapwood.errors import ClientClosed
from sapwood.interfaces import Handlers, Interface
from sapwood.options import ClientOptions, NodePlace, Reach, SendOptions
from sapwood.protocol.destinations import Destination
from sapwood.rpc import DEFAULT_TIMEOUT, Rpc, Service
from sapwood.serving import Server
from sapwood.subscription import Subscription
from sapwood.sync_subscription import SyncBatch, SyncDelivery, SyncSubscription

if TYPE_CHECKING:
    from sapwood.journal import Journal

__all__ = ["Client", "SyncBatch", "SyncDelivery", "SyncRpc", "SyncServer", "SyncSubscription", "connect"]


def connect(
    address: str | Sequence[str] = asynchronous.DEFAULT_ADDRESS,
    *,
    session: str = "",
    **options: Unpack[ClientOptions],
) -> "Client":
    """A client of the node at `address`, to be used with `with`. Options as of `sapwood.connect`."""
    return Client(address, session=session, **options)


class Client:
    """One application's session at its node, for any number of threads. See `sapwood.Client` for options.

    Wrinkle: `on_connected` and `on_lost` are called in the client's own thread: they may not wait for it.
    """

    def __init__(
        self, address: str | Sequence[str], *, session: str = "", **options: Unpack[ClientOptions]
    ) -> None:
        self._address = address
        self._session = session
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
            self._client = background.do(
                lambda: asynchronous.Client(self._address, session=self._session, **self._options)
            )
            background.run(self._client.open())
        except BaseException:
            background.stop()
            raise
        return self

    def close(self, *, wait: bool = True) -> None:
        """Wait for the last confirmations (if `wait`), and end. Raises as `sapwood.Client.close` does.

        In a process that was forked it does nothing: the connection is the other's.
        """
        background, client = self._background, self._client
        if background is None or client is None or not background.is_here:
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
    def place(self) -> NodePlace:
        """Where the node is, and how this client proves itself there: for the process beside a channel."""
        return self.asynchronous.place

    @property
    def state(self) -> str:
        """'connected', 'not connected' (it tries again by itself), 'closed', or 'not open' yet."""
        client = self._client
        if client is None:
            return "not open" if self._background is None else "closed"
        return client.state

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

    def send(
        self,
        destination: Destination | str,
        payload: bytes | str,
        *,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> Reach | None:
        """Send one message and wait until the node has it on disk. As `sapwood.Client.send`."""
        return self.background.run(self.asynchronous.send(destination, payload, timeout=timeout, **options))

    def publish(
        self,
        destination: Destination | str,
        payload: bytes | str,
        *,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send one message, waiting for room in the window only; `flush` waits for all."""
        self.background.run(self.asynchronous.publish(destination, payload, timeout=timeout, **options))

    def seal(self) -> int:
        """Number everything that was published so far; returns the producer's last number."""
        return self.background.do(self.asynchronous.seal)

    def flush(self, *, timeout: float | None = None) -> None:
        """Wait until everything published is confirmed. Raises `SendRejected` for what was not taken."""
        self.background.run(self.asynchronous.flush(timeout=timeout))

    def send_many(
        self,
        destination: Destination | str,
        payloads: Iterable[bytes],
        *,
        wait: bool = True,
        timeout: float | None = None,
        **options: Unpack[SendOptions],
    ) -> None:
        """Send many messages to one destination, and wait until all are on disk."""
        given = list(payloads)
        work = self.asynchronous.send_many(destination, given, wait=wait, timeout=timeout, **options)
        self.background.run(work)

    def publish_journal(self, journal: "Journal", *, timeout: float | None = None) -> int:
        """Send everything that waits in a journal, until the node has it all; returns how many entries.

        Raises `Unconfirmed` after `timeout` seconds; the entries stay.
        """
        return self.background.run(journal.publish(self.asynchronous, timeout=timeout))

    def create(self, name: str = "", *, home: bool = False, timeout: float | None = None) -> str:
        """Make a queue and return its name. '' = a transient one with a fresh name, for replies."""
        return self.background.run(self.asynchronous.create(name, home=home, timeout=timeout))

    def delete(self, name: str, *, timeout: float | None = None) -> None:
        """Delete a queue with all its messages. As `sapwood.Client.delete`."""
        self.background.run(self.asynchronous.delete(name, timeout=timeout))

    def subscribe(
        self,
        destination: Destination | str,
        *,
        credit: int = 2000,
        durable: str = "",
        auto_ack: bool = False,
        timeout: float | None = None,
    ) -> "SyncSubscription":
        """Read a queue or a topic pattern: `for delivery in client.subscribe(...)`.

        Waits until the node has granted it, `timeout` seconds at most.
        """

        async def ask() -> Subscription:
            made = self.asynchronous.subscribe(destination, credit=credit, durable=durable, auto_ack=auto_ack)
            return await made.opened(timeout)

        return SyncSubscription(self.background, self.background.run(ask()))

    def end_subscription(self, durable: str, *, timeout: float | None = None) -> None:
        """End this session's durable subscription of that name for good, with all that waits for it."""
        self.background.run(self.asynchronous.end_subscription(durable, timeout=timeout))


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

    def request(
        self,
        queue: str,
        method: str,
        parameters: Mapping[str, Any],
        *,
        timeout: float | None = -1.0,
        interface: str = "",
        version: str = "",
        persistent: bool = True,
    ) -> Any:
        """As `call`, with the parameters in a mapping. As `Rpc.request`."""
        work = self._rpc.request(
            queue,
            method,
            parameters,
            timeout=timeout,
            interface=interface,
            version=version,
            persistent=persistent,
        )
        return self._background.run(work)

    def service(
        self, queue: str, *, interface: str = "", version: str = "", timeout: float | None = -1.0
    ) -> Service:
        """An object whose methods are the service's: `stock.level(article=4711)`."""
        request = partial(self.request, queue, timeout=timeout, interface=interface, version=version)
        return Service(queue, request)

    def serve(
        self,
        queue: str,
        handlers: Handlers | Sequence[Interface],
        *,
        workers: int = 8,
        interface: str = "",
        version: str = "",
        tracebacks: bool = False,
    ) -> "SyncServer":
        """Serve a queue in the background; plain functions run in `workers` threads. As `Rpc.serve`.

        Returns when the queue is being read; `close` it, or `wait`.
        """

        async def begin() -> Server:
            server = self._rpc.serve(
                queue, handlers, workers=workers, interface=interface, version=version, tracebacks=tracebacks
            )
            return await server.open()

        made = SyncServer(self._background, self._background.run(begin()))
        self._servers.append(made)
        return made

    def close(self) -> None:
        """Close the servers, forget the calls. Idempotent."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        with suppress(ClientClosed):
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
        """Take no more, let those that run end (`grace` seconds), leave the rest to others. Idempotent, also
        once the client is closed."""
        with suppress(ClientClosed):
            self._background.run(self._server.close(grace))
