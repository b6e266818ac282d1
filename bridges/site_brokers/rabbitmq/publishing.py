"""Publishing with confirms in a window; a message that the broker refuses does not block those behind it.

Each message that is given out ends in one of three ways: the broker has it, the broker refuses it (with a
reason), or the connection is lost first, and then it is the giver's again.

Law: `done` is called once at most, and only with what the broker said.

Wrinkle: RabbitMQ says no in three ways. A message that no queue takes is returned, and then confirmed. One
that a full queue rejects is confirmed negatively, and so is one for a queue that goes at that moment: it is
published once more, and returned then, or rejected again. One that is too large, or that we may not publish
there, closes the channel, and nothing says which it was: whatever was under way is then published again, one
by one, until the one that closes the channel by itself is found. Those before it may be doubled by this, and
say so.

Wrinkle: which message was returned is known by the number in its mark, a header that each message gets.
"""

import asyncio
import contextlib
import secrets
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pika

from bridges.amqp.connection import Channel, Connection, Returned
from bridges.amqp.errors import ChannelLost, Unencodable
from bridges.properties import AGAIN
from bridges.site_brokers.rabbitmq.messages import MARK, mark, number_of

NO_QUEUE: Final = "QUEUE_DOES_NOT_EXIST"
REFUSED: Final = "REFUSED_BY_BROKER"
WINDOW: Final = 1024
WINDOW_BYTES: Final = 8 * 1024 * 1024


class Refused(NamedTuple):
    """The broker does not take a message. `reason`: one word in capitals; `text`: what the broker said."""

    reason: str
    text: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.text}"


Done = Callable[[Refused | None], None]


class Outgoing(NamedTuple):
    """One message. `mandatory`: it is refused where no queue takes it. `done`: called with the outcome.

    `first`: a queue to make before it is published, with `arguments`, where it is not there. `again`: it was
    rejected before.
    """

    exchange: str
    key: str
    body: bytes
    properties: pika.BasicProperties
    mandatory: bool
    done: Done
    first: str = ""
    arguments: dict[str, Any] | None = None
    again: bool = False


