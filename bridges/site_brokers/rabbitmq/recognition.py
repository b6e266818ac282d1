"""Is a stream the one that was taken from before, or another one of the same name?

No protocol tells. So reading begins with the message that was taken last: it has the offset and the digest
that were written down, or what is there now is another stream, of which nothing was taken. Where that message
has gone since, because a stream keeps no more, the first that is there has a higher offset.

Law: what was published is never left out for a stream that was taken for another one's continuation. Where it
is the other way round, messages come twice, under the keys that they had.

Wrinkle: RabbitMQ keeps whoever asks for an offset beyond the end waiting, and gives him nothing of what comes
below it. So a second consumer is there for a moment, at the last messages of the stream. One channel reads in
the order in which it was asked: a stream that has the second one's message before it has any for the first
ends before the offset.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bridges.amqp.connection import Channel, OnMessage
from bridges.amqp.errors import ChannelLost
from bridges.amqp.frames import Incoming
from bridges.site_brokers.base import SiteBrokerError
from bridges.site_brokers.rabbitmq.streams import OFFSET, WHOLE, Position, Streams, digest_of, offset_of

_AT_THE_END: Final = ".end"


class Recognition:
    """One consumer of a stream, on a channel of its own, under one `tag`. `came`: gets what is new.

    `is_leaving`: whether nothing more is wanted. `failed`: called with what ends the visit.
    """

    def __init__(
        self,
        streams: Streams,
        name: str,
        channel: Channel,
        tag: str,
        came: OnMessage,
        is_leaving: Callable[[], bool],
        failed: Callable[[SiteBrokerError], None],
    ) -> None:
        self._streams = streams
        self._name = name
        self._channel = channel
        self._tag = tag
        self._came = came
        self._is_leaving = is_leaving
        self._failed = failed
        self._last = WHOLE
        self._is_known = self._is_another = self._is_looking = False
        self._deciding: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Recognition {self._name} last={self._last.offset} known={self._is_known}>"

    async def begin(self) -> None:
        """Consume from where the last one ended. Raises `ChannelLost`."""
        last = self._streams.begin(self._name)
        if last is None or last.offset < 0:
            self._is_known = True
            await self._consume(self._tag, self._read, "next" if last is None else "first")
            return
        self._last = last
        await self._consume(self._tag, self._read, last.offset)
        self._is_looking = True
        await self._consume(self._tag + _AT_THE_END, self._look, "last")

    async def _consume(self, tag: str, read: OnMessage, where: str | int) -> None:
        await self._channel.consume(self._name, read, tag=tag, arguments={OFFSET: where})

    def _read(self, message: Incoming) -> None:
        if self._is_known:
            self._came(message)
        elif self._is_another:
            return
        elif _continues(message, self._last):
            self._is_known = True
            if offset_of(message) != self._last.offset:
                self._came(message)
        else:
            self._is_another = True
            self._decide(self._last.offset)

    def _look(self, message: Incoming) -> None:
        """One of the last messages, after all that there may be for the first consumer."""
        if self._is_looking:
            self._decide(offset_of(message) or 0)

    def _decide(self, end: int) -> None:
        if self._deciding is None or self._deciding.done():
            self._deciding = asyncio.ensure_future(self._guarded(self._begin_anew_if_another(end)))

    async def _begin_anew_if_another(self, end: int) -> None:
        """`end`: the offset of a message near the end of the stream."""
        if self._is_looking:
            self._is_looking = False
            await self._channel.cancel(self._tag + _AT_THE_END, of_stream=True)
        if self._is_known or not (self._is_another or end < self._last.offset):
            return
        self._is_another = True
        await self._channel.cancel(self._tag, of_stream=True)
        self._streams.renew(self._name)
        if not self._is_leaving():
            await self.begin()

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ChannelLost:
            pass  # whoever opened the channel hears of it
        except SiteBrokerError as error:
            self._failed(error)


def _continues(message: Incoming, last: Position) -> bool:
    """May it be read after `last`, or be `last` itself?"""
    offset = offset_of(message)
    if offset is None or offset < last.offset:
        return False
    return offset > last.offset or last.digest in ("", digest_of(message))
