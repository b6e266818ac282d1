"""The applications of the demo: one at HQ and one in each store, over streaming sessions.

Law: an application survives its node. The client library connects again and sends again what was not
confirmed, under the same numbers; the application does nothing special for that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, Protocol

from broker.cli.demo.plan import SALES_QUEUE, Chain, Parcel, offer_topic, price_queue
from sapwood.client import Client, connect

if TYPE_CHECKING:
    from sapwood.subscription import Subscription

TICK: Final = 0.1
CREDIT: Final = 200


class Book(Protocol):
    """Where it is written down what the nodes took, and what has arrived. See `Ledger`."""

    def confirm(self, parcel: Parcel) -> None: ...

    def handle(self, receiver: str, message_id: str, payload: bytes) -> None: ...


class Applications:
    """All applications of the chain. An async context manager: connected inside, closed outside.

    `urls`: each node's address, by name.
    """

    def __init__(self, chain: Chain, urls: dict[str, str], ledger: Book) -> None:
        self.chain = chain
        self.ledger = ledger
        self._urls = urls
        self._clients: dict[str, Client] = {}
        self._subscriptions: list[Subscription] = []
        self._receiving: set[asyncio.Task[None]] = set()
        self._stack = AsyncExitStack()

    def __repr__(self) -> str:
        return f"<Applications clients={len(self._clients)} subscriptions={len(self._subscriptions)}>"

    async def __aenter__(self) -> "Applications":
        for place in (self.chain.root, *self.chain.stores):
            client = connect(
                self._urls[place.name], session=f"app-{place.name}", producer=f"app-{place.name}"
            )
            self._clients[place.name] = await self._stack.enter_async_context(client)
        return self

    async def __aexit__(self, *exception: object) -> None:
        for task in self._receiving:
            task.cancel()
        await asyncio.gather(*self._receiving, return_exceptions=True)
        await self._stack.__aexit__(None, None, None)

    async def subscribe(self, known: Callable[[str], Awaitable[None]]) -> None:
        """Every store reads its prices, those of the region its offers, HQ the sales.

        One after the other: `known(destination)` waits until HQ knows that somebody reads it, so that each
        consumer's advisories are its own.
        """
        for store in self.chain.stores:
            await self._read(store.name, price_queue(store.name))
            await known(price_queue(store.name))
        region = self.chain.region.name
        for store in self.chain.children(region):
            await self._read(store.name, offer_topic(region), durable=f"offers-{store.name}")
            await known(offer_topic(region))
        await self._read(self.chain.root.name, SALES_QUEUE)

    async def _read(self, name: str, destination: str, durable: str = "") -> None:
        client = self._clients[name]
        if destination.startswith("queue:"):
            await client.create(destination.removeprefix("queue:"))
        subscription = client.subscribe(destination, credit=CREDIT, durable=durable)
        await subscription.ready()
        self._subscriptions.append(subscription)
        self._receiving.add(asyncio.create_task(self._receive(name, subscription)))

    async def _receive(self, name: str, subscription: "Subscription") -> None:
        async for delivery in subscription:
            self.ledger.handle(name, delivery.message_id, delivery.payload)
            delivery.ack()

    def unsubscribe(self) -> None:
        """All consumers go."""
        for subscription in self._subscriptions:
            subscription.close()

    async def send(self, parcels: Iterable[Parcel], seconds: float) -> None:
        """Send everything from where it comes, spread evenly over `seconds` or longer."""
        by_source: dict[str, list[Parcel]] = {}
        for parcel in parcels:
            by_source.setdefault(parcel.source, []).append(parcel)
        async with asyncio.TaskGroup() as group:
            for source, own in by_source.items():
                group.create_task(self._send_from(source, own, seconds))

    async def _send_from(self, source: str, parcels: Sequence[Parcel], seconds: float) -> None:
        loop = asyncio.get_running_loop()
        begin, ticks = loop.time(), max(1, round(seconds / TICK))
        size = -(-len(parcels) // ticks)
        for tick, first in enumerate(range(0, len(parcels), size)):
            await asyncio.sleep(max(0.0, begin + tick * TICK - loop.time()))
            await asyncio.gather(*(self.send_one(source, parcel) for parcel in parcels[first : first + size]))

    async def send_one(self, source: str, parcel: Parcel) -> None:
        """Send one message and wait until its node has it."""
        await self._clients[source].send(parcel.destination, parcel.payload)
        self.ledger.confirm(parcel)
