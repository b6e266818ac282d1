"""Between the properties of packets and ours, and why a message is refused."""

from typing import Any, Final

from bridges.mqtt import properties
from bridges.mqtt.properties import Name
from bridges.properties import NO_PROPERTIES, MqttProperties

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
    said: dict[Name, Any] = {}
    if given.content_type:
        said[Name.CONTENT_TYPE] = given.content_type
    if given.response_topic:
        said[Name.RESPONSE_TOPIC] = given.response_topic
    if given.correlation:
        said[Name.CORRELATION_DATA] = given.correlation
    if given.user:
        said[Name.USER_PROPERTY] = list(given.user)
    if given.expiry is not None:
        said[Name.MESSAGE_EXPIRY] = given.expiry
    if given.utf8 is not None:
        said[Name.PAYLOAD_FORMAT] = int(given.utf8)
    return properties.written(said)


def read_properties(said: properties.Properties) -> MqttProperties:
    if len(said) == (Name.SUBSCRIPTION_IDENTIFIER in said):
        return NO_PROPERTIES
    utf8 = said.get(Name.PAYLOAD_FORMAT)
    return MqttProperties(
        said.get(Name.CONTENT_TYPE, ""),
        said.get(Name.RESPONSE_TOPIC, ""),
        said.get(Name.CORRELATION_DATA, b""),
        tuple(said.get(Name.USER_PROPERTY, ())),
        said.get(Name.MESSAGE_EXPIRY),
        None if utf8 is None else utf8 == 1,
    )
