"""A server: takes requests from a queue, lets handlers work, replies, and only then acknowledges.

Law: the reply is on disk at the node before the request is acknowledged. So a server that is killed in the
middle leaves the request to its successor, on this node or another; killed between reply and acknowledgement,
a second reply is made, which the caller ignores by its correlation id. Handlers must bear that: what they do
twice must be the same as once (see docs/services.md).

Law: every request that names a `reply_to` is answered, with a result or an error; a handler's exception is an
answer (code FAILED), without its traceback unless `tracebacks` asks for that. One that names a fresh queue on
another node than the one where it entered the tree is a forgery: it is not worked on, and is a dead letter.
"""

import asyncio
import contextvars
import functools
import logging
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Final, Self

from sapwood.errors import ClientError, RequestFailed, SendRejected, ServiceError
from sapwood.inbox import Delivery
from sapwood.interfaces import Interface, Method, find
from sapwood.options import text, whole
from sapwood.protocol.destinations import Destination, parse
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import is_incarnation
from sapwood.rpc_messages import (
    CONTENT_TYPE,
    FAILED,
    RESULT_TOO_LARGE,
    decode_request,
    encode_error,
    encode_result,
)
from sapwood.tasks import current as current_task

if TYPE_CHECKING:
    from collections.abc import Generator

    from sapwood.client import Client
    from sapwood.subscription import Subscription

_log = logging.getLogger("sapwood.rpc")
_FIRST_PAUSE: Final = 0.05
_FRESH: Final = "transient-"
_LONGEST_PAUSE: Final = 5.0
_request: Final[ContextVar[Delivery | None]] = ContextVar("sapwood_request", default=None)


def current_request() -> Delivery:
    """The message that the running handler answers. Its `key` tells a request that comes a second time.

    Raises `LookupError` outside of a handler.
    """
    found = _request.get()
    if found is None:
        raise LookupError("no request is handled here: call this within a service's handler")
    return found


