"""Topic aliases of MQTT 5: numbers that stand for topics on one connection, each direction its own."""

from collections.abc import Callable
from typing import Final

import msgspec

from bridges.mqtt.fields import PROTOCOL_ERROR, PacketError
from bridges.mqtt.packets import Publish
from bridges.mqtt.properties import Name
from broker.mqtt.reasons import Reason

MOST_ALIASES: Final = 64


class TopicAliases:
    """Those that a client sets."""

    def __init__(self) -> None:
        self._topics: dict[int, str] = {}

    def __repr__(self) -> str:
        return f"<TopicAliases {len(self._topics)}>"

    def resolved(self, publish: Publish) -> Publish:
        """With its topic. Raises `PacketError`."""
        alias = publish.properties.get(Name.TOPIC_ALIAS)
        if alias is None:
            if not publish.topic:
                raise PacketError("a PUBLISH with neither a topic nor an alias", PROTOCOL_ERROR)
            return publish
        if not 1 <= alias <= MOST_ALIASES:
            raise PacketError(
                f"topic alias {alias}: expected 1 to {MOST_ALIASES}", Reason.TOPIC_ALIAS_INVALID
            )
        if publish.topic:
            self._topics[alias] = publish.topic
            return publish
        if alias not in self._topics:
            raise PacketError(f"topic alias {alias} stands for no topic", PROTOCOL_ERROR)
        return msgspec.structs.replace(publish, topic=self._topics[alias])


class GivenAliases:
    """Those that the node sets: the first topics that a client is given have one, as many as it takes."""

    def __init__(self, most: int = 0) -> None:
        self._most = min(most, MOST_ALIASES)
        self._aliases: dict[bytes, int] = {}

    def __repr__(self) -> str:
        return f"<GivenAliases {len(self._aliases)} of {self._most}>"

    def is_new(self, topic: bytes) -> bool:
        """Does it get an alias with its next message?"""
        return len(self._aliases) < self._most and topic not in self._aliases

    def of(self, topic: bytes) -> tuple[bytes, int]:
        """The topic to write, and its alias; 0 = none."""
        alias = self._aliases.get(topic, 0)
        if alias:
            return b"", alias
        if self.is_new(topic):
            alias = self._aliases[topic] = len(self._aliases) + 1
        return topic, alias

    def packet(self, topic: bytes, written: Callable[[bytes, int], bytes], most: int) -> bytes:
        """The packet of a topic, `written` with what `of` says. A client that takes no more than `most` bytes
        does not learn of a new alias from a larger one: then the topic has none yet.
        """
        is_new = self.is_new(topic)
        packet = written(*self.of(topic))
        if is_new and len(packet) > most:
            del self._aliases[topic]
            packet = written(topic, 0)
        return packet
