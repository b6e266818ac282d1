"""MQTT 3.1.1 and 5: bytes in, packets out, and back.

Sources: MQTT Version 3.1.1 and MQTT Version 5.0, OASIS Standards. No socket, no stream (`readers`) and no
session here.

Law: bytes that are not in the standard are a `PacketError`, upon which the connection ends. The level of the
CONNECT is that of all packets behind it.
"""

from collections.abc import Iterable
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from bridges.mqtt import properties
from bridges.mqtt.fields import (
    CUT_SHORT,
    ID_0,
    PROTOCOL_ERROR,
    TOO_LARGE,
    PacketError,
    PacketFields,
    decoded,
    variable,
)
from bridges.mqtt.framing import LEVEL_3_1_1, LEVEL_5, PUBLISH
from bridges.mqtt.properties import NONE, Name, Place, Properties
from sapwood.protocol.errors import SapwoodError

MOST_FILTERS: Final = 4096
"""Topic filters of one packet. To read so many takes some milliseconds, in which nobody else has his turn."""

PINGRESP: Final = b"\xd0\x00"


class WrongLevel(SapwoodError):
    """Another version of MQTT. `answer`: what a client of it understands."""

    def __init__(self, level: int) -> None:
        super().__init__(
            f"MQTT of protocol level {level}: this node speaks 3.1.1 and 5, which are levels 4 and 5"
        )
        self.answer = b"\x20\x03\x00\x84\x00" if level > LEVEL_5 else b"\x20\x02\x00\x01"


class Will(NamedTuple):
    """A message that is to be published when the client is lost."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    properties: Properties = NONE


class Connect(NamedTuple):
    """`keep_alive`: seconds, 0 = none. `user`, `password`: None = not given."""

    client_id: str
    clean: bool
    keep_alive: int
    will: Will | None
    user: str | None
    password: bytes | None
    level: int = LEVEL_3_1_1
    properties: Properties = NONE


class Publish(msgspec.Struct, frozen=True, gc=False):
    """`packet_id`: 0 with QoS 0. `cut`: why nothing of the payload is here, nor of properties but a topic
    alias; '' if all is.

    This and `PacketAnswer` are made for each message: a NamedTuple takes three times as long to make.
    """

    topic: str
    payload: bytes
    qos: int
    retain: bool
    again: bool
    packet_id: int
    cut: str = ""
    properties: Properties = NONE


class PacketAnswer(msgspec.Struct, frozen=True, gc=False):
    """PUBACK, PUBREC, PUBREL or PUBCOMP. `kind`: the packet's type."""

    kind: int
    packet_id: int
    reason: int = 0


class Subscribe(NamedTuple):
    """`filters`: each with its options byte, which in 3.1.1 is the QoS. `identifier`: 0 = none."""

    packet_id: int
    filters: tuple[tuple[str, int], ...]
    identifier: int = 0


class Unsubscribe(NamedTuple):
    packet_id: int
    filters: tuple[str, ...]


class PingRequest(NamedTuple):
    """PINGREQ."""


class Disconnect(NamedTuple):
    """DISCONNECT: the will is not wanted, unless the reason says so. `expires_in`: None = as it was said."""

    reason: int = 0
    expires_in: int | None = None


class Auth(NamedTuple):
    """AUTH: a step of an extended authentication."""


Packet = Connect | Publish | PacketAnswer | Subscribe | Unsubscribe | PingRequest | Disconnect | Auth

PUBACK, PUBREC, PUBREL, PUBCOMP = 4, 5, 6, 7
_CONNECT, _SUBSCRIBE, _UNSUBSCRIBE, _PINGREQ, _DISCONNECT, _AUTH = 1, 8, 10, 12, 14, 15
_FLAGS: Final = {_CONNECT: 0, PUBACK: 0, PUBREC: 0, PUBREL: 2, PUBCOMP: 0, _SUBSCRIBE: 2, _UNSUBSCRIBE: 2}
"""The lower half of the first byte, where it is fixed."""
ACKNOWLEDGES: Final = PUBACK << 4
"""The first byte of a PUBACK, of which there are as many as messages."""
_SHORT: Final = 16
"""Bytes of properties that are worth remembering."""
QOS, NO_LOCAL, AS_PUBLISHED, HANDLING, _RESERVED = 0x03, 0x04, 0x08, 0x30, 0xC0
NEVER_RETAINED: Final = 0x20
"""Bits of a subscription's options. `HANDLING`: retained messages, 0x10 = only if it is new, 0x20 = none."""


class Control(NamedTuple):
    """A packet of a server that has to do with the session. `first`: its first byte."""

    first: int
    body: bytes


def packet_of(first: int, body: bytes, level: int) -> Packet:
    kind = first >> 4
    if kind == PUBLISH:
        return publish_of(first & 0x0F, body, level)
    if PUBACK <= kind <= PUBCOMP:
        return answer_of(first, body, level)
    fields = _fields(first, body)
    packet = _connect(fields) if kind == _CONNECT else _other(kind, fields, level)
    fields.end()
    return packet


