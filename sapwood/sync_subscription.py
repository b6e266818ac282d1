"""A subscription for programs without asyncio: what it hands out may be used in any thread."""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from sapwood.background import Background
from sapwood.errors import ClientClosed
from sapwood.inbox import Batch, Delivery
from sapwood.protocol.bundles import Properties
from sapwood.protocol.destinations import Destination
from sapwood.subscription import Subscription


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

    def nack(self) -> None:
        """Give it back, to be given again, as `sapwood.Delivery.nack`."""
        self._background.do(self._delivery.nack)

    def reject(self, reason: str = "") -> None:
        """Say that nobody can deal with this message: it becomes a dead letter, with the reason."""
        self._background.soon(lambda: self._delivery.reject(reason))


class SyncBatch:
    """A `Batch` for any thread: iterate for deliveries, or take `payloads` for speed."""

    __slots__ = ("_background", "_batch")

    def __init__(self, background: Background, batch: Batch) -> None:
        self._background = background
        self._batch = batch

    def __repr__(self) -> str:
        return repr(self._batch)

    def __len__(self) -> int:
        return len(self._batch)

    def __iter__(self) -> Iterator[SyncDelivery]:
        for delivery in self._batch:
            yield SyncDelivery(self._background, delivery)

    @property
    def payloads(self) -> list[bytes]:
        return self._batch.payloads

    def ack(self) -> None:
        """Say that all messages of the batch are dealt with."""
        self._background.soon(self._batch.ack)


class SyncSubscription:
    """Deliveries, one after the other; `next(timeout)` waits no longer.

    One thread iterates it with `auto_ack`; else several may, and each message is given to one of them.
    """

    def __init__(self, background: Background, subscription: Subscription) -> None:
        self._background = background
        self._subscription = subscription
        self._current: deque[Delivery] = deque()
        self._last: SyncDelivery | None = None

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
        if self._subscription.auto_ack and self._last:
            self._last.ack()
            self._last = None
        while True:
            with suppress(IndexError):
                found = SyncDelivery(self._background, self._current.popleft())
                break
            batch = self._background.run(self._subscription.next_batch(timeout))
            if batch is None:
                return None
            self._current.extend(batch)  # another thread may have some of its own there
        self._last = found
        return found

    def batches(self) -> "Iterator[SyncBatch]":
        """The same, a bundle at a time: the fast way. With `auto_ack` a batch is acknowledged as one."""
        while batch := self.next_batch():
            yield batch
            if self._subscription.auto_ack:
                batch.ack()

    def next_batch(self, timeout: float | None = None) -> "SyncBatch | None":
        """The next bundle's messages; None if none came within `timeout` seconds, or after the close."""
        batch = self._background.run(self._subscription.next_batch(timeout))
        return SyncBatch(self._background, batch) if batch is not None else None

    def close(self) -> None:
        """End it, if its client has not. What was not acknowledged is given to other readers."""
        with suppress(ClientClosed):
            self._background.do(self._subscription.close)
