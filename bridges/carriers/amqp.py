"""The AMQP carrier: links over the parent's RabbitMQ, on amqp:// and amqps://, with pika.

Each side hears on a queue of its own: exclusive, auto-delete, bounded, with `reject-publish`, so nothing
outlives a link and nothing is dropped in silence. Every message is mandatory and confirmed: one that no queue
took, or a full one, ends the link. Messages that came in one go are acknowledged together; nothing is ever
put back.

Wrinkle: the child publishes to a topic exchange of the tree, never to the default exchange, because write
permission there would let it reach every queue of the virtual host.
Wrinkle: a RabbitMQ in want of memory or disk stops reading from us; then the link's keep-alive ends the link.
"""

import asyncio
import contextlib
import secrets
from typing import Final

import pika

from bridges.amqp.connection import Channel, Connection, Returned
from bridges.amqp.errors import AmqpAbsent, AmqpError
from bridges.amqp.frames import Incoming
from bridges.amqp.server import Server
from bridges.carriers.base import BUFFER_BYTES, CLOSE_TIMEOUT, CarrierAbsent, CarrierBroken
from bridges.carriers.brokered.line import Broker, BrokerAccess, BrokerLine, Ear
from bridges.carriers.brokered.names import Queues
from bridges.carriers.brokered.window import MAX_ENVELOPES
from bridges.tls import client_context

MAX_MESSAGE: Final = 128 * 1024 * 1024
_MARK_BYTES: Final = 6
_QUEUE: Final = {
    "x-max-length": 4 * MAX_ENVELOPES,
    "x-max-length-bytes": 4 * BUFFER_BYTES,
    "x-overflow": "reject-publish",
}
_TRANSIENT: Final = pika.BasicProperties(delivery_mode=1, content_type="application/msgpack")
_OPENING: Final = 60.0


class AmqpBroker(Broker):
    """One RabbitMQ. `tree`: its name is part of every queue's and key's name."""

    def __init__(self, access: BrokerAccess, tree: str) -> None:
        scheme = "amqps" if access.tls else "amqp"
        vhost = "" if access.vhost == "/" else f"/{access.vhost}"
        self.uri = f"{scheme}://{access.host}:{access.port}{vhost}"
        self._access = access
        self._tree = tree
        self._queues = Queues(tree)

    def __repr__(self) -> str:
        return f"<AmqpBroker {self.uri} tree={self._tree}>"

    async def knock(self, child: str, half: str, knock: bytes, last_words: bytes, ear: Ear) -> BrokerLine:
        queues = self._queues
        line = _AmqpLine(self.uri, f"sapwood link of {child}", child, queues.exchange, queues.up(child), ear)
        queue = queues.down_queue(child, half)
        await line.open(self._access, queue, "")
        line.publish(queues.exchange, queues.knock(child), knock)
        return line

    async def answer(self, child: str, half: str, last_words: bytes, ear: Ear) -> BrokerLine:
        queues = self._queues
        line = _AmqpLine(self.uri, f"sapwood link to {child}", child, "", queues.down_queue(child, half), ear)
        queue = queues.up_queue(child, secrets.token_hex(_MARK_BYTES))
        await line.open(self._access, queue, queues.exchange, queues.up(child))
        return line

    async def listen(self, ear: Ear) -> BrokerLine:
        queues = self._queues
        line = _AmqpLine(self.uri, "sapwood knocks", "", queues.exchange, queues.parents, ear)
        queue = queues.knocks_queue(secrets.token_hex(_MARK_BYTES))
        await line.open(self._access, queue, queues.exchange, queues.knocks, queues.parents)
        return line


def broker(access: BrokerAccess, tree: str, max_packet: int) -> Broker:
    """For the registry."""
    return AmqpBroker(access, tree)


