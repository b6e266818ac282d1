"""The one queue through which topics are taken: durable, bound to the topic exchanges by what is wanted.

What is published while the node is away waits in it, up to a bound; then publishers with confirms are told.

Law: what it is bound by is written down here before it is bound, because AMQP has no question for that: so a
filter that nobody wants any more is unbound, even if the node was away when that happened.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from bridges.amqp.connection import Channel, Connection
from bridges.amqp.errors import NOT_FOUND, ChannelLost
from bridges.site_brokers.base import NotTaken
from bridges.site_brokers.rabbitmq.consumers import OURS
from bridges.site_brokers.rabbitmq.exchanges import Binding
from config.whole_files import put

_log = logging.getLogger("sapwood.site")
TOPICS: Final = f"{OURS}topics"
_FILE: Final = "rabbitmq-topics.json"
MOST_BYTES: Final = 256 * 1024 * 1024
_LANES: Final = 8
BIND_AGAIN: Final = 60.0


class _Lane:
    """A channel on which one binding is made after the other."""

    def __init__(self) -> None:
        self.channel: Channel | None = None


class Bindings:
    """Those of one connection. `not_taken` is told what the broker does not let us have.

    `usual`: the exchange of keys that an older version wrote down. `news`: call `settle`.
    """

    def __init__(self, connection: Connection, usual: str, directory: Path, not_taken: NotTaken) -> None:
        self._connection = connection
        self._usual = usual
        self._file = directory / _FILE
        self._not_taken = not_taken
        self.news = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None
        self._lanes = [_Lane() for _ in range(_LANES)]
        self._written: frozenset[Binding] | None = None
        self._bound: set[Binding] = set()
        self._declared = self._was_there = False

    def __repr__(self) -> str:
        return f"<Bindings of {TOPICS} bound={len(self._bound)}>"

    @property
    def has_none(self) -> bool:
        """Is nothing bound, nor was?"""
        return self._written == frozenset()

    def forget(self) -> None:
        """The queue is no more: make it anew."""
        self._declared = False
        self._bound = set()
        self.news.set()

    def lost(self, bindings: Iterable[Binding]) -> None:
        """By these it is bound no more: bind it anew, if they are wanted still. Without a key: the exchange
        was made. Our own unbinding is no news.
        """
        for each in bindings:
            if each in self._bound or not each.key:
                self._bound.discard(each)
                self.news.set()

    def _refused(self, key: str, text: str) -> None:
        """One timer for all, however often filters change meanwhile: each attempt would begin one more."""
        if self._again is None:
            self._again = asyncio.get_running_loop().call_later(BIND_AGAIN, self._try_again)
        self._not_taken.note(_shown(key), text)

    def _try_again(self) -> None:
        self._again = None
        self.news.set()

    async def settle(self, keys: frozenset[Binding]) -> bool:
        """Be bound by exactly these; whether there is a queue to consume. Raises `ChannelLost` (code 0)."""
        before = self._written
        if before is None:
            before = frozenset(await asyncio.to_thread(_load, self._file, self._usual))
        self._was_there = bool(before)
        if not keys and not before:
            self._written = frozenset()
            return self._declared
        self._declared = self._declared or await self._do(self._declare, Binding("", ""), self._lanes[0])
        if not self._declared:
            return False
        fresh, gone = keys - self._bound, before - keys
        if fresh or gone or self._written is None:
            await self._write(keys | before)
            await self._do_all(self._bind_one, fresh)
            await self._do_all(self._unbind_one, gone)
            await self._write(keys)
        return True

    async def _write(self, keys: Iterable[Binding]) -> None:
        self._written = frozenset(keys)
        await asyncio.to_thread(_save, self._file, sorted(self._written))

    async def _do_all(
        self, what: Callable[[Binding, _Lane], Awaitable[None]], keys: Iterable[Binding]
    ) -> None:
        """Several at once: the broker writes each to its disk before it answers."""
        rest = iter(sorted(keys))

        async def work(lane: _Lane) -> None:
            for key in rest:
                await what(key, lane)

        await asyncio.gather(*map(work, self._lanes))

    async def _bind_one(self, key: Binding, lane: _Lane) -> None:
        bound = self._bound  # of the queue that is there now: it may be gone when we know
        if await self._do(self._bind, key, lane):
            bound.add(key)

    async def _unbind_one(self, key: Binding, lane: _Lane) -> None:
        await self._do(self._unbind, key, lane)
        self._bound.discard(key)

    async def _do(
        self, what: Callable[[Channel, Binding], Awaitable[Any]], key: Binding, lane: _Lane
    ) -> bool:
        """Whether the broker let us; if not, it has closed the channel."""
        channel = lane.channel
        if channel is None or not channel.is_open:
            channel = lane.channel = await self._connection.channel()
        try:
            await what(channel, key)
        except ChannelLost as error:
            if error.code == 0:
                raise
            self._refused(key.key, error.text)
            return False
        self._not_taken.is_over(_shown(key.key))
        return True

    async def _declare(self, channel: Channel, _key: Binding) -> None:
        """Take the queue that is there: of the type that the virtual host gave it when it was made."""
        try:
            await channel.declare(TOPICS, passive=True)
        except ChannelLost as error:
            if error.code != NOT_FOUND:
                raise
            if self._was_there:
                _log.warning(
                    "! queue %r of this node had gone, and is made anew: what waited there is lost, and what"
                    " applications published meanwhile, unless it is of another virtual host than before",
                    TOPICS,
                )
            arguments = {"x-max-length-bytes": MOST_BYTES, "x-overflow": "reject-publish"}
            fresh = await self._connection.channel()
            await fresh.declare(TOPICS, durable=True, arguments=arguments)
            await fresh.close()

    async def _bind(self, channel: Channel, key: Binding) -> None:
        await channel.bind(TOPICS, *key)

    async def _unbind(self, channel: Channel, key: Binding) -> None:
        await channel.unbind(TOPICS, *key)


def _shown(key: str) -> str:
    return f"topic {key}" if key else f"queue:{TOPICS}"


def _load(file: Path, usual: str) -> list[Binding]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return list(_bindings(found, usual)) if isinstance(found, list) else []


def _bindings(found: list[Any], usual: str) -> Iterator[Binding]:
    for each in found:
        match each:
            case str(key):
                yield Binding(usual, key)
            case [str(exchange), str(key)]:
                yield Binding(exchange, key)


def _save(file: Path, keys: list[Binding]) -> None:
    put(file, json.dumps(keys).encode())