def _fields(first: int, body: bytes) -> PacketFields:
    """Of a packet with fixed flags."""
    kind, flags = first >> 4, first & 0x0F
    if flags != _FLAGS.get(kind, 0):
        raise PacketError(f"a packet of type {kind} with flags {flags:04b}")
    return PacketFields(body)


def answer_of(first: int, body: bytes, level: int) -> PacketAnswer:
    if first == ACKNOWLEDGES and len(body) == 2 and any(body):
        return PacketAnswer(PUBACK, body[0] << 8 | body[1])
    fields, kind = _fields(first, body), first >> 4
    packet = PacketAnswer(kind, fields.packet_id(), _reason(fields, Place(kind), level)[0])
    fields.end()
    return packet


def _other(kind: int, fields: PacketFields, level: int) -> Packet:
    if kind == _SUBSCRIBE:
        return _subscribe(fields, level)
    if kind == _UNSUBSCRIBE:
        packet_id = fields.packet_id()
        if level == LEVEL_5:
            properties.read(fields, Place.UNSUBSCRIBE)
        return Unsubscribe(packet_id, tuple(fields.every(lambda: _filter(fields), MOST_FILTERS, "filters")))
    if kind == _PINGREQ:
        return PingRequest()
    if kind == _DISCONNECT:
        reason, said = _reason(fields, Place.DISCONNECT, level)
        return Disconnect(reason, said.get(Name.SESSION_EXPIRY))
    if kind == _AUTH and level == LEVEL_5:
        _reason(fields, Place.AUTH, level)
        return Auth()
    raise PacketError(f"a packet of type {kind}, which no client sends")


def _reason(fields: PacketFields, place: Place, level: int) -> tuple[int, Properties]:
    """The reason code and the properties at a packet's end, which are left out where they are plain."""
    if level != LEVEL_5 or not fields.left:
        return 0, NONE
    reason = fields.byte()
    return reason, properties.read(fields, place) if fields.left else NONE


def _subscribe(fields: PacketFields, level: int) -> Subscribe:
    packet_id = fields.packet_id()
    said = properties.read(fields, Place.SUBSCRIBE) if level == LEVEL_5 else NONE

    def wanted() -> tuple[str, int]:
        name, options = _filter(fields), fields.byte()
        if options & ~QOS if level != LEVEL_5 else options & _RESERVED:
            raise PacketError(f"a subscription with QoS byte {options}")
        if options & QOS == QOS or options & HANDLING == HANDLING:  # section 3.8.3.1 of MQTT 5
            raise PacketError(f"a subscription with QoS byte {options}", PROTOCOL_ERROR)
        return name, options

    filters = tuple(fields.every(wanted, MOST_FILTERS, "filters"))
    return Subscribe(packet_id, filters, said.get(Name.SUBSCRIPTION_IDENTIFIER, 0))


def _filter(fields: PacketFields) -> str:
    """A topic filter, which has at least one character (section 4.7.3)."""
    if name := fields.text():
        return name
    raise PacketError("an empty topic filter")


def publish_of(flags: int, body: bytes, level: int, place: Place = Place.PUBLISH) -> Publish:
    """Its fields are read in place, as it is the packet that comes most."""
    qos, again = flags >> 1 & 3, flags & 8 != 0
    if qos == 3 or (again and not qos and place is Place.PUBLISH):
        raise PacketError(f"a PUBLISH with flags {flags:04b}")
    end = 2 + int.from_bytes(body[:2])
    at = end + 2 if qos else end
    if at > len(body):
        raise PacketError(CUT_SHORT)
    topic, packet_id = decoded(body[2:end]), 0
    if qos and not (packet_id := body[end] << 8 | body[end + 1]):
        raise PacketError(ID_0)
    said = NONE
    if level == LEVEL_5:
        size = body[at] if at < len(body) else 0x80
        if 0 < size <= _SHORT and place is Place.DELIVERY:
            said = _short(body[at : at + size + 1])
            at += size
        elif size:
            fields, retain = PacketFields(body, at), flags & 1 != 0
            try:
                said = properties.read(fields, place)
            except PacketError as error:
                if error.reason != TOO_LARGE or not qos:  # nothing answers it
                    raise
                said = properties.alias_of_many(PacketFields(body, at), error)
                return Publish(topic, b"", qos, retain, again, packet_id, cut=str(error), properties=said)
            return Publish(topic, fields.rest(), qos, retain, again, packet_id, properties=said)
        at += 1
    return Publish(topic, body[at:], qos, flags & 1 != 0, again, packet_id, properties=said)


def short_properties(body: bytes, qos: int, level: int) -> bytes | None:
    """The properties of a PUBLISH that has been read, as they are written; None: they are long."""
    if level != LEVEL_5:
        return b""
    at = 2 + int.from_bytes(body[:2]) + (2 if qos else 0)
    end = at + 1 + body[at]
    return body[at:end] if body[at] <= _SHORT else None


