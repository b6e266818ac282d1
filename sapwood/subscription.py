"""A subscription: an async iterator of deliveries, or of batches.

`subscribe` asks the node at once; `await subscription.ready()` waits for its answer, as does the first
delivery. Closing it gives what was not acknowledged to other readers.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from sapwood.errors import RequestTimeout
from sapwood.inbox import Acks, Batch, Delivery, Memory, Reject, Source, unpack_delivery
from sapwood.options import seconds
from sapwood.protocol.destinations import Destination
from sapwood.protocol.session_frames import Deliver
from sapwood.waits import within

if TYPE_CHECKING:
    from collections.abc import Callable

    from sapwood.errors import ClientError

Arrived = TypeVar("Arrived")


class Subscription:
    """Made by `Client.subscribe`. One task iterates it."""

    def __init__(
        self,
        number: int,
        destination: Destination,
        credit: int,
        durable: str,
        auto_ack: bool,
        acks: Acks,
        changed: "Callable[[], None]",
        leave: "Callable[[Subscription], None]",
        reject: "Reject | None" = None,
        give_back: "Callable[[int], None] | None" = None,
    ) -> None:
        self.number = number
        self.destination = destination
        self.credit = credit
        self.durable = durable
        self.auto_ack = auto_ack
        self._acks = acks
        self._changed = changed
        self._leave = leave
        self._reject = reject
        self._give_back = give_back
        self._memory = Memory(max(4096, 2 * credit))
        self._source = Source()
        self._waiting: deque[Deliver] = deque()
        self._arrived = asyncio.Event()
        self._ready = asyncio.Event()
        self._error: ClientError | None = None
        self._closed = False
        self._current: Iterator[Delivery] = iter(())
        self._last: Delivery | None = None

    def __repr__(self) -> str:
        state = "closed" if self._closed else "ready" if self._ready.is_set() else "asking"
        return f"<Subscription to {self.destination} {state}, {len(self._waiting)} waiting>"

    # --- for the application

    async def ready(self, timeout: float | None = None) -> Self:
        """Wait until the node has granted it, `timeout` seconds at most.

        Raises `RequestFailed`, or `RequestTimeout`: it is asked for all the same, until it is closed.
        """
        late = partial(RequestTimeout, f"subscribing to {self.destination}")
        async with within(seconds("timeout", timeout), late):
            await self._ready.wait()
        if self._error:
            raise self._error
        return self

    async def opened(self, timeout: float | None = None) -> Self:
        """As `ready`; one that is not granted, or given up, is closed: nothing comes for nobody."""
        try:
            return await self.ready(timeout)
        except BaseException:
            self.close()
            raise

    async def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None if none came within `timeout` seconds, or the subscription was closed."""
        return await _unless_late(anext(self), timeout)

    def close(self) -> None:
        """End it. What was not acknowledged is given to other readers."""
        if not self._closed:
            self._closed = True
            self._waiting.clear()
            self._arrived.set()
            self._leave(self)

    async def __aenter__(self) -> Self:
        return await self.opened()

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        if self.auto_ack and self._last:
            self._last.ack()
            self._last = None
        delivery = next(self._current, None)
        while delivery is None:
            self._current = iter(await self._take())
            delivery = next(self._current, None)
        self._last = delivery
        return delivery

    async def batches(self) -> AsyncIterator[Batch]:
        """The same, a bundle at a time: the fast way. With `auto_ack` a batch is acknowledged as one."""
        while True:
            batch = await self.next_batch()
            if batch is None:
                return
            yield batch
            if self.auto_ack:
                batch.ack()

    async def next_batch(self, timeout: float | None = None) -> Batch | None:
        """The next bundle's messages; None if none came within `timeout` seconds, or after the close."""
        return await _unless_late(self._take(), timeout)

    async def _take(self) -> Batch:
        """Raises `StopAsyncIteration` when the subscription was closed."""
        while True:
            while not self._waiting:
                if self._error:
                    raise self._error
                if self._closed:
                    raise StopAsyncIteration
                self._arrived.clear()
                await self._arrived.wait()
            frame = self._waiting.popleft()
            unpacked = unpack_delivery(frame, self._memory, self._acknowledge, self._rejected, self._nack)
            if self._reject is not None:
                for first, last in unpacked.unreadable:
                    self._reject(first, last, unpacked.why)
            for first, last in unpacked.again:
                self._acks.add(first, last)
            if unpacked.again:
                self._changed()
            if unpacked.batch:
                unpacked.batch.source = self._source
                return unpacked.batch

    def _acknowledge(self, batch: Batch, first: int, last: int) -> None:
        bits = (1 << (last - first + 1)) - 1
        self._memory.acknowledge(batch.bundle, bits << (batch.position + first - batch.first))
        self._acks.add(first, last)
        self._changed()

    def _rejected(self, batch: Batch, transfer_id: int, reason: str) -> None:
        """It comes again where the node does not hear of it."""
        if self._reject is not None:
            self._reject(transfer_id, transfer_id, reason)
        self._memory.forget(batch.bundle, 1 << (batch.position + transfer_id - batch.first))

    def _nack(self, batch: Batch, transfer_id: int) -> None:
        if self._give_back is not None:
            self._give_back(transfer_id)
        self._memory.forget(batch.bundle, 1 << (batch.position + transfer_id - batch.first))

    # --- for the client

    @property
    def closed(self) -> bool:
        return self._closed

    def granted(self) -> None:
        self._ready.set()

    def failed(self, error: "ClientError") -> None:
        """The node refuses it, or the client is over: whoever iterates gets `error`."""
        self._error = self._error or error
        self._ready.set()
        self._arrived.set()

    def arrived(self, frame: Deliver) -> None:
        if not self._closed:
            self._waiting.append(frame)
            self._arrived.set()

    def move(self) -> None:
        """The client is at another node's store: whatever was handed out may come again, and is new then."""
        self._source.is_over = True
        self._source = Source()
        self._memory.forget_open()

    def forget_waiting(self) -> None:
        """The connection was lost: the node gives again what is not yet handed out."""
        self._waiting.clear()


async def _unless_late(arriving: Awaitable[Arrived], timeout: float | None) -> Arrived | None:
    """None if it has not come within `timeout` seconds, or comes no more."""
    limit = asyncio.timeout(seconds("timeout", timeout))
    try:
        async with limit:
            return await arriving
    except StopAsyncIteration:
        return None
    except TimeoutError:
        if not limit.expired():
            raise
        return None
