"""Messages of MQTT 5 and their properties, as those of the tree; those of 3.1.1 have none but their QoS."""

from typing import Final

from bridges.mqtt import properties
from bridges.mqtt.packets import Publish
from bridges.mqtt.properties import Name
from bridges.properties import for_packet, from_mqtt, of_packet, to_mqtt
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
    return Message(publish.payload, from_mqtt(of_packet(said), publish.qos, names.reply_from))


def qos_of(message: Message) -> int:
    """The QoS with which it was published; 1 where its sender has none."""
    foreign = message.properties.foreign
    return foreign.qos if foreign is not None else 1


def is_plain(message: Message, is_5: bool) -> bool:
    """Is it written with QoS 1 and without properties of its own? MQTT 3.1.1 writes none of any message."""
    return message.properties == _BARE if is_5 else qos_of(message) > 0


def written(message: Message, names: DoorNames, elapsed: int, identifier: int, alias: int) -> bytes:
    """The properties of a PUBLISH to a client. `elapsed`: ms of its expiry that are over."""
    said = for_packet(to_mqtt(message.properties, names.reply_to))
    if Name.MESSAGE_EXPIRY in said:
        said[Name.MESSAGE_EXPIRY] = max(said[Name.MESSAGE_EXPIRY] - elapsed // 1000, 1)
    if identifier:
        said[Name.SUBSCRIPTION_IDENTIFIER] = identifier
    if alias:
        said[Name.TOPIC_ALIAS] = alias
    return properties.written(said)
