"""Reason codes of MQTT 5 that this node says, and those of 3.1.1 that stand for them.

Source: MQTT Version 5.0, section 2.4; MQTT Version 3.1.1, sections 3.2.2.3 and 3.9.3.
"""

from enum import IntEnum
from typing import Final

from broker.core.errors import BadRequest, Busy, NotLoggedIn, QueueFull, SwitchError, TooLarge


class Reason(IntEnum):
    """As the standard calls them."""

    SUCCESS = 0x00
    NO_SUBSCRIPTION = 0x11
    UNSPECIFIED = 0x80
    MALFORMED = 0x81
    PROTOCOL_ERROR = 0x82
    NOT_THIS_WAY = 0x83
    WRONG_CLIENT_ID = 0x85
    WRONG_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    UNAVAILABLE = 0x88
    SHUTTING_DOWN = 0x8B
    WRONG_METHOD = 0x8C
    SILENT = 0x8D
    TAKEN_OVER = 0x8E
    WRONG_FILTER = 0x8F
    WRONG_TOPIC = 0x90
    UNKNOWN_IDENTIFIER = 0x92
    TOO_MANY_MESSAGES = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    BY_OPERATOR = 0x98


REFUSED: Final = 0x80
"""The answer of 3.1.1 to a filter that cannot be subscribed to."""
_UNAVAILABLE: Final = 3
_CONNACK: Final = {
    Reason.WRONG_CLIENT_ID: 2,
    Reason.UNAVAILABLE: 3,
    Reason.WRONG_PASSWORD: 4,
    Reason.NOT_AUTHORIZED: 5,
}
_OF_ERRORS: Final = {
    NotLoggedIn.code: Reason.WRONG_PASSWORD,
    SwitchError.code: Reason.NOT_AUTHORIZED,
    QueueFull.code: Reason.QUOTA_EXCEEDED,
    Busy.code: Reason.QUOTA_EXCEEDED,
    TooLarge.code: Reason.NOT_THIS_WAY,
    BadRequest.code: Reason.NOT_THIS_WAY,
}


def in_connack(reason: int) -> int:
    """The return code of 3.1.1."""
    return _CONNACK.get(Reason(reason), _UNAVAILABLE)


def of_error(code: str) -> Reason:
    """For the code of one of the switch's errors."""
    return _OF_ERRORS.get(code, Reason.UNSPECIFIED)