class Publisher:
    """Publishes on a connection of its own, which nobody consumes on. `give` messages while `run` runs.

    `node`: who marks the messages. `window`: most messages without an answer. Caller's duty: what he gives
    and has no answer to is bounded.
    """

    def __init__(self, connection: Connection, node: str, window: int = WINDOW) -> None:
        self._connection = connection
        self._node = node
        self._window = window
        self._channel: Channel | None = None
        self._visit = ""
        self._number = 0
        self._bytes = 0
        self._waiting: deque[Outgoing] = deque()
        self._under_way: OrderedDict[int, Outgoing] = OrderedDict()
        self._again: deque[Outgoing] = deque()
        self._doubted = 0
        self._returned: dict[int, Refused] = {}
        self._news = asyncio.Event()
        self._is_alone = False
        self.confirmed = self.refused = self.repeated = 0

    def __repr__(self) -> str:
        counts = f"confirmed={self.confirmed} refused={self.refused} outstanding={len(self)}"
        return f"<Publisher of {self._node} {counts}>"

    def __len__(self) -> int:
        """How many messages were given and have no answer."""
        return len(self._under_way) + len(self._again) + len(self._waiting)

    def give(self, message: Outgoing) -> None:
        """Publish this after what was given before: at once, where nothing stands in its way."""
        channel = self._channel
        if channel is None or not channel.is_open or not self._has_room or self._waits:
            self._waiting.append(message)
            self._news.set()
            return
        with contextlib.suppress(ChannelLost):  # whoever runs is told of that as well
            self._put(channel, message)

    async def run(self) -> None:
        """Publish until the connection is lost, which raises `AmqpError`; the answers are lost with it."""
        while True:
            channel = await self._open_channel()
            while self._waiting and channel.is_open and self._has_room:
                self._put(channel, self._waiting.popleft())
            await self._wait(channel)

    @property
    def _waits(self) -> bool:
        """Does somebody wait for answers, to publish more?"""
        return bool(self._waiting or self._again or self._is_alone)

    @property
    def _has_room(self) -> bool:
        return len(self._under_way) < self._window and self._bytes < WINDOW_BYTES

    async def _wait(self, channel: Channel) -> None:
        """For an answer, for more to publish, or for the channel's end."""
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((news, channel.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        self._news.clear()

    async def _open_channel(self) -> Channel:
        """The channel; after the broker closed one, once it is known which message was the reason."""
        while True:
            channel = self._channel
            if channel is None:
                channel = self._channel = await self._fresh()
            if channel.is_open and not self._again:
                return channel
            if channel.is_open:
                await self._alone(channel, self._again.popleft())
            else:
                self._take_back(channel.ended.result())

    async def _fresh(self) -> Channel:
        channel = await self._connection.channel(confirms=True)
        channel.on_confirm = self._confirmed
        channel.on_return = self._return
        self._visit = secrets.token_hex(6)
        self._number = self._bytes = 0
        self._returned.clear()
        return channel

    def _take_back(self, error: ChannelLost) -> None:
        """The broker closed the channel, for one of the messages that were under way."""
        if error.code == 0:
            raise error
        self._channel = None
        self._doubted = len(self._under_way)
        self._again.extendleft(reversed(self._under_way.values()))
        self._under_way.clear()

    async def _alone(self, channel: Channel, message: Outgoing) -> None:
        """Publish one message and wait for its answer; if it closes the channel, it is refused."""
        self.repeated += 1
        self._is_alone = True
        if self._doubted:
            self._doubted -= 1
            message.properties.headers = {**(message.properties.headers or {}), AGAIN: True}
        self._put(channel, message)
        while self._under_way and channel.is_open:
            await self._wait(channel)
        self._is_alone = False
        if self._under_way and (error := channel.ended.result()).code:
            self._under_way.clear()
            self._settle(message, Refused(REFUSED, error.text))

    def _put(self, channel: Channel, message: Outgoing) -> None:
        number = self._number + 1
        marked = mark(self._node, number, message.exchange, message.key, self._visit)
        message.properties.headers = {**(message.properties.headers or {}), MARK: marked}
        self._number = number
        self._under_way[number] = message
        self._bytes += len(message.body)
        try:
            if message.first:
                channel.make(message.first, message.arguments)
            channel.publish(
                message.exchange, message.key, message.body, message.properties, message.mandatory
            )
        except Unencodable as error:
            del self._under_way[number]
            self._number -= 1
            self._bytes -= len(message.body)
            self._settle(message, Refused(REFUSED, str(error)))

    # --- answers

    def _return(self, returned: Returned) -> None:
        number = number_of(returned.properties)
        self._returned[number] = Refused(NO_QUEUE, f"the broker has no such queue: {returned.text}")

    def _confirmed(self, tag: int, multiple: bool, good: bool) -> None:
        first = next(iter(self._under_way), tag) if multiple else tag
        for number in range(first, tag + 1):
            message = self._under_way.pop(number, None)
            if message is None:
                continue
            self._bytes -= len(message.body)
            refused = self._returned.pop(number, None)
            if not good and not message.exchange and not message.again:
                self.repeated += 1
                self._waiting.appendleft(message._replace(again=True))
                continue
            if not good:
                refused = Refused(REFUSED, _rejected(message))
            self._settle(message, refused)
        if self._waits:
            self._news.set()

    def _settle(self, message: Outgoing, refused: Refused | None) -> None:
        if refused is None:
            self.confirmed += 1
        else:
            self.refused += 1
        message.done(refused)


def _rejected(message: Outgoing) -> str:
    """Of several queues one is enough."""
    if not message.exchange:
        return f"queue {message.key!r} does not take it (full?)"
    where = f"exchange {message.exchange!r} by {message.key[:80]!r}"
    return f"a queue bound to {where} does not take it (full?); others may have it"
