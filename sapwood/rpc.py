"""Calls: a request on a service's queue, its reply on the caller's own.

    rpc = Rpc(client)
    level = await rpc.call("stock", "level", article=4711, timeout=5)
    await rpc.serve("stock", {"level": level_of}, workers=8)

Law: a call ends with the service's result, or with one `RpcError`: the service's error, nobody who serves the
queue, no reply in time. Whoever stops waiting (cancelled, Ctrl-C, timeout) is forgotten; a reply that comes
later, or a second time, is ignored by its correlation id.

All calls of an `Rpc` share one reply queue, transient and with a fresh name that carries its node; any number
may be under way. Requests and replies are JSON (`rpc_messages`).
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from sapwood.errors import CallTimeout, ClientError, NobodyServes, ReplyLost, RequestFailed, RpcError
from sapwood.inbox import Delivery
from sapwood.interfaces import Handlers, Interface
from sapwood.options import seconds, text
from sapwood.rpc_messages import CONTENT_TYPE, Request, decode_reply, encode_request
from sapwood.serving import Server, current_request
from sapwood.tasks import current_task, new_task, task
from sapwood.waits import within

if TYPE_CHECKING:
    from sapwood.client import Client

__all__ = ["Interface", "Rpc", "Server", "Service", "current_request", "current_task", "task"]

DEFAULT_TIMEOUT: Final = 30.0
_REPLY_CREDIT: Final = 4096
_LONGEST: Final = 1e9
"""Seconds above which a call waits for ever: thirty years, and infinity."""


class _Pending(NamedTuple):
    """A call that waits for its reply."""

    future: asyncio.Future[Any]
    queue: str
    method: str


class Rpc:
    """Calls and serves over a client that is open; close it before the client, or use it within one.

    `timeout`: seconds that a call waits unless it says otherwise; None = for ever. `late`: replies that
    nobody waited for any more.
    """

    def __init__(self, client: "Client", *, timeout: float | None = DEFAULT_TIMEOUT) -> None:
        self.late = 0
        self._client = client
        self._timeout = seconds("timeout", timeout)
        self._numbers = count(1)
        self._waiting: dict[int, _Pending] = {}
        self._mailbox = ""
        self._opening = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Rpc of {self._client.name}, {len(self._waiting)} calls under way>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Forget all that is under way: its callers get `ReplyLost`. Idempotent."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
        self._lost(ReplyLost("the caller was closed: no reply is waited for any more"))

    # --- calling

    async def call(
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
        """Ask a service and return its result. Raises an `RpcError`, or `SendRejected`.

        `queue`: NAME, or NAME@NODE for the service of one node. `timeout`: seconds. Parameters whose names
        are those of this method's own go through `request`, or through `service`.
        """
        return await self.request(
            queue, method, parameters, timeout=timeout, interface=interface, version=version
        )

    async def request(
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
        """As `call`, with the parameters in a mapping. `timeout` below 0: the one of this `Rpc`.

        `persistent=False`: faster, and the request is lost with a line or a process that breaks.
        """
        own = isinstance(timeout, int | float) and timeout < 0
        limit = self._timeout if own else seconds("timeout", timeout)
        if limit is not None and limit > _LONGEST:
            limit = None
        payload = encode_request(Request(text("method", method), dict(parameters), interface, version))
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = _Pending(future, text("queue", queue), method)
        try:
            async with within(limit, partial(CallTimeout, queue, method)):
                await self._ask(number, queue, payload, limit, persistent, interface, version)
                return await future
        finally:
            self._waiting.pop(number, None)
            if not future.cancel() and not future.cancelled():
                future.exception()

    async def _ask(
        self,
        number: int,
        queue: str,
        payload: bytes,
        limit: float | None,
        persistent: bool,
        interface: str,
        version: str,
    ) -> None:
        """Send a request. It lives no longer than its caller waits."""
        await self._client.send(
            queue if queue.startswith("queue:") else f"queue:{queue}",
            payload,
            persistent=persistent,
            tell=True,
            reply_to=self._mailbox or await self._open(),
            correlation_id=number,
            task_id=current_task() or new_task(),
            expires_in=max(int(limit * 1000), 1) if limit is not None else 0,
            content_type=CONTENT_TYPE,
            interface=interface,
            interface_version=version,
        )

    def service(
        self, queue: str, *, interface: str = "", version: str = "", timeout: float | None = -1.0
    ) -> "Service":
        """An object whose methods are the service's: `await stock.level(article=4711)`."""
        request = partial(self.request, queue, timeout=timeout, interface=interface, version=version)
        return Service(queue, request)

    # --- replies

    async def _open(self) -> str:
        """Make the reply queue, once; again where the last one is lost."""
        async with self._opening:
            if not self._mailbox:
                mailbox = await self._client.create()
                subscription = self._client.subscribe(f"queue:{mailbox}", credit=_REPLY_CREDIT, auto_ack=True)
                await subscription.opened()
                self._mailbox = mailbox
                self._reader = asyncio.create_task(self._read(subscription), name="sapwood replies")
            return self._mailbox

    async def _read(self, subscription: Any) -> None:
        error: RpcError | ClientError = ReplyLost("the reply queue was closed")
        try:
            async for batch in subscription.batches():
                for delivery in batch:
                    self._arrived(delivery)
        except RequestFailed as failed:
            error = ReplyLost(f"the reply queue went with the connection: {failed.text}")
        except ClientError as failed:
            error = failed
        except asyncio.CancelledError:
            subscription.close()
            raise
        self._lost(error)

    def _lost(self, error: ClientError) -> None:
        self._mailbox = ""
        for pending in self._waiting.values():
            if not pending.future.done():
                pending.future.set_exception(error)

    def _arrived(self, delivery: Delivery) -> None:
        pending = self._waiting.get(delivery.properties.correlation_id or 0)
        if pending is None or pending.future.done():
            self.late += 1
            return
        future, queue, method = pending
        try:
            if delivery.notice:
                raise NobodyServes(queue, method, delivery.origin)
            future.set_result(decode_reply(delivery.payload))
        except RpcError as error:
            future.set_exception(error)
        except Exception as error:  # one reply that cannot be read is one call that fails
            future.set_exception(ReplyLost(f"the reply of {queue} cannot be read: {error!r}"))

    # --- serving

    def serve(
        self,
        queue: str,
        handlers: Handlers | Sequence[Interface],
        *,
        workers: int = 8,
        interface: str = "",
        version: str = "",
        tracebacks: bool = False,
    ) -> Server:
        """A server of `queue`: `await` it, or use it as a context manager.

        `handlers`: functions by name, or an object with public methods, or several `Interface`s. Coroutine
        functions run on this loop, others in threads. `workers`: requests in work at once, and taken from
        the queue. `tracebacks`: put a failed handler's traceback into the answer's data.
        """
        several = isinstance(handlers, list | tuple)
        interfaces = handlers if several else [Interface(handlers, interface, version)]
        return Server(self._client, queue, interfaces, workers=workers, tracebacks=tracebacks)  # type: ignore[arg-type]


class Service:
    """Made by `Rpc.service`: each attribute is a method of the service; parameters are given by name."""

    def __init__(self, queue: str, ask: Callable[[str, dict[str, Any]], Any]) -> None:
        self._queue = queue
        self._ask = ask

    def __repr__(self) -> str:
        return f"<Service {self._queue}>"

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(**parameters: Any) -> Any:
            return self._ask(method, parameters)

        call.__name__ = method
        return call
