"""pika inside asyncio: connections and channels that can be awaited, errors that are ours.

Law: a channel or connection that has ended stays ended; whoever uses it opens a new one.

Wrinkle: a RabbitMQ in want of memory or disk stops reading from connections that publish, and then reads no
acknowledgement from them either. So nobody publishes on the connection on which he consumes.

Wrinkle: RabbitMQ answers a question that it does not like by closing the channel: ask where nothing else is
under way.
"""

import asyncio
import contextlib
import logging
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import pika
from pika.exceptions import (
    AMQPError,
    ChannelClosedByBroker,
    ConnectionClosed,
    ShortStringTooLong,
    UnsupportedAMQPFieldException,
)

from bridges.amqp.bulk import BulkConnection
from bridges.amqp.errors import AmqpError, AmqpLost, ChannelLost, Unencodable
from bridges.amqp.frames import Incoming
from bridges.amqp.login import said, why_not
from bridges.amqp.server import Server
from bridges.amqp.tables import said_properties

_CLOSE_TIMEOUT: Final = 3.0
_UNSPEAKABLE: Final = (
    ShortStringTooLong,
    UnsupportedAMQPFieldException,
    struct.error,
    OverflowError,
    TypeError,
    ValueError,
    RecursionError,
)
_BROKEN: Final = (AMQPError, RuntimeError, OSError)
"""Wrinkle: uvloop closes its watch of a socket that broke before pika has read the error; to write then
raises `RuntimeError`."""

# What goes wrong is raised as an error of ours; pika would log it as well, each time.
logging.getLogger("pika").setLevel(logging.CRITICAL)


class Declared(NamedTuple):
    """A broker's answer about a queue: `messages` that are ready, and its consumers, ours included."""

    queue: str
    messages: int
    consumers: int


class Returned(NamedTuple):
    """A mandatory message that no queue took."""

    code: int
    text: str
    properties: pika.BasicProperties


OnMessage = Callable[[Incoming], None]


class Connection:
    """One connection to a RabbitMQ. `ended`: done when it is no more, with what ended it.

    `blocked`: why the broker reads nothing of what is published here; '' while it does. `on_blocked` is
    called with it at each change.
    """

    def __init__(self, server: Server, raw: BulkConnection) -> None:
        self.server = server
        self.ended: asyncio.Future[AmqpLost] = asyncio.get_running_loop().create_future()
        self.blocked = ""
        self.on_blocked: Callable[[str], None] = lambda why: None
        self._raw = raw
        self._channels: set[Channel] = set()
        raw.add_on_close_callback(self._on_close)
        raw.add_on_connection_blocked_callback(self._on_blocked)
        raw.add_on_connection_unblocked_callback(self._on_unblocked)

    def __repr__(self) -> str:
        state = "ended" if self.ended.done() else "open"
        return f"<Connection {self.server.name} {state} channels={len(self._channels)}>"

    @classmethod
    async def open(cls, server: Server) -> "Connection":
        """Connect and log in. Raises `AmqpUnreachable`."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()

        def finished(result: Any) -> None:
            if not done.done():
                done.set_result(result)
            elif not isinstance(result, BaseException):
                result.close()

        BulkConnection.create_connection([server.parameters], finished, loop)
        result = await done
        if isinstance(result, BaseException):
            raise why_not(server, result)
        return cls(server, result)

    @property
    def is_open(self) -> bool:
        return not self.ended.done()

    @property
    def version(self) -> str:
        """The broker's version, as it says itself."""
        return str((self._raw.server_properties or {}).get("version", ""))

    async def channel(self, *, confirms: bool = False) -> "Channel":
        """A new channel. `confirms`: the broker says of each message published there that it has it."""
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        if not self.is_open:
            raise self.ended.result()

        def on_open(raw: Any) -> None:
            if not opened.done():
                opened.set_result(None)

        try:
            raw = self._raw.channel(on_open_callback=on_open)
        except _BROKEN as error:
            raise AmqpLost(f"no channel at {self.server.host}: {said(error)}") from None
        channel = Channel(self, raw, self._raw)
        self._channels.add(channel)
        await channel.reply(opened)
        if confirms:
            await channel.confirm()
        return channel

    def forget(self, channel: "Channel") -> None:
        self._channels.discard(channel)

    def _on_close(self, _raw: Any, error: BaseException) -> None:
        if isinstance(error, ConnectionClosed):
            lost = AmqpLost(said(error))
        else:
            where = f"{self.server.host}:{self.server.port}"
            lost = AmqpLost(f"the connection to {where} is lost: {said(error)}")
        if not self.ended.done():
            self.ended.set_result(lost)
        for channel in list(self._channels):
            channel.end(ChannelLost(0, str(lost)))

    def _on_blocked(self, _raw: Any, frame: Any) -> None:
        self.blocked = frame.method.reason or "the broker takes no messages now"
        self.on_blocked(self.blocked)

    def _on_unblocked(self, _raw: Any, _frame: Any) -> None:
        self.blocked = ""
        self.on_blocked("")

    async def close(self) -> None:
        """End it and all its channels. Never raises; idempotent."""
        if self.ended.done():
            return
        with contextlib.suppress(*_BROKEN, TimeoutError):
            self._raw.close()
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await asyncio.shield(self.ended)


