"""Messages between RabbitMQ and the tree: their destination, their properties, and the mark that tells whose
they are.

Every message that a node gives to its broker has a header `x-sapwood`: the node, a number, and a check of
exchange and key. A message that comes back through the topic exchange with a mark that fits was given by a
node, and goes nowhere; an application that sends a message on, headers and all, to somewhere else is not
mistaken.

Wrinkle: what was given to a queue may be taken back from it, and only when nobody reads it there any more:
so it follows the queue's readers, as any message that waits does. By its mark it is another one than before:
what was given to the broker is in its custody, and counts as taken only once it is taken again.
"""

import zlib
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

import pika
from msgspec import structs

from bridges.amqp.frames import Incoming
from bridges.properties import from_amqp, to_amqp
from bridges.site_brokers.base import unanswerable
from bridges.site_brokers.rabbitmq import amqp_1_0
from bridges.site_brokers.rabbitmq.exchanges import Binding, Exchanges
from bridges.site_brokers.rabbitmq.streams import OFFSET
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination, Kind, queue, topic
from sapwood.protocol.errors import PatternError
from treeconnector.edge import BrokerDelivery, Taken
from treeconnector.patterns import MANY, ONE, topic_from_amqp

MARK: Final = "x-sapwood"
TOPIC: Final = "sapwood-topic"
"""The routing key of a message that a consumer was given alone, since it was retained before he came."""
_LONGEST_TEXT: Final = 300

Spell = Callable[[str], str]


def mark(node: str, number: int, exchange: str, key: str, visit: str = "") -> str:
    """`number` counts within a `visit`, and `visit` is never the same again."""
    return f"{node}/{number}/{visit}/{_check(exchange, key)}"


def _check(exchange: str, key: str) -> str:
    return f"{zlib.crc32(f'{exchange}/{key}'.encode()):08x}"


def is_ours(properties: pika.BasicProperties, exchange: str, key: str) -> bool:
    """Did a node give this message to this exchange with this key?"""
    text = (properties.headers or {}).get(MARK)
    return isinstance(text, str) and text.endswith(f"/{_check(exchange, key)}")


def giver_of(message: Incoming) -> str:
    """The node that gave this message to this exchange with this key; '' if none did."""
    if not message.properties.headers or not is_ours(message.properties, message.exchange, message.key):
        return ""
    return str(message.properties.headers[MARK]).partition("/")[0]


def number_of(properties: pika.BasicProperties) -> int:
    """The number in a message's mark, 0 if it has none."""
    text = (properties.headers or {}).get(MARK)
    parts = text.split("/") if isinstance(text, str) else []
    return int(parts[1]) if len(parts) == 4 and parts[1].isdecimal() else 0


def taken_from_queue(name: str, message: Incoming, reply: Spell) -> Taken:
    """A message of a queue, for the tree."""
    return _taken(queue(name), name, message, reply)


def taken_from_stream(
    name: str, message: Incoming, offset: int, reply: Spell, *, doubtful: bool
) -> Taken | None:
    """A message of a stream, which keeps those that a node gave to it, too: these are None."""
    if is_ours(message.properties, message.exchange, message.key):
        return None
    taken = _taken(queue(name), name, message, reply)
    taken.message.properties.headers.pop(OFFSET, None)
    return structs.replace(taken, key=_digest(f"{name}\n{offset}", message.body), again=doubtful)


def taken_from_topic(message: Incoming, exchanges: Exchanges, reply: Spell) -> Taken | None:
    """A message of a topic exchange; None if a node gave it. A key that is no topic makes a dead letter."""
    if is_ours(message.properties, message.exchange, message.key):
        return None
    try:
        destination = topic(exchanges.topic(message.exchange, message.key))
    except PatternError as error:
        destination = Destination(Kind.TOPIC, message.key.replace("*", ONE).replace("#", MANY))
        return structs.replace(_taken(destination, "", message, reply), odd=f"DESTINATION: {error}")
    return _taken(destination, "", message, reply)


def taken_astray(message: Incoming, fed: str, reply: Spell) -> Taken:
    """A message of an exchange that is not listed and feeds `fed`: nobody can tell of which topic it is."""
    why = f"it was published to exchange {message.exchange!r}, and {fed!r} is bound to that"
    try:
        name = topic_from_amqp(message.key)
    except PatternError:
        name = message.key
    odd = f"DESTINATION: {why}: list it under exchanges"
    return structs.replace(_taken(Destination(Kind.TOPIC, name), "", message, reply), odd=odd)


def unreadable(message: Incoming, mistake: Exception) -> Taken:
    """A message that cannot be read: its body alone, for the dead letters."""
    text = f"UNREADABLE: a message of exchange {message.exchange!r}, key {message.key!r}: {mistake!r}"
    return Taken(topic("unreadable"), Message(message.body), odd=text[:_LONGEST_TEXT])


def taken_for(destination: Destination, message: Incoming, reply: Spell) -> Taken:
    """A message that goes to `destination`, wherever it was found."""
    return _taken(destination, str(destination), message, reply)


def _taken(destination: Destination, place: str, message: Incoming, reply: Spell) -> Taken:
    said, body = amqp_1_0.plain(message.properties, message.body)
    properties, retained = from_amqp(said, reply)
    given = properties.headers.pop(MARK, None)
    asked = message.properties.reply_to
    key = f"{place}\n{message.properties.app_id or ''}\n{properties.message_id}\n{given or ''}\n"
    return Taken(
        destination,
        Message(body, properties),
        retained=retained and destination.kind == Kind.TOPIC,
        key=_digest(key, message.body) if properties.message_id else "",
        again=message.redelivered,
        odd=unanswerable(asked) if asked and not properties.reply_to else "",
    )


def _digest(key: str, body: bytes) -> str:
    return blake2b(body, key=blake2b(key.encode(), digest_size=32).digest(), digest_size=16).hexdigest()


def address_of(delivery: BrokerDelivery, exchanges: Exchanges) -> Binding:
    """Exchange and routing key for a delivery. Raises `PatternError` if AMQP has no room for its topic."""
    destination = delivery.destination
    if destination.kind == Kind.TOPIC:
        return exchanges.address(destination.name)
    return Binding("", destination.name)


def properties_of(delivery: BrokerDelivery, reply: Spell) -> pika.BasicProperties:
    given: dict[str, Any] = to_amqp(delivery.message.properties, delivery.retained, reply, delivery.again)
    return pika.BasicProperties(**given)
