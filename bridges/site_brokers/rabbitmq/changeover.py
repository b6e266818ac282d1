"""A change of the site's exchanges, for what waited in the queue of topics when the node came.

A message says to which exchange it was published, and the list of exchanges says which topics that exchange
has. So what was published under one list is read by it, however the site's file was changed since.

Law: the list is written down here. It is the new one once all that waited is in our custody, and not before:
a node that dies meanwhile reads the rest by the old one.
"""

import asyncio
import json
from pathlib import Path
from typing import Final

from bridges.amqp.connection import Connection, Incoming
from bridges.amqp.errors import NOT_FOUND, ChannelLost
from bridges.site_brokers.rabbitmq.bindings import TOPICS
from bridges.site_brokers.rabbitmq.exchanges import Exchanges

_FILE: Final = "rabbitmq-exchanges.json"


class Changeover:
    """From the list that was written down to the one of the file, at one visit. `begin` it first."""

    def __init__(self, exchanges: Exchanges, directory: Path) -> None:
        self._new = exchanges
        self._file = directory / _FILE
        self._old = exchanges
        self._waited = 0

    def __repr__(self) -> str:
        return f"<Changeover from {self._old!r} to {self._new!r}, {self._waited} waited>"

    async def begin(self, connection: Connection) -> None:
        """Look how many messages wait. Raises `ChannelLost` (code 0)."""
        old = await asyncio.to_thread(_load, self._file)
        if old == self._new.prefixes:
            return
        self._old = Exchanges(self._new.usual, old.items())
        self._waited = await _waiting(connection)
        self._end_if(0)

    def exchanges_of(self, message: Incoming) -> Exchanges:
        """The list under which a message was published: those that waited come first on their channel."""
        return self._old if message.tag <= self._waited else self._new

    def settled(self, last: Incoming) -> None:
        """All up to this one is in our custody."""
        self._end_if(last.tag)

    def _end_if(self, tag: int) -> None:
        if self._old is not self._new and tag >= self._waited:
            self._old, self._waited = self._new, 0
            _save(self._file, self._new.prefixes)


async def _waiting(connection: Connection) -> int:
    channel = await connection.channel()
    try:
        return (await channel.declare(TOPICS, passive=True)).messages
    except ChannelLost as error:
        if error.code != NOT_FOUND:
            raise
        return 0
    finally:
        await channel.close()


def _load(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(prefix) for name, prefix in found.items()} if isinstance(found, dict) else {}


def _save(file: Path, prefixes: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(prefixes), encoding="utf-8")
    fresh.replace(file)