class Channel:
    """One channel. `ended`: done when it is no more, with what ended it. Methods raise `ChannelLost` then."""

    def __init__(self, connection: Connection, raw: Any, bulk: BulkConnection) -> None:
        self.connection = connection
        self._number = int(raw)
        self._bulk = bulk
        self.ended: asyncio.Future[ChannelLost] = asyncio.get_running_loop().create_future()
        self.on_confirm: Callable[[int, bool, bool], None] = lambda tag, multiple, good: None
        self.on_return: Callable[[Returned], None] = lambda returned: None
        self.on_cancelled: Callable[[str], None] = lambda consumer: None
        self._raw = raw
        raw.add_on_close_callback(self._on_close)
        raw.add_on_cancel_callback(lambda frame: self.on_cancelled(frame.method.consumer_tag))
        raw.add_on_return_callback(self._on_return)

    def __repr__(self) -> str:
        return f"<Channel {self._number} of {self.connection!r}>"

    @property
    def is_open(self) -> bool:
        return not self.ended.done()

    def end(self, error: ChannelLost) -> None:
        """It is no more: tell who waits."""
        self.connection.forget(self)
        self._bulk.confirms.pop(self._number, None)
        if not self.ended.done():
            self.ended.set_result(error)

    def _on_close(self, _raw: Any, error: BaseException) -> None:
        if isinstance(error, ChannelClosedByBroker):
            self.end(ChannelLost(error.reply_code, error.reply_text))
        else:
            self.end(ChannelLost(0, said(error)))

    def _on_return(self, _channel: Any, method: Any, properties: pika.BasicProperties, _body: bytes) -> None:
        self.on_return(Returned(method.reply_code, method.reply_text, properties))

    async def reply(self, answer: "asyncio.Future[Any]") -> Any:
        """Wait for an answer; raise `ChannelLost` if the channel ends instead."""
        await asyncio.wait((answer, self.ended), return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        raise self.ended.result()

    async def _ask(self, call: Callable[..., Any], **arguments: Any) -> Any:
        """Call a method of pika that answers through a callback."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(frame: Any) -> None:
            if not answer.done():
                answer.set_result(frame.method)

        self._do(call, callback=answered, **arguments)
        return await self.reply(answer)

    def _do(self, call: Callable[..., Any], **arguments: Any) -> Any:
        if self.ended.done():
            raise self.ended.result()
        try:
            return call(**arguments)
        except _BROKEN as error:
            raise ChannelLost(0, said(error)) from None

    # --- queues

    async def declare(
        self,
        queue: str,
        *,
        passive: bool = False,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: dict[str, Any] | None = None,
    ) -> Declared:
        """Make a queue ('' = with a name of the broker's), or with `passive` only ask for it."""
        answer = await self._ask(
            self._raw.queue_declare,
            queue=queue,
            passive=passive,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments=arguments,
        )
        return Declared(answer.queue, answer.message_count, answer.consumer_count)

    def make(self, queue: str, arguments: dict[str, Any] | None) -> None:
        """Make a durable queue before what is published next, without waiting for an answer."""
        self._do(self._raw.queue_declare, queue=queue, durable=True, arguments=arguments)

    async def check_exchange(self, exchange: str) -> None:
        """Raise `ChannelLost` (404) if the exchange is not there."""
        await self._ask(self._raw.exchange_declare, exchange=exchange, passive=True)

    async def declare_exchange(self, exchange: str) -> None:
        """Make a topic exchange that outlives neither the broker nor its last binding."""
        await self._ask(
            self._raw.exchange_declare, exchange=exchange, exchange_type="topic", auto_delete=True
        )

    async def delete(self, queue: str, *, if_empty: bool = False) -> None:
        await self._ask(self._raw.queue_delete, queue=queue, if_empty=if_empty)

    async def bind(self, queue: str, exchange: str, key: str) -> None:
        await self._ask(self._raw.queue_bind, queue=queue, exchange=exchange, routing_key=key)

    async def unbind(self, queue: str, exchange: str, key: str) -> None:
        await self._ask(self._raw.queue_unbind, queue=queue, exchange=exchange, routing_key=key)

    # --- consuming

    async def prefetch(self, count: int) -> None:
        """At most so many messages that are not acknowledged, for each consumer that comes after."""
        await self._ask(self._raw.basic_qos, prefetch_count=count)

    async def consume(
        self,
        queue: str,
        on_message: OnMessage,
        *,
        tag: str | None = None,
        acknowledged: bool = True,
        exclusive: bool = False,
        priority: int = 0,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """Consume; returns the consumer's tag. `priority`: below 0 gives way to all plain consumers.

        `acknowledged`: messages stay at the broker until `acknowledge`.
        """

        answer = await self._ask(
            self._raw.basic_consume,
            queue=queue,
            on_message_callback=on_message,
            auto_ack=not acknowledged,
            exclusive=exclusive,
            consumer_tag=tag,
            arguments={**({"x-priority": priority} if priority else {}), **(arguments or {})} or None,
        )
        return str(answer.consumer_tag)

    async def cancel(self, consumer: str, *, of_stream: bool = False) -> None:
        """No more messages for a consumer, if it is there. Those that it has stay unacknowledged.

        Wrinkle: pika rejects those that are under way, which puts them back at once, but for consumers that
        acknowledge nothing. A stream knows no rejection: RabbitMQ 3 ends the connection for one.
        """
        if consumer not in self._raw.consumer_tags:
            return  # pika would never answer
        if of_stream:
            self._raw._consumers_with_noack.add(consumer)
        await self._ask(self._raw.basic_cancel, consumer_tag=consumer)

    def acknowledge(self, tag: int, *, multiple: bool = False) -> None:
        """Dealt with: the broker forgets it; `multiple`: and all before it on this channel."""
        self._do(self._acknowledge, tag=tag, multiple=multiple)

    def _acknowledge(self, tag: int, multiple: bool) -> None:
        self._raw._raise_if_not_open()
        self._bulk.acknowledge(self._number, tag, multiple)

    def reject(self, tag: int, *, requeue: bool) -> None:
        self._do(self._raw.basic_reject, delivery_tag=tag, requeue=requeue)

    # --- publishing

    async def confirm(self) -> None:
        """From here on `on_confirm(tag, multiple, good)` is called; messages are counted from 1."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        self._bulk.confirms[self._number] = lambda *said: self.on_confirm(*said)
        self._do(
            self._raw.confirm_delivery,
            ack_nack_callback=lambda frame: None,  # they go past pika
            callback=lambda frame: None if answer.done() else answer.set_result(None),
        )
        await self.reply(answer)

    def publish(
        self, exchange: str, key: str, body: bytes, properties: pika.BasicProperties, mandatory: bool = False
    ) -> None:
        """Buffer one message. Raises `ChannelLost`, `Unencodable`."""
        if self.ended.done():
            raise self.ended.result()
        try:
            self._raw._raise_if_not_open()
            header = said_properties(properties)
            if len(header) > (most := self._bulk.most_properties):
                large = f"properties of {len(header)} bytes: RabbitMQ takes {most} at most (frame_max)"
                raise Unencodable(large)
            self._bulk.publish(self._number, exchange, key, header, body, mandatory)
        except _UNSPEAKABLE as error:
            raise Unencodable(f"AMQP cannot say this: {said(error)[:200]}") from None
        except _BROKEN as error:
            raise ChannelLost(0, said(error)) from None

    async def close(self) -> None:
        """End it; what it has and did not acknowledge goes back. Never raises; idempotent."""
        if self.ended.done():
            return
        with contextlib.suppress(AmqpError, TimeoutError):
            self._do(self._raw.close)
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await asyncio.shield(self.ended)
