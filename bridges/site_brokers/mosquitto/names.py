"""How queues, topics and nodes are spelled at an MQTT broker.

| in the tree         | MQTT                                                                             |
|---------------------|----------------------------------------------------------------------------------|
| `topic:a/b`         | topic `a/b`; read by `a/b`, `a/+`, `$share/GROUP/a/b`                            |
| `queue:NAME`        | topic `queue/NAME`; read by `$share/GROUP/queue/NAME`                            |
| `queue:NAME@NODE`   | topic `node/NODE/NAME`; on NODE itself it is `queue/NAME`. In NAME `+` and `#`   |
|                     | are `%2B` and `%23` here: RabbitMQ's names for direct replies hold them          |

`queue/` and `node/` are settings. Law: what lies under these prefixes is never a topic of the tree. A plain
subscription below them is this broker's own affair: it overhears, and makes no reader of a queue. The topics
of links that ride on this broker (`bridges.carriers.brokered.names`) are nothing of the tree either: whoever
took them would send what a link carries over a link.
"""

import re
from collections.abc import Callable
from typing import Final

from bridges.mqtt.texts import fits, is_plain
from bridges.site_brokers.base import SiteBrokerError
from config.site_brokers import MosquittoSettings
from sapwood.protocol.destinations import Destination, Kind, queue, topic
from sapwood.protocol.errors import InvalidName, PatternError, SapwoodError
from sapwood.protocol.names import node_name, queue_name
from treeconnector.patterns import (
    MANY,
    ONE,
    check_topic,
    from_mqtt,
    has_wildcard,
    name_from_mqtt,
    name_to_mqtt,
    to_mqtt,
)

SHARE: Final = "$share/"
OURS: Final = "$sapwood/bridge/"
_MAX_BYTES: Final = 65_535
_LINKS: Final = re.compile(r"sapwood/[^/]+/link/")


class Unspellable(SapwoodError):
    """A name that MQTT cannot spell."""


class Names:
    """The spelling of one site. `node`: this node's own name."""

    def __init__(self, settings: MosquittoSettings, node: str) -> None:
        self._node = node
        self._queues = settings.queue_prefix
        self._nodes = settings.node_prefix
        if self._queues.startswith(self._nodes) or self._nodes.startswith(self._queues):
            raise SiteBrokerError(
                f"queue_prefix {self._queues!r} and node_prefix {self._nodes!r}: one begins with the other;"
                " names below them could not be told apart"
            )

    def __repr__(self) -> str:
        return f"<Names of {self._node}: {self._queues}NAME, {self._nodes}NODE/NAME>"

    # --- consumers

    def consumed(self, text: str) -> Destination | None:
        """The destination that a client reads that has subscribed to this filter; None if that is nothing of
        the tree."""
        shared = text.startswith(SHARE)
        if shared:
            group, _, text = text.removeprefix(SHARE).partition("/")
            if not group or not text:
                return None
        if text.startswith("$") or _LINKS.match(text):
            return None
        try:
            if text.startswith(self._queues):
                name = text.removeprefix(self._queues)
                return None if not shared or has_wildcard(name) else queue(queue_name(name))
            return None if text.startswith(self._nodes) else topic(from_mqtt(text))
        except (InvalidName, PatternError):
            return None

    def why_left_out(self, text: str) -> str:
        """Why a filter makes no consumer though it might be meant to; '' if it is nothing of the tree."""
        group, _, plain = (
            text.removeprefix(SHARE).partition("/") if text.startswith(SHARE) else ("", "", text)
        )
        if plain.startswith(("$", self._nodes)) or _LINKS.match(plain):
            return ""
        if plain.startswith(self._queues):
            name = plain.removeprefix(self._queues)
            if not group:
                return ""
            return (
                f"a queue is read by its name: {name!r} is a pattern"
                if has_wildcard(name)
                else _fault(queue_name, name)
            )
        return _fault(from_mqtt, plain)

    def filter(self, wanted: Destination) -> str:
        """The filter with which to take what is wanted. Raises `Unspellable`: the broker would end the
        connection, or understand something else.
        """
        if wanted.kind == Kind.QUEUE:
            return self.topic(wanted)
        text = to_mqtt(wanted.name)
        if not fits(text):
            raise Unspellable(f"MQTT has no filter with control characters, or of such length: {text[:80]!r}")
        if text.startswith(("$", self._queues, self._nodes)):
            raise Unspellable(f"nothing that begins like {text[:80]!r} is a topic of the tree at this broker")
        return text

    @property
    def to_nodes(self) -> str:
        """The filter of all that is directed to a node."""
        return f"{self._nodes}+/#"

    # --- messages

    def topic(self, destination: Destination) -> str:
        """Where to publish what is for this destination. Raises `Unspellable`."""
        name = destination.name
        if destination.kind == Kind.QUEUE:
            name = self._queues + name
            if has_wildcard(name):
                raise Unspellable(
                    f"UNROUTABLE: MQTT has no topic {name[:80]!r}: '{ONE}' and '{MANY}' mean others"
                )
        if len(name.encode()) > _MAX_BYTES:
            raise Unspellable(f"UNROUTABLE: MQTT has no topic of {len(name.encode())} bytes")
        if not is_plain(name):
            raise Unspellable(f"UNROUTABLE: MQTT has no topic with control characters: {name[:80]!r}")
        if name.startswith("$"):
            raise Unspellable(f"UNROUTABLE: topics that begin with '$' are the broker's own: {name[:80]!r}")
        return name

    def destination(self, text: str) -> Destination | None:
        """The destination of a message published to this topic; None if it is nothing of the tree."""
        try:
            if text.startswith(self._nodes):
                node, _, name = text.removeprefix(self._nodes).partition("/")
                return queue(queue_name(name_from_mqtt(name)), node_name(node))
            if text.startswith(self._queues):
                return queue(queue_name(text.removeprefix(self._queues)))
            return None if text.startswith("$") or _LINKS.match(text) else topic(check_topic(text))
        except (InvalidName, PatternError):
            return None

    # --- replies

    def reply_from(self, response_topic: str) -> str:
        """Where an answer goes that an application here wants at this topic; a queue is this node's."""
        found = self.destination(response_topic)
        if found is None:
            return ""
        if found.kind == Kind.TOPIC:
            return str(found)
        return f"{found.name}@{found.node or self._node}"

    def asked_at(self, response_topic: str) -> Destination | None:
        """Where an answer is read at this broker; None if that is elsewhere, or nowhere."""
        found = self.destination(response_topic)
        if found is None or found.kind == Kind.TOPIC:
            return found
        return found._replace(node=self._node) if found.node in ("", self._node) else None

    def reply_to(self, reply_to: str) -> str:
        """The topic to which an application here answers; '' if there is none."""
        kind, _, name = reply_to.partition(":")
        if kind == Kind.TOPIC and name:
            return "" if has_wildcard(name) else name
        name, _, node = reply_to.removeprefix("queue:").partition("@")
        if not name:
            return ""
        if node in ("", self._node) and not has_wildcard(name):
            return self._queues + name
        return f"{self._nodes}{node or self._node}/{name_to_mqtt(name)}"


def _fault(read: Callable[[str], str], text: str) -> str:
    try:
        read(text)
    except (InvalidName, PatternError) as error:
        return str(error)
    return ""