class Server:
    """Made by `Rpc.serve`. `async with` it, or await it to serve until it is closed.

    `answered`, `errors`: requests answered so far, and how many of them with an error.
    """

    def __init__(
        self, client: "Client", queue: str, interfaces: Sequence[Interface], *, workers: int, tracebacks: bool
    ) -> None:
        whole(1, workers=workers)
        if not interfaces:
            raise ValueError("no interface to serve: expected one or more")
        self.queue = queue
        self.workers = workers
        self.answered = 0
        self.errors = 0
        self._destination = parse(queue if text("queue", queue).startswith("queue:") else f"queue:{queue}")
        self._client = client
        self._interfaces = list(interfaces)
        self._tracebacks = tracebacks
        self._slots = asyncio.Semaphore(workers)
        self._running: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Server of {self.queue} {len(self._running)}/{self.workers} busy, {self.answered} answered>"

    # --- life

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __await__(self) -> "Generator[Any, None, None]":
        return self.run().__await__()

    async def open(self) -> Self:
        """Make the queue if it is not there, and read it. Raises `RequestFailed`."""
        if self._task is None:
            await self._subscribe()
            self._task = asyncio.create_task(self._serve(), name=f"sapwood server of {self.queue}")
        return self

    async def run(self) -> None:
        """Serve until `close`, or until the client is over, which is raised."""
        async with self:
            assert self._task is not None
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    async def close(self, grace: float = 10.0) -> None:
        """Take no more, let those that run end (`grace` seconds), leave the rest to others. Idempotent."""
        task, subscription, self._subscription = self._task, self._subscription, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._running:
            await asyncio.wait(self._running, timeout=grace)
        for running in list(self._running):
            running.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if subscription is not None:
            subscription.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _subscribe(self) -> None:
        await self._client.create(str(self._destination).removeprefix("queue:"))
        subscription = self._client.subscribe(self._destination, credit=self.workers)
        self._subscription = await subscription.opened()

    # --- requests

    async def _serve(self) -> None:
        """Take requests until the client is over. A queue that is no more is made again, as often as needed:
        it was deleted, or the node is another one now, or lost its store."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if self._subscription is None:
                    await self._subscribe()
                    pause = _FIRST_PAUSE
                await self._take_requests()
                return
            except RequestFailed as error:
                _log.warning("! %s: %s", self.queue, error)
                self._subscription = None
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _take_requests(self) -> None:
        assert self._subscription is not None
        async for delivery in self._subscription:
            await self._slots.acquire()
            task = asyncio.create_task(self._answer(delivery))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._slots.release()
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, ClientError):
            _log.error("! %s: %r", self.queue, error, exc_info=error)

    async def _answer(self, delivery: Delivery) -> None:
        """Work, reply, acknowledge. Cancelled before: the request is given to another server."""
        if why := _why_not_answered(delivery):
            _log.warning("! %s: %s", self.queue, why)
            delivery.reject(why)
            return
        current_task.set(delivery.properties.task_id)
        _request.set(delivery)
        try:
            answer = encode_result(await self._work(delivery))
        except ServiceError as error:
            self.errors += 1
            answer = encode_error(error)
        except ClientError:
            raise
        except Exception as error:
            self.errors += 1
            _log.exception("! %s: a request cannot be answered", self.queue)
            delivery.reject(f"FAILED: {_said(error)}")
            return
        if delivery.properties.reply_to:
            await self._reply(delivery, answer)
        delivery.ack()
        self.answered += 1

    async def _work(self, delivery: Delivery) -> Any:
        """The handler's result. Raises `ServiceError` for whatever else comes of it."""
        request = decode_request(delivery.payload)
        method = find(self._interfaces, request)
        arguments = method.bind(request.parameters)
        try:
            return await self._call(method, arguments.args, arguments.kwargs)
        except ServiceError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise ServiceError(FAILED, "the handler was cancelled, and not by this server") from None
        except (KeyboardInterrupt, GeneratorExit):
            raise  # Ctrl-C, and the end of the loop
        except BaseException as error:
            if isinstance(error, SystemExit) and current_thread() is main_thread():
                raise  # a signal's handler says so as well, in the middle of whatever runs
            _log.warning("! %s of %s failed: %r", method.name, self.queue, error, exc_info=error)
            raise ServiceError(FAILED, _said(error), self._trace(error)) from error

    async def _call(self, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if method.is_async:
            return await method.function(*args, **kwargs)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix=f"sapwood {self.queue}")
        call = functools.partial(contextvars.copy_context().run, _in_thread, method.function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _trace(self, error: BaseException) -> Any:
        if not self._tracebacks:
            return None
        return {"traceback": "".join(traceback.format_exception(error))}

    # --- replies

    async def _reply(self, delivery: Delivery, answer: bytes) -> None:
        """Give the reply to the node, for as long as it has no room. What can never be sent is logged."""
        asked = delivery.properties
        try:
            where = _queue(asked.reply_to)
        except InvalidName as error:
            _log.warning("! %s: a request cannot be answered: %s", self.queue, error)
            return
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._send_reply(delivery, where, answer)
                return
            except SendRejected as error:
                if error.code == "TOO_LARGE" and answer:
                    text = f"the result has {len(answer)} bytes: {error.text}"
                    answer = encode_error(ServiceError(RESULT_TOO_LARGE, text))
                    continue
                if error.code != "QUEUE_FULL":
                    _log.warning("! %s: a request cannot be answered: %s", self.queue, error)
                    return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _send_reply(self, delivery: Delivery, where: Destination, answer: bytes) -> None:
        """The reply lives as long as its caller waits, and is kept as carefully as the request was."""
        asked = delivery.properties
        await self._client.send(
            where,
            answer,
            persistent=delivery.batch.persistent,
            correlation_id=asked.correlation_id,
            task_id=asked.task_id,
            expires_in=max(asked.expires_in, 0),
            content_type=CONTENT_TYPE,
        )


def _said(error: BaseException) -> str:
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _why_not_answered(delivery: Delivery) -> str:
    """A fresh queue is for who made it: nobody at another node has answers sent there. '' if it may."""
    reply_to, origin = delivery.properties.reply_to, delivery.origin
    name, _, node = reply_to.removeprefix("queue:").partition("@")
    if not origin or not name.startswith(_FRESH) or node in ("", origin) or is_incarnation(node):
        return ""
    return f"PERMIT: {origin} may have answers sent to fresh queues of its own, not to {reply_to[:100]}"


@functools.lru_cache(maxsize=4096)
def _queue(reply_to: str) -> Destination:
    return parse(reply_to if reply_to.startswith("queue:") else f"queue:{reply_to}")


def _in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """A plain function's result. A future takes no StopIteration, whose waiter would wait for ever; and
    `sys.exit` in a thread ends no more than what the thread does."""
    try:
        return function(*args, **kwargs)
    except (StopIteration, SystemExit) as error:
        raise RuntimeError(f"the handler raised {type(error).__name__}") from error
