"""Messages of MQTT 5 and their properties, as those of the tree; those of 3.1.1 have none but their QoS."""

from typing import Final

from bridges.mqtt import properties
from bridges.mqtt.packets import Publish
from bridges.mqtt.properties import Name
from bridges.properties import MqttProperties, from_mqtt, to_mqtt
from broker.mqtt.names import DoorNames
from sapwood.protocol.bundles import Foreign, Message
from sapwood.protocol.bundles import Properties as TreeProperties

_BARE: Final = TreeProperties()
_ONCE: Final = TreeProperties(foreign=Foreign(qos=2))


def message_of(publish: Publish, names: DoorNames) -> Message:
    """What is kept of a PUBLISH. Raises `PacketError` for a response topic that is none."""
    said = publish.properties
    if not said:
        return Message(publish.payload, _ONCE if publish.qos == 2 else _BARE)
    utf8 = said.get(Name.PAYLOAD_FORMAT)
    given = MqttProperties(
        content_type=said.get(Name.CONTENT_TYPE, ""),
        response_topic=said.get(Name.RESPONSE_TOPIC, ""),
        correlation=said.get(Name.CORRELATION_DATA, b""),
        user=said.get(Name.USER_PROPERTY, ()),
        expiry=said.get(Name.MESSAGE_EXPIRY),
        utf8=None if utf8 is None else bool(utf8),
    )
    return Message(publish.payload, from_mqtt(given, publish.qos, names.reply_from))


def qos_of(message: Message) -> int:
    """The QoS with which it was published; 1 where its sender has none."""
    foreign = message.properties.foreign
    return foreign.qos if foreign is not None else 1


def is_plain(message: Message, is_5: bool) -> bool:
    """Is it written with QoS 1 and without properties of its own? MQTT 3.1.1 writes none of any message."""
    return message.properties == _BARE if is_5 else qos_of(message) > 0


def written(message: Message, names: DoorNames, elapsed: int, identifier: int, alias: int) -> bytes:
    """The properties of a PUBLISH to a client. `elapsed`: ms of its expiry that are over."""
    given = to_mqtt(message.properties, names.reply_to)
    said: dict[Name, object] = {}
    if given.utf8 is not None:
        said[Name.PAYLOAD_FORMAT] = int(given.utf8)
    if given.expiry is not None:
        said[Name.MESSAGE_EXPIRY] = max(given.expiry - elapsed // 1000, 1)
    if given.content_type:
        said[Name.CONTENT_TYPE] = given.content_type
    if given.response_topic:
        said[Name.RESPONSE_TOPIC] = given.response_topic
    if given.correlation:
        said[Name.CORRELATION_DATA] = given.correlation
    if identifier:
        said[Name.SUBSCRIPTION_IDENTIFIER] = identifier
    if alias:
        said[Name.TOPIC_ALIAS] = alias
    if given.user:
        said[Name.USER_PROPERTY] = list(given.user)
    return properties.written(said)
