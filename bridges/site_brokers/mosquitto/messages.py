"""Between paho's words and ours: the head and the properties of messages, and why one is refused."""

from typing import Final

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bridges.properties import MqttProperties

REASONS: Final = {
    0x87: "NOT_AUTHORIZED",
    0x90: "UNROUTABLE",
    0x95: "TOO_LARGE",
    0x97: "QUOTA_EXCEEDED",
    0x99: "PAYLOAD_FORMAT",
}
"""Why a broker does not take a message, as a dead letter says it."""


def head_of(command: int, packet: bytes | bytearray, v5: bool) -> int:
    """How long the variable header of a PUBLISH is: topic, packet id, properties. All of it, if malformed."""
    at = 2 + int.from_bytes(packet[:2], "big") + (2 if command & 0x06 else 0)
    size = shift = 0
    while v5:
        if at >= len(packet) or shift > 21:
            return len(packet)
        byte = packet[at]
        size |= (byte & 0x7F) << shift
        at, shift, v5 = at + 1, shift + 7, byte >= 0x80
    return at + size


def publish_properties(given: MqttProperties) -> Properties | None:
    if given == MqttProperties():
        return None
    made = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    if given.content_type:
        made.ContentType = given.content_type
    if given.response_topic:
        made.ResponseTopic = given.response_topic
    if given.correlation:
        made.CorrelationData = given.correlation
    if given.user:
        made.UserProperty = list(given.user)
    if given.expiry is not None:
        made.MessageExpiryInterval = given.expiry
    if given.utf8 is not None:
        made.PayloadFormatIndicator = int(given.utf8)
    return made


def read_properties(given: Properties | None) -> MqttProperties:
    if given is None or given.isEmpty():  # type: ignore[no-untyped-call]
        return MqttProperties()
    utf8 = getattr(given, "PayloadFormatIndicator", None)
    return MqttProperties(
        getattr(given, "ContentType", ""),
        getattr(given, "ResponseTopic", ""),
        bytes(getattr(given, "CorrelationData", b"")),
        tuple(getattr(given, "UserProperty", ())),
        getattr(given, "MessageExpiryInterval", None),
        None if utf8 is None else utf8 == 1,
    )
