"""Logging in at an MQTT broker: where it is, who we are to it, and why it did not let us in, for people."""

import ssl
from typing import Final, NamedTuple

from paho.mqtt.reasoncodes import ReasonCode

from bridges.site_brokers.base import SiteBrokerError, SiteBrokerRefused
from config.uris import Address

_UNSUPPORTED: Final = 0x84
_CLIENT_ID: Final = 0x85
ONE_ID: Final = (
    "it ended one of our connections as the next one came: if it gives all connections of a user one client"
    " id (use_username_as_clientid), the node, which has three, needs a listener of its own without that"
)
NO_MOUNT: Final = "; if its listener has a mount_point, the node needs a listener of its own without that"
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
