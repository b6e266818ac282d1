"""The properties of MQTT 5 packets, read and written from one table.

Source: MQTT Version 5.0, OASIS Standard, section 2.2.2.2. Properties are a dict by `Name`; a property that
may stand more than once is a list there.

Law: a property has its place in some packets only, and stands there once: anything else is an error. In a
packet where it has no place the packet is malformed, twice it is a protocol error.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from bridges.mqtt.fields import (
    MALFORMED,
    PROTOCOL_ERROR,
    TOO_LARGE,
    PacketError,
    PacketFields,
    text,
    variable,
)

MOST_BYTES: Final = 256 * 1024
"""Bytes of properties in one packet."""
_LEAST: Final = 5
"""Bytes of a property that may stand in a packet many times."""


class Name(IntEnum):
    """Identifiers, as the standard calls them."""

    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_AVAILABLE = 0x28
    IDENTIFIERS_AVAILABLE = 0x29
    SHARED_AVAILABLE = 0x2A


Properties = Mapping[Name, Any]
NONE: Final[Properties] = MappingProxyType({})


class Place(IntEnum):
    """Where properties stand: a packet that a client sends, by its type; a will; a message of a server."""

    WILL = 0
    CONNECT = 1
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    UNSUBSCRIBE = 10
    DISCONNECT = 14
    AUTH = 15
    DELIVERY = 16


class _Kind(NamedTuple):
    """How a property is read and written, and the least value that it may have."""

    read: Callable[[PacketFields], Any]
    write: Callable[[Any], bytes]
    least: int = 0
    most: int = 0xFFFF_FFFF


def _pair(value: tuple[str, str]) -> bytes:
    return text(value[0]) + text(value[1])


def _binary(value: bytes) -> bytes:
    return len(value).to_bytes(2) + value


_TRUTH: Final = _Kind(PacketFields.byte, lambda value: bytes((value,)), most=1)
_TWO: Final = _Kind(PacketFields.number, lambda value: value.to_bytes(2))
_FOUR: Final = _Kind(PacketFields.long, lambda value: value.to_bytes(4))
_TEXT: Final = _Kind(PacketFields.text, text)
_BINARY: Final = _Kind(PacketFields.binary, _binary)
_KINDS: Final[dict[Name, _Kind]] = {
    Name.PAYLOAD_FORMAT: _TRUTH,
    Name.MESSAGE_EXPIRY: _FOUR,
    Name.CONTENT_TYPE: _TEXT,
    Name.RESPONSE_TOPIC: _TEXT,
    Name.CORRELATION_DATA: _BINARY,
    Name.SUBSCRIPTION_IDENTIFIER: _Kind(PacketFields.variable, variable, least=1),
    Name.SESSION_EXPIRY: _FOUR,
    Name.ASSIGNED_CLIENT_ID: _TEXT,
    Name.SERVER_KEEP_ALIVE: _TWO,
    Name.AUTHENTICATION_METHOD: _TEXT,
    Name.AUTHENTICATION_DATA: _BINARY,
    Name.REQUEST_PROBLEM_INFORMATION: _TRUTH,
    Name.WILL_DELAY: _FOUR,
    Name.REQUEST_RESPONSE_INFORMATION: _TRUTH,
    Name.REASON_STRING: _TEXT,
    Name.RECEIVE_MAXIMUM: _TWO._replace(least=1),
    Name.TOPIC_ALIAS_MAXIMUM: _TWO,
    Name.TOPIC_ALIAS: _TWO,
    Name.USER_PROPERTY: _Kind(lambda fields: (fields.text(), fields.text()), _pair),
    Name.MAXIMUM_PACKET_SIZE: _FOUR._replace(least=1),
}
_MESSAGE: Final = {
    Name.PAYLOAD_FORMAT,
    Name.MESSAGE_EXPIRY,
    Name.CONTENT_TYPE,
    Name.RESPONSE_TOPIC,
    Name.CORRELATION_DATA,
    Name.USER_PROPERTY,
}
_ANSWER: Final = {Name.REASON_STRING, Name.USER_PROPERTY}
_AUTHENTICATION: Final = {Name.AUTHENTICATION_METHOD, Name.AUTHENTICATION_DATA}
_ALLOWED: Final[dict[Place, set[Name]]] = {
    Place.WILL: _MESSAGE | {Name.WILL_DELAY},
    Place.CONNECT: _AUTHENTICATION
    | {
        Name.SESSION_EXPIRY,
        Name.RECEIVE_MAXIMUM,
        Name.MAXIMUM_PACKET_SIZE,
        Name.TOPIC_ALIAS_MAXIMUM,
        Name.REQUEST_RESPONSE_INFORMATION,
        Name.REQUEST_PROBLEM_INFORMATION,
        Name.USER_PROPERTY,
    },
    Place.PUBLISH: _MESSAGE | {Name.TOPIC_ALIAS},
    Place.PUBACK: _ANSWER,
    Place.PUBREC: _ANSWER,
    Place.PUBREL: _ANSWER,
    Place.PUBCOMP: _ANSWER,
    Place.SUBSCRIBE: {Name.SUBSCRIPTION_IDENTIFIER, Name.USER_PROPERTY},
    Place.UNSUBSCRIBE: {Name.USER_PROPERTY},
    Place.DISCONNECT: _ANSWER | {Name.SESSION_EXPIRY},
    Place.AUTH: _AUTHENTICATION | _ANSWER,
    Place.DELIVERY: _MESSAGE | {Name.TOPIC_ALIAS, Name.SUBSCRIPTION_IDENTIFIER},
}
_OF_SERVERS: Final = {(Place.PUBLISH, Name.SUBSCRIPTION_IDENTIFIER)}
"""Properties that such a packet has from a server alone (section 3.3.4)."""


def read(fields: PacketFields, place: Place) -> Properties:
    """The properties that begin here. Raises `PacketError`.

    A server is believed how much there is and in which range: what is refused it would give again for ever.
    """
    part, believed = fields.part(), place is Place.DELIVERY
    if part.left > MOST_BYTES and not believed:
        raise PacketError(f"properties of {part.left} bytes: this node takes {MOST_BYTES} at most", TOO_LARGE)
    found: dict[Name, Any] = {}
    while part.left:
        name = _name(part.variable(), place)
        kind = _KINDS[name]
        value = kind.read(part)
        if name is Name.USER_PROPERTY or (believed and name is Name.SUBSCRIPTION_IDENTIFIER):
            found.setdefault(name, []).append(value)
            continue
        if name in found:
            raise PacketError(f"{name.name} stands twice in a packet", PROTOCOL_ERROR)
        if isinstance(value, int) and not (believed or kind.least <= value <= kind.most):
            raise PacketError(f"{name.name} is {value}", PROTOCOL_ERROR)
        found[name] = value
    return found


def alias_of_many(fields: PacketFields, refused: PacketError) -> Properties:
    """The topic alias among more properties than are taken of a message: what comes next may rely on it.

    Raises `PacketError`: `refused` where they are more than could be in those that are taken.
    """
    part, found = fields.part(), dict[Name, Any]()
    for _ in range(MOST_BYTES // _LEAST):
        if not part.left:
            return found
        name = _name(part.variable(), Place.PUBLISH)
        value = _KINDS[name].read(part)
        if name is Name.TOPIC_ALIAS:
            found[name] = value
    raise refused


def _name(number: int, place: Place) -> Name:
    if number not in _KNOWN:
        raise PacketError(f"a property {number}, which MQTT 5 has not")
    name = Name(number)
    if name not in _ALLOWED[place]:
        code = PROTOCOL_ERROR if (place, name) in _OF_SERVERS else MALFORMED
        raise PacketError(f"{name.name} has no place in {place.name} of a client", code)
    return name


_KNOWN: Final = frozenset(int(name) for name in Name)


def written(properties: Properties) -> bytes:
    """Properties as they stand in a packet, with their length before them. A list is a property each."""
    parts = [
        bytes((name,)) + _KINDS[name].write(each)
        for name, value in properties.items()
        for each in (value if isinstance(value, list) else [value])
    ]
    body = b"".join(parts)
    return variable(len(body)) + body


WITHOUT: Final = written(NONE)
"""No properties, as they stand in a packet."""
