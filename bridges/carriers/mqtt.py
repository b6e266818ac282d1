"""The MQTT carrier: links over the parent's Mosquitto, on mqtt:// and mqtts://, with paho.

MQTT 5, clean start, session expiry 0, QoS 1, no retained messages: nothing outlives a link. Mosquitto says
at once when a publication reached nobody, and says `Gone` (a will) for a side that it has lost.
"""

import contextlib
import secrets
from typing import Final

from bridges.carriers.base import CarrierError
from bridges.carriers.brokered.envelopes import OVERHEAD
from bridges.carriers.brokered.line import Broker, BrokerAccess, BrokerLine, Ear
from bridges.carriers.brokered.names import Topics
from bridges.carriers.mqtt_client import LinkClient

_MARK_BYTES: Final = 6


class MqttBroker(Broker):
    """One broker that speaks MQTT 5. `tree`: part of every topic's name. `max_packet`: of links, bytes."""

    def __init__(self, access: BrokerAccess, tree: str, max_packet: int) -> None:
        self.uri = f"{'mqtts' if access.tls else 'mqtt'}://{access.host}:{access.port}"
        self._access = access
        self._tree = tree
        self._topics = Topics(tree)
        self._max_packet = max_packet

    def __repr__(self) -> str:
        return f"<MqttBroker {self.uri} tree={self._tree}>"

    async def knock(self, child: str, half: str, knock: bytes, last_words: bytes, ear: Ear) -> BrokerLine:
        topics = self._topics
        line = _MqttLine(self._access, self.uri, f"sapwood-{child}-{half}", topics, topics.up(child), ear)
        await line.open(topics.down(child), last_words, self._max_packet)
        line.paho.publish(topics.knock(child), knock)
        return line

    async def answer(self, child: str, half: str, last_words: bytes, ear: Ear) -> BrokerLine:
        topics = self._topics
        client_id = f"sapwood-link-{child}-{secrets.token_hex(_MARK_BYTES)}"
        line = _MqttLine(self._access, self.uri, client_id, topics, topics.down(child), ear)
        await line.open(topics.up(child), last_words, self._max_packet)
        return line

    async def listen(self, ear: Ear) -> BrokerLine:
        client_id = f"sapwood-knocks-{secrets.token_hex(_MARK_BYTES)}"
        topics = self._topics
        line = _MqttLine(self._access, self.uri, client_id, topics, topics.parents, ear)
        await line.open(topics.knocks, b"", self._max_packet)
        line.paho.ends_when_refused = False
        with contextlib.suppress(CarrierError):
            await line.paho.subscribe(topics.parents)
        return line


broker = MqttBroker


class _MqttLine(BrokerLine):
    """One connection: hears on one topic, says on another."""

    def __init__(
        self, access: BrokerAccess, uri: str, client_id: str, topics: Topics, says_on: str, ear: Ear
    ) -> None:
        self._access = access
        self._uri = uri
        self._client_id = client_id
        self._topics = topics
        self._says_on = says_on
        self._ear = ear
        self.paho: LinkClient

    def __repr__(self) -> str:
        return f"<_MqttLine {self._client_id} to {self._uri}>"

    async def open(self, hears: str, last_words: bytes, max_packet: int) -> None:
        self.paho = LinkClient(
            self._access,
            self._uri,
            self._client_id,
            on_message=self._heard,
            on_lost=self._ear.lost,
            receive_at_most=max_packet + OVERHEAD,
            will=(self._says_on, last_words) if last_words else None,
        )
        await self.paho.open()
        self.max_message = self.paho.max_packet
        try:
            await self.paho.subscribe(hears)
        except BaseException:
            await self.paho.close()
            raise

    def _heard(self, topic: str, message: bytes) -> None:
        self._ear.heard(self._topics.child_of(topic), message)

    def say(self, message: bytes) -> None:
        self.paho.publish(self._says_on, message)

    async def close(self) -> None:
        await self.paho.close()
