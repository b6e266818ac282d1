"""A change of the site's exchanges, for what waited in the queue of topics when the node came.

A message says to which exchange it was published, and the list of exchanges says which topics that exchange
has. So what was published under one list is read by it, however the site's file was changed since.

Law: the list is written down here, and while it changes, how many messages of the one before are left. So a
node that dies meanwhile goes on where it was. Where nothing is written down, or nothing that can be read, as
after an older version, the list is taken for unchanged.

Wrinkle: the broker does not count messages that it holds for a connection of which it does not know the end.
"""

import asyncio
from pathlib import Path
from typing import Final

import msgspec

from bridges.amqp.connection import Connection
from bridges.amqp.errors import NOT_FOUND, ChannelLost
from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.rabbitmq.bindings import TOPICS
from bridges.site_brokers.rabbitmq.exchanges import Exchanges
from config.whole_files import put

_FILE: Final = "rabbitmq-exchanges.json"


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`exchanges`: with their prefixes; `left`: messages of these, before those of the list `then`."""

    exchanges: dict[str, str]
    then: dict[str, str] | None = None
    left: int = 0


class Changeover:
    """From the list that was written down to the one of the file, at one visit. `begin` it first.

    A disk that takes nothing raises `SiteBrokerError`.
    """

    def __init__(self, exchanges: Exchanges, directory: Path) -> None:
        self._new = exchanges
        self._file = directory / _FILE
        self._old = exchanges
        self._waited = self._left = 0

    def __repr__(self) -> str:
        return f"<Changeover from {self._old!r} to {self._new!r}, {self._left} left>"

    async def begin(self, connection: Connection) -> None:
        """Look how many messages wait. Raises `ChannelLost` (code 0)."""
        new = self._new.prefixes
        written = await asyncio.to_thread(_load, self._file)
        if written == _Written(new):
            return
        if written is not None and written.exchanges != new:
            left = await _waiting(connection)
            self._left = min(left, written.left) if written.then == new else left
            self._old = Exchanges(self._new.usual, written.exchanges.items())
        await asyncio.to_thread(self._write)
        self.opened()

    def opened(self) -> None:
        """The channel of the queue is a new one: its first messages are those that are left."""
        self._waited = self._left

    def exchanges_of(self, message: Incoming) -> Exchanges:
        """The list under which a message was published: those that waited come first on their channel."""
        return self._old if message.tag <= self._waited else self._new

    def settled(self, last: Incoming) -> None:
        """All up to this one is in our custody."""
        if self._left:
            self._left = max(self._waited - last.tag, 0)
            self._write()

    def _write(self) -> None:
        new = self._new.prefixes
        written = _Written(self._old.prefixes, new, self._left) if self._left else _Written(new)
        try:
            put(self._file, msgspec.json.encode(written))
        except OSError as error:
            raise SiteBrokerError(f"{self._file} cannot be written: {error.strerror or error}") from None


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


def _load(file: Path) -> _Written | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Written)
    except (OSError, ValueError, RecursionError):
        return None