class _AmqpLine(BrokerLine):
    """One connection with one channel: hears on a queue, says to one exchange with one key."""

    max_message = MAX_MESSAGE

    def __init__(self, uri: str, name: str, child: str, exchange: str, key: str, ear: Ear) -> None:
        self._uri = uri
        self._name = name
        self._child = child
        self._exchange = exchange
        self._key = key
        self._ear = ear
        self._said = 0
        self._confirmed = 0
        self._heard_tag = 0
        self._over = False
        self._settled = asyncio.Event()
        self._settled.set()
        self._connection: Connection | None = None
        self._channel: Channel

    def __repr__(self) -> str:
        return f"<_AmqpLine {self._name} over {self._uri}, {self._said - self._confirmed} unconfirmed>"

    # --- opening

    async def open(self, access: BrokerAccess, queue: str, exchange: str, *keys: str) -> None:
        """Declare the queue that we hear on, and bind it to the tree's exchange if one is named."""
        try:
            await self._open(access, queue, exchange, *keys)
        except AmqpError as error:
            await self.close()
            kind = CarrierAbsent if isinstance(error, AmqpAbsent) else CarrierBroken
            raise kind(self._explained(str(error))) from None
        except BaseException:
            await self.close()
            raise

    async def _open(self, access: BrokerAccess, queue: str, exchange: str, *keys: str) -> None:
        connection = self._connection = await Connection.open(_server(access, self._uri, self._name))
        channel = self._channel = await connection.channel(confirms=True)
        channel.on_confirm = self._was_confirmed
        channel.on_return = self._was_returned
        await channel.declare(queue, exclusive=True, auto_delete=True, arguments=_QUEUE)
        if exchange:
            await channel.declare_exchange(exchange)
            for key in keys:
                await channel.bind(queue, exchange, key)
        await channel.prefetch(2 * MAX_ENVELOPES)
        channel.on_cancelled = lambda _consumer: self._end("the broker has deleted our queue")
        await channel.consume(queue, self._was_told, exclusive=True)
        channel.ended.add_done_callback(lambda ended: self._end(str(ended.result())))

    def _was_told(self, message: Incoming) -> None:
        if not self._heard_tag:
            asyncio.get_running_loop().call_soon(self._acknowledge)
        self._heard_tag = message.tag
        if not self._over:
            self._ear.heard(self._child or Queues.child_of(message.key), message.body)

    def _acknowledge(self) -> None:
        """All that has been heard since the last time."""
        tag, self._heard_tag = self._heard_tag, 0
        if not self._over:
            with contextlib.suppress(AmqpError):
                self._channel.acknowledge(tag, multiple=True)

    # --- saying

    def say(self, message: bytes) -> None:
        self.publish(self._exchange, self._key, message)

    def publish(self, exchange: str, key: str, message: bytes) -> None:
        if self._over:
            return
        self._said += 1
        self._settled.clear()
        try:
            self._channel.publish(exchange, key, message, _TRANSIENT, mandatory=True)
        except AmqpError as error:
            self._end(str(error))

    def _was_confirmed(self, tag: int, multiple: bool, good: bool) -> None:
        """RabbitMQ may confirm out of order; a link has so few under way that counting does."""
        if not good:
            self._end("the queue of the other node is full, or has failed: the broker refused a message")
            return
        self._confirmed = max(self._confirmed, tag) if multiple else self._confirmed + 1
        if self._confirmed >= self._said:
            self._settled.set()

    def _was_returned(self, returned: Returned) -> None:
        self._end("the broker is there, but no node listens behind it")

    # --- the end

    def _end(self, text: str) -> None:
        if self._over:
            return
        self._over = True
        self._settled.set()
        blocked = self._connection.blocked if self._connection else ""
        note = f" (it had stopped taking messages: {blocked})" if blocked else ""
        self._ear.lost(CarrierBroken(self._explained(text) + note))

    def _explained(self, text: str) -> str:
        hint = ""
        if "ACCESS_REFUSED" in text:
            hint = "; sapwood config acl prints the permissions that a link needs"
        elif "NOT_FOUND" in text and "exchange" in text:
            hint = "; no node listens behind this broker"
        place = self._uri.partition("://")[2].partition("/")[0]
        return f"{self._uri}: {text.removeprefix(place).lstrip()}{hint}"

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not self._over:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._settled.wait()
        self._over = True
        await connection.close()


def _server(access: BrokerAccess, uri: str, name: str) -> Server:
    return Server(
        uri=uri,
        user=access.user or "guest",
        password=access.password if access.user else "guest",
        tls=client_context(access.tls) if access.tls else None,
        name=name,
        timeout=_OPENING,
    )
