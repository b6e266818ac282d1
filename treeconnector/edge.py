"""What passes between a node and the broker of its site's applications, as values.

The port itself is `bridges.site_brokers.base`; what a broker is to the tree is `broker.core.site.site`.

Those that are made for each message are structs: a NamedTuple takes three times as long to make, and the
collector looks at it.
"""

from typing import Final, NamedTuple

import msgspec

from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination

CREDIT: Final = 500
"""Deliveries that may be unanswered at once, for one queue, or for all topics together."""


class BrokerConsumer(NamedTuple):
    """Somebody at the broker who reads a queue or a topic filter. `id` tells consumers of one key apart.

    `queue:NAME@NODE` with this node's own name: only what is directed here, as replies are; no other node is
    told of that consumer.
    """

    destination: Destination
    id: str


class Taken(msgspec.Struct, frozen=True, gc=False):
    """A message that was taken from the broker, for the tree.

    `persistent` False: it may be lost where a line is down (MQTT QoS 0). `retained`: the topic's last value.
    `key`: what it has in common with its repetition, if the broker gives it again for want of our answer, and
    with no other message that we have answered or not; '' = nothing. `again`: the broker says that it may
    be such a repetition; only then is `key` looked up. `odd`: why it cannot go into the tree: it is a dead
    letter with this text.
    """

    destination: Destination
    message: Message
    persistent: bool = True
    retained: bool = False
    key: str = ""
    again: bool = False
    odd: str = ""


class BrokerDelivery(msgspec.Struct, frozen=True, gc=False):
    """A message for the broker. `id`: to confirm or refuse it by. `again`: it may have been given before.

    `message.properties.expires_in` is what remains of it now. `persistent` False: confirm it once it is
    sent; no answer of the broker is needed. `alone`: it is for this consumer at the broker
    and for nobody else there. `name`: the message's, for ever and anywhere, where it is retained.
    `at`: the node's running time; what is given again keeps its id.
    """

    id: int
    destination: Destination
    message: Message
    persistent: bool
    retained: bool
    again: bool
    alone: BrokerConsumer | None = None
    name: bytes = b""
    at: float = 0.0
