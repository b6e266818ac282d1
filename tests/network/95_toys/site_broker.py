"""A whole bridge to a whole site broker, as small as one can be: `toybox.py` is what it speaks with."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from bridges.site_brokers.base import (
    Bridge,
    BrokerConsumer,
    BrokerDelivery,
    Desk,
    Finding,
    Setup,
    SiteBrokerError,
    Taken,
)
from config.uris import address
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination, topic


def make(setup: Setup) -> Bridge:
    return ToyBridge(setup)


class ToyBridge(Bridge):
    """Topics only, by name."""

    def __init__(self, setup: Setup) -> None:
        self._where = address(setup.settings.uri)
        self._wanted: frozenset[Destination] = frozenset()
        self._writer: asyncio.StreamWriter | None = None

    async def run(self, desk: Desk) -> None:
        try:
            reader, self._writer = await asyncio.open_connection(self._where.host, self._where.port)
        except OSError as error:
            raise SiteBrokerError(f"no Toybox at {self._where.uri}: {error}") from None
        try:
            self._say(watch=True)
            desk.connected("a Toybox")
            desk.complete(())
            self.want(self._wanted)
            while line := await reader.readline():
                self._heard(desk, json.loads(line))
            raise SiteBrokerError(f"the Toybox at {self._where.uri} has gone")
        finally:
            self._writer.close()
            self._writer = None

    def _say(self, **said: Any) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(said).encode() + b"\n")

    def _heard(self, desk: Desk, said: dict[str, Any]) -> None:
        match said:
            case {"has": number}:
                desk.confirm([number])
            case {"reads": name}:
                desk.came(BrokerConsumer(topic(name), "toy"))
            case {"topic": name, "body": body}:
                desk.take([Taken(topic(name), Message(body.encode()))], lambda: None)

    def want(self, wanted: frozenset[Destination]) -> None:
        self._wanted = wanted
        for each in wanted:
            self._say(read=each.name)

    def deliver(self, batch: Sequence[BrokerDelivery]) -> None:
        for each in batch:
            self._say(say=each.destination.name, body=each.message.payload.decode(), number=each.id)

    def greets(self, consumer: BrokerConsumer) -> bool:
        return False

    @property
    def retains(self) -> bool:
        return False

    def review(self, pattern: str) -> None:
        pass

    async def leave(self) -> None:
        pass

    def farewell(self) -> list[str]:
        return []

    def status(self) -> dict[str, Any]:
        return {"discovery": "complete"}

    async def inspect(self) -> list[Finding]:
        return []
