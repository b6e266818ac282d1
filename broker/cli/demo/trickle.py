"""A few messages a second through the tree of a demo that goes on running, so that there is something to see.

Law: it keeps nothing, however long it runs, and survives its nodes: who kills one, or cuts a line, sees
messages wait there, and flow when it is back.
"""

import asyncio
import random
from collections.abc import Sequence
from itertools import cycle
from typing import Final

from broker.cli.demo.plan import Chain, Parcel
from broker.cli.demo.traffic import Applications
from sapwood.errors import SendRejected

PAUSE: Final = 2.0
"""Seconds between two messages of one application, on average."""


class Trickle:
    """The applications of the chain again, each of which sends a message now and then. `urls`: by name.

    `sent`, `arrived`: how many messages.
    """

    def __init__(self, chain: Chain, urls: dict[str, str], pause: float = PAUSE) -> None:
        self.sent = self.arrived = 0
        self._pause = pause
        self._chain = chain
        self._urls = urls

    def __repr__(self) -> str:
        return f"<Trickle sent={self.sent} arrived={self.arrived}>"

    async def run(self, parcels: Sequence[Parcel]) -> None:
        """Send the same over and over again, until cancelled."""
        sources: dict[str, list[Parcel]] = {}
        for parcel in parcels:
            sources.setdefault(parcel.source, []).append(parcel)
        async with Applications(self._chain, self._urls, self) as applications:
            await applications.subscribe(_at_once)
            async with asyncio.TaskGroup() as group:
                for source, own in sources.items():
                    group.create_task(self._send(applications, source, own))

    async def _send(self, applications: Applications, source: str, parcels: list[Parcel]) -> None:
        random.shuffle(parcels)
        for parcel in cycle(parcels):
            await asyncio.sleep(random.uniform(0, 2 * self._pause))
            try:
                await applications.send_one(source, parcel)
            except SendRejected:
                continue  # its reader is away for long, and the queue is full

    def confirm(self, parcel: Parcel) -> None:
        """A node has a message."""
        self.sent += 1

    def handle(self, receiver: str, message_id: str, payload: bytes) -> None:
        """A message has arrived."""
        self.arrived += 1


async def _at_once(destination: str) -> None:
    """Nobody counts advisories any more: no need to wait until HQ knows a reader."""
