"""Between paho's words and ours: properties of messages, and what goes wrong while connecting."""

import socket
import ssl
from typing import Final, NamedTuple

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from bridges.properties import MqttProperties
from bridges.site_brokers.base import SiteBrokerError, SiteBrokerRefused
from bridges.tls import CERTIFICATE
from config.uris import Address

_UNSUPPORTED: Final = 0x84
_CLIENT_ID: Final = 0x85
ONE_ID: Final = (
    "it ended one of our connections as the next one came: if it gives all connections of a user one client"
    " id (use_username_as_clientid), the node, which has three, needs a listener of its own without that"
)
REASONS: Final = {
    0x87: "NOT_AUTHORIZED",
    0x90: "UNROUTABLE",
    0x95: "TOO_LARGE",
    0x97: "QUOTA_EXCEEDED",
    0x99: "PAYLOAD_FORMAT",
}
"""Why a broker does not take a message, as a dead letter says it."""
_LOGIN: Final = frozenset({0x85, 0x86, 0x87, 0x8A, 0x8C})


class Unsupported(SiteBrokerError):
    """The broker does not speak this version of MQTT."""


class MqttAccess(NamedTuple):
    """Where the broker is, and who we are to it."""

    address: Address
    user: str | None
    password: str | None
    tls: ssl.SSLContext | None
    timeout: float


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
    if given.utf8:
        made.PayloadFormatIndicator = 1
    return made


def read_properties(given: Properties | None) -> MqttProperties:
    if given is None or given.isEmpty():  # type: ignore[no-untyped-call]
        return MqttProperties()
    return MqttProperties(
        getattr(given, "ContentType", ""),
        getattr(given, "ResponseTopic", ""),
        bytes(getattr(given, "CorrelationData", b"")),
        tuple(getattr(given, "UserProperty", ())),
        getattr(given, "MessageExpiryInterval", None),
        getattr(given, "PayloadFormatIndicator", 0) == 1,
    )


def refusal(reason: ReasonCode, access: MqttAccess) -> SiteBrokerError:
    who = repr(access.user) if access.user else "a client without a user name"
    text = f"the broker at {access.address.uri} does not take {who} ({reason})"
    if reason.value == _UNSUPPORTED:
        return Unsupported(text)
    if reason.value == _CLIENT_ID:
        ids = "sapwood-*, among them sapwood-ear-*, sapwood-door-* and sapwood-check-*"
        return SiteBrokerRefused(f"{text}: look at its clientid_prefixes; a node's client ids are {ids}")
    if reason.value in _LOGIN:
        return SiteBrokerRefused(f"{text}: look at site_broker's user and secret, and at the broker's users")
    return SiteBrokerError(f"{text}: look at the broker's log")


def explained(error: Exception, access: MqttAccess) -> SiteBrokerError:
    """What went wrong while dialling, in words that help."""
    uri = access.address.uri
    match error:
        case ssl.SSLCertVerificationError():
            text = (
                f"the certificate of {uri} is not trusted ({error.verify_message}): name its authority in"
                " site_broker's tls, and dial the name that it carries"
            )
        case ssl.SSLError():
            text = f"TLS with {uri} failed: {error.reason or error}; is it the port for TLS? {CERTIFICATE}"
        case socket.gaierror():
            text = f"{uri}: its host is not known to DNS ({error.strerror})"
        case TimeoutError():
            text = f"the broker at {uri} did not answer within {access.timeout:g} s"
        case OSError():
            text = f"the broker at {uri} cannot be reached: {error.strerror or error}"
        case _:
            text = f"the broker at {uri} cannot be dialled: {error}"
    return SiteBrokerError(text)
