"""What the numbered tests share: links that notice quickly, and a record of what a consumer was given."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from harness import Network, have, until_count

from sapwood.client import Client
from sapwood.inbox import Delivery
from sapwood.protocol.session_frames import Deliver

QUICK_LINK: dict[str, Any] = {
    "keep_alive": "1s",
    "dead_after": "5s",
    "backoff_initial": "50ms",
    "backoff_max": "200ms",
}
QUICK_SITE: dict[str, Any] = {"link": QUICK_LINK, "advisories": {"dormant_after": "1s"}}
"""Settings for `Network.add`: a dead link is noticed within some seconds, an absent child soon after.

Not sooner: on a busy machine a node that is alive is silent for a second or two."""


def add_chain(network: Network, *names: str, **settings: Any) -> None:
    """A root, branches and a leaf, one below the other; all with `QUICK_SITE`."""
    for place, name in enumerate(names):
        role = "leaf" if place == len(names) - 1 else "branch"
        parent = names[place - 1] if place else ""
        network.add(name, parent, role=role, **(QUICK_SITE | settings))


async def start_tree(network: Network) -> None:
    """hq, north and south below it, york below north."""
    network.add("hq")
    network.add("north", "hq", role="branch")
    network.add("south", "hq")
    network.add("york", "north")
    await network.start()


def numbers(count: int, prefix: str = "") -> list[bytes]:
    """Payloads that tell their order."""
    return [f"{prefix}{number}".encode() for number in range(count)]


class Record:
    """What one subscription was given: `payloads` by the library, and each message as it came on the wire.

    `kills`: how often the consumer's own node has been killed. `twice`: messages that the node gave again
    although it had not been killed since and did not say that it gives them again.
    """

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.deliveries: list[Delivery] = []
        self.kills = 0
        self.given_again = 0
        self.twice: list[tuple[str, int]] = []
        self._given: dict[tuple[bytes, int], int] = {}

    def __repr__(self) -> str:
        return f"<Record of {len(self.payloads)} given_again={self.given_again} twice={len(self.twice)}>"

    def on_wire(self, frame: Deliver) -> None:
        for index in range(frame.position, frame.position + frame.count):
            key = frame.bundle, index
            before = self._given.get(key)
            self._given[key] = self.kills
            if before is None:
                continue
            self.given_again += 1
            if before == self.kills and not frame.redelivered:
                self.twice.append((frame.bundle.hex(), index))

    def took(self, delivery: Delivery) -> None:
        self.payloads.append(delivery.payload)
        self.deliveries.append(delivery)
        delivery.ack()


@asynccontextmanager
async def recording(client: Client, destination: str, durable: str = "") -> AsyncIterator[Record]:
    """Receive and acknowledge in the background, and record everything that comes."""
    record = Record()
    await have(client, destination)
    subscription = client.subscribe(destination, durable=durable)
    arrived: Callable[[Deliver], None] = subscription.arrived

    def listen(frame: Deliver) -> None:
        record.on_wire(frame)
        arrived(frame)

    subscription.arrived = listen  # type: ignore[method-assign]  # the only place where the wire is seen
    await subscription.ready()

    async def receive() -> None:
        async for delivery in subscription:
            record.took(delivery)

    task = asyncio.create_task(receive())
    try:
        yield record
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        subscription.close()


class Producer:
    """Sends numbered messages in bursts, and goes on when all of a burst are confirmed.

    `pause`: the longest between two bursts, seconds.
    """

    def __init__(self, client: Client, destination: str, seed: int, pause: float = 0.03) -> None:
        self._client = client
        self._destination = destination
        self._random = random.Random(seed)
        self._pause = pause
        self.confirmed: list[bytes] = []
        self.enough = False

    async def run(self) -> None:
        while not self.enough:
            first = len(self.confirmed)
            burst = [str(first + i).encode() for i in range(self._random.randint(1, 40))]
            await self._client.send_many(self._destination, burst)
            self.confirmed += burst
            await asyncio.sleep(self._random.uniform(0, self._pause))


async def expect(record: Record, payloads: list[bytes]) -> None:
    """Wait for exactly these messages, each once and in this order."""
    await until_count(record.payloads, len(payloads))
    assert record.payloads == payloads
    assert not record.twice


async def expect_in_any_order(record: Record, payloads: list[bytes]) -> None:
    """Wait for exactly these messages, each once: what was routed again may have been overtaken."""
    await until_count(record.payloads, len(payloads))
    assert sorted(record.payloads) == sorted(payloads)
    assert not record.twice