@lru_cache
def _short(written: bytes) -> Properties:
    """Of a message of a server: most have the same, the identifier of the subscription."""
    return MappingProxyType(properties.read(PacketFields(written), Place.DELIVERY))


def _connect(fields: PacketFields) -> Connect:
    protocol, level = fields.text(), fields.byte()
    if protocol not in ("MQTT", "MQIsdp"):
        raise PacketError(f"the protocol is {protocol[:20]!r}: expected MQTT")
    if level not in (LEVEL_3_1_1, LEVEL_5) or protocol != "MQTT":
        raise WrongLevel(level)
    try:
        return _connect_at(level, fields)
    except PacketError as error:
        if level == LEVEL_5:
            error.answer = connack(present=False, code=error.reason, said=NONE)
        raise


def _connect_at(level: int, fields: PacketFields) -> Connect:
    flags, keep_alive = fields.byte(), fields.number()
    if flags & 1 or (not flags & 4 and flags & 0x38) or flags & 0x18 == 0x18:
        raise PacketError(f"a CONNECT with flags {flags:08b}")
    if level != LEVEL_5 and flags & 0xC0 == 0x40:
        raise PacketError("a CONNECT with a password and no user: MQTT 3.1.1 has none, section 3.1.2.9")
    said = properties.read(fields, Place.CONNECT) if level == LEVEL_5 else NONE
    client_id = fields.text()
    will = None
    if flags & 4:
        wanted = properties.read(fields, Place.WILL) if level == LEVEL_5 else NONE
        will = Will(fields.text(), fields.binary(), flags >> 3 & 3, bool(flags & 0x20), wanted)
    user = fields.text() if flags & 0x80 else None
    password = fields.binary() if flags & 0x40 else None
    return Connect(client_id, bool(flags & 2), keep_alive, will, user, password, level, said)


# --- what a server says; `said` are the properties, None in 3.1.1


def connack(*, present: bool, code: int, said: Properties | None = None) -> bytes:
    body = bytes((present, code)) + (b"" if said is None else properties.written(said))
    return b"\x20" + variable(len(body)) + body


def suback(packet_id: int, codes: Iterable[int], said: Properties | None = None) -> bytes:
    body = packet_id.to_bytes(2) + (b"" if said is None else properties.written(said)) + bytes(codes)
    return b"\x90" + variable(len(body)) + body


def unsuback(packet_id: int, codes: Iterable[int] = (), said: Properties | None = None) -> bytes:
    """In 3.1.1 without codes."""
    body = packet_id.to_bytes(2) + (b"" if said is None else properties.written(said) + bytes(codes))
    return b"\xb0" + variable(len(body)) + body


PLAIN_ANSWERS: Final = {
    kind: bytes((kind << 4 | _FLAGS[kind], 2)) for kind in (PUBACK, PUBREC, PUBREL, PUBCOMP)
}
"""Begin those without a reason; the identifier follows."""


def answer(kind: int, packet_id: int, reason: int = 0, why: str = "") -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP. `reason`, `why`: in MQTT 5 only."""
    body = packet_id.to_bytes(2)
    if not reason:
        return PLAIN_ANSWERS[kind] + body
    body += bytes((reason,)) + (properties.written({Name.REASON_STRING: why}) if why else b"")
    return bytes((kind << 4 | _FLAGS[kind],)) + variable(len(body)) + body


def acknowledged(packet_ids: Iterable[int]) -> bytes:
    """A row of PUBACK."""
    head = PLAIN_ANSWERS[PUBACK]
    return b"".join([head + packet_id.to_bytes(2) for packet_id in packet_ids])


def disconnect(reason: int, why: str) -> bytes:
    """Of MQTT 5."""
    body = bytes((reason,)) + properties.written({Name.REASON_STRING: why} if why else {})
    return b"\xe0" + variable(len(body)) + body


def publish(
    topic: bytes, payload: bytes, qos: int, packet_id: int, *, retain: bool, again: bool, said: bytes = b""
) -> bytes:
    """PUBLISH; `topic` in UTF-8, `packet_id` 0 with QoS 0. `said`: properties as they are written."""
    number = packet_id.to_bytes(2) if qos else b""
    size = 2 + len(topic) + len(number) + len(said) + len(payload)
    first = 0x30 | again << 3 | qos << 1 | retain
    return b"".join((bytes((first,)), variable(size), len(topic).to_bytes(2), topic, number, said, payload))


def publish_row(
    topic: bytes,
    payloads: Iterable[bytes],
    packet_ids: Iterable[int],
    *,
    retain: bool,
    again: bool,
    said: bytes = b"",
) -> bytes:
    """PUBLISH packets of QoS 1 with the same properties."""
    name = len(topic).to_bytes(2) + topic
    first, fixed, before = bytes((0x32 | again << 3 | retain,)), len(name) + 2 + len(said), -1
    parts: list[bytes] = []
    for payload, packet_id in zip(payloads, packet_ids, strict=True):
        if len(payload) != before:
            before = len(payload)
            begin = first + variable(fixed + before) + name
        parts += (begin, packet_id.to_bytes(2), said, payload)
    return b"".join(parts)
