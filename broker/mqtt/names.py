"""How an MQTT client of a node calls what it sends to, and where it wants to be answered."""

from typing import Final

from bridges.mqtt.fields import PacketError
from broker.mqtt.reasons import Reason
from sapwood.protocol.destinations import Destination, Kind, queue, topic
from sapwood.protocol.errors import InvalidName, PatternError
from sapwood.protocol.names import node_name, queue_name
from treeconnector.patterns import has_wildcard, name_from_mqtt, name_to_mqtt, topic_from_mqtt

_OF_BROKERS: Final = ("$SYS", "$CONTROL", "$share")
"""First levels of topics that no application publishes to: brokers speak there, or are commanded."""


class DoorNames:
    """At one node. `prefix`: begins topics that are queues."""

    def __init__(self, prefix: str, node: str) -> None:
        self.prefix = prefix
        self._node = node

    def __repr__(self) -> str:
        return f"<DoorNames {self.prefix!r} at {self._node}>"

    def destination(self, name: str) -> Destination:
        """Where a message goes that is published to this topic. Raises `PacketError`."""
        try:
            if name.startswith(self.prefix) and len(name) > len(self.prefix):
                if has_wildcard(name):
                    raise PatternError(f"{name[:80]!r} is no queue: expected no wildcard ('+' or '#') in it")
                plain, _, node = name.removeprefix(self.prefix).partition("@")
                if node:
                    return queue(queue_name(name_from_mqtt(plain)), node_name(node))
                return queue(queue_name(plain))
            if name.startswith("$") and name.split("/", 1)[0] in _OF_BROKERS:
                raise PacketError(
                    f"{name[:80]!r}: no client publishes to topics of brokers", Reason.WRONG_TOPIC
                )
            return topic(topic_from_mqtt(name))
        except (InvalidName, PatternError) as error:
            raise PacketError(str(error), Reason.WRONG_TOPIC) from None

    def as_written(self, name: str) -> Destination:
        """Where a message was to go, also if that is nowhere."""
        if not name.startswith(self.prefix):
            return Destination(Kind.TOPIC, name)
        plain, _, node = name.removeprefix(self.prefix).partition("@")
        return Destination(Kind.QUEUE, plain, node)

    def topic(self, destination: Destination) -> str:
        """The topic under which a message is given."""
        return (self.prefix if destination.kind == Kind.QUEUE else "") + destination.name

    def reply_from(self, response_topic: str) -> str:
        """Where an answer goes that a client wants at this topic; a queue is this node's.

        Raises `PacketError`.
        """
        found = self.destination(response_topic)
        if found.kind == Kind.TOPIC:
            return str(found)
        return f"{found.name}@{found.node or self._node}"

    def reply_to(self, reply_to: str) -> str:
        """The topic to which a client here answers; '' if there is none."""
        kind, _, name = reply_to.partition(":")
        if kind == Kind.TOPIC and name:
            return "" if has_wildcard(name) else name
        name, _, node = reply_to.removeprefix("queue:").partition("@")
        if not name:
            return ""
        if node in ("", self._node) and not has_wildcard(name):
            return self.prefix + name
        return f"{self.prefix}{name_to_mqtt(name)}@{node or self._node}"
