"""Between the properties of packets and ours, and why a message is refused."""

from typing import Final

from bridges.mqtt import properties
from bridges.mqtt.properties import Name
from bridges.properties import NO_PROPERTIES, MqttProperties, for_packet, of_packet

REASONS: Final = {
    0x87: "NOT_AUTHORIZED",
    0x90: "UNROUTABLE",
    0x95: "TOO_LARGE",
    0x97: "QUOTA_EXCEEDED",
    0x99: "PAYLOAD_FORMAT",
}
"""Why a broker does not take a message, as a dead letter says it."""


def publish_properties(given: MqttProperties) -> bytes:
    """As they stand in a packet. Raises `ValueError` or `OverflowError` if MQTT cannot say them."""
    if given is NO_PROPERTIES:
        return properties.WITHOUT
    return properties.written(for_packet(given))


def read_properties(said: properties.Properties) -> MqttProperties:
    if len(said) == (Name.SUBSCRIPTION_IDENTIFIER in said):
        return NO_PROPERTIES
    return of_packet(said)
