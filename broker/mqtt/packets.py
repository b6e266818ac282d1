"""MQTT 3.1.1 as a server reads and writes it: bytes in, packets out, and back.

Source: MQTT Version 3.1.1, OASIS Standard. No socket and no session here.

Law: nothing is believed: lengths are checked before anything is kept, texts are UTF-8 without U+0000, and
what is not in the standard is a `PacketError`, upon which the connection ends.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from sapwood.protocol.errors import SapwoodError

Item = TypeVar("Item")

LEVEL_3_1_1: Final = 4
_MOST_LENGTH_BYTES: Final = 4

PINGRESP: Final = b"\xd0\x00"
REFUSED: Final = 0x80
"""The answer to a filter that cannot be subscribed to."""

ACCEPTED, WRONG_LEVEL, WRONG_ID, UNAVAILABLE, WRONG_PASSWORD, NOT_ALLOWED = 0, 1, 2, 3, 4, 5


class PacketError(SapwoodError):
    """These bytes are no MQTT 3.1.1."""


class WrongLevel(SapwoodError):
    """Another version of MQTT. `answer`: what a client of it understands."""

    def __init__(self, level: int) -> None:
        super().__init__(f"MQTT of protocol level {level}: this node speaks 3.1.1, which is level 4")
        self.answer = b"\x20\x03\x00\x84\x00" if level >= 5 else connack(present=False, code=WRONG_LEVEL)


class Will(NamedTuple):
    """What is to be published when the client is lost."""

    topic: str
    payload: bytes
    qos: int
    retain: bool


class Connect(NamedTuple):
    """`keep_alive`: seconds, 0 = none. `user`, `password`: None = not given."""

    client_id: str
    clean: bool
    keep_alive: int
    will: Will | None
    user: str | None
    password: bytes | None


class Publish(NamedTuple):
    """`packet_id`: 0 with QoS 0. `cut`: why nothing of the payload is here, '' if all of it is."""

    topic: str
    payload: bytes
    qos: int
    retain: bool
    again: bool
    packet_id: int
    cut: str = ""


class PacketAnswer(NamedTuple):
    """PUBACK, PUBREC, PUBREL or PUBCOMP. `kind`: the packet's type."""

    kind: int
    packet_id: int


class Subscribe(NamedTuple):
    packet_id: int
    filters: tuple[tuple[str, int], ...]


class Unsubscribe(NamedTuple):
    packet_id: int
    filters: tuple[str, ...]


class PingRequest(NamedTuple):
    """PINGREQ."""


class Disconnect(NamedTuple):
    """DISCONNECT: the will is not wanted."""


Packet = Connect | Publish | PacketAnswer | Subscribe | Unsubscribe | PingRequest | Disconnect

PUBACK, PUBREC, PUBREL, PUBCOMP = 4, 5, 6, 7
_CONNECT, _PUBLISH, _SUBSCRIBE, _UNSUBSCRIBE, _PINGREQ, _DISCONNECT = 1, 3, 8, 10, 12, 14
_FLAGS: Final = {_CONNECT: 0, PUBACK: 0, PUBREC: 0, PUBREL: 2, PUBCOMP: 0, _SUBSCRIBE: 2, _UNSUBSCRIBE: 2}
"""The lower half of the first byte, where it is fixed."""


class PacketReader:
    """Takes bytes as they come. `most`: bytes that one packet may have; may be changed at any time.

    `cuts`: the payload of a PUBLISH with more is passed over; else no packet may have more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.cuts = False
        self._buffer = bytearray()
        self._passing = 0

    def __len__(self) -> int:
        """Bytes that wait here."""
        return len(self._buffer)

    def forget(self) -> None:
        """Nothing more is read."""
        self._buffer = bytearray()

    def keep(self, data: bytes) -> None:
        """Read nothing yet. Raises `PacketError` if that is too much to wait."""
        self._buffer += data
        if len(self._buffer) > self.most:
            raise PacketError(
                f"{len(self._buffer)} bytes wait behind a CONNECT: expected {self.most} at most"
            )

    def add(self, data: bytes) -> None:
        """Read nothing yet. Caller's duty: little comes before it is read on."""
        self._buffer += data

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Yield the packets that are complete. Raises `PacketError`, `WrongLevel`."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while (place := self._body(start := self._passed(start))) is not None:
                begin, end, length = place
                packet = _packet(buffer[start], bytes(buffer[begin:end]))
                if end - begin < length and isinstance(packet, Publish):
                    why = f"a packet of {length} bytes: this node takes {self.most} at most"
                    packet = packet._replace(cut=why)
                    self._passing = length - (end - begin)
                start = end
                yield packet
        finally:
            del buffer[:start]

    def _passed(self, start: int) -> int:
        """Where the next packet begins: what is passed over of the one before is not kept."""
        now = min(self._passing, len(self._buffer) - start)
        self._passing -= now
        return start + now

    def _body(self, start: int) -> tuple[int, int, int] | None:
        """Where the body of the packet at `start` lies, and its length; None while it is not complete.

        Of a PUBLISH that is too long only the head, which is all that is read of it.
        """
        buffer = self._buffer
        length = shift = 0
        for place in range(start + 1, start + 1 + _MOST_LENGTH_BYTES):
            if place >= len(buffer):
                return None
            length |= (buffer[place] & 0x7F) << shift
            shift += 7
            if not buffer[place] & 0x80:
                break
        else:
            raise PacketError("the length of a packet has more than four bytes")
        begin, size = place + 1, length
        if length > self.most:
            if not self.cuts or buffer[start] >> 4 != _PUBLISH:
                raise PacketError(f"a packet of {length} bytes: this node takes {self.most} at most")
            if len(buffer) < begin + 2:
                return None
            size = 2 + int.from_bytes(buffer[begin : begin + 2]) + (2 if buffer[start] & 6 else 0)
        end = begin + size
        return (begin, end, length) if end <= len(buffer) else None


def _packet(first: int, body: bytes) -> Packet:
    kind, flags = first >> 4, first & 0x0F
    if kind == _PUBLISH:
        return _publish(flags, _Fields(body))
    if flags != _FLAGS.get(kind, 0):
        raise PacketError(f"a packet of type {kind} with flags {flags:04b}")
    fields = _Fields(body)
    packet = _other(kind, fields)
    fields.end()
    return packet


def _other(kind: int, fields: "_Fields") -> Packet:
    if kind == _CONNECT:
        return _connect(fields)
    if kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
        return PacketAnswer(kind, fields.packet_id())
    if kind == _SUBSCRIBE:
        packet_id = fields.packet_id()
        return Subscribe(packet_id, tuple(fields.every(lambda: (fields.text(), fields.qos()))))
    if kind == _UNSUBSCRIBE:
        packet_id = fields.packet_id()
        return Unsubscribe(packet_id, tuple(fields.every(fields.text)))
    if kind == _PINGREQ:
        return PingRequest()
    if kind == _DISCONNECT:
        return Disconnect()
    raise PacketError(f"a packet of type {kind}, which no client sends")


def _publish(flags: int, fields: "_Fields") -> Publish:
    qos, again = flags >> 1 & 3, bool(flags & 8)
    if qos == 3 or (again and not qos):
        raise PacketError(f"a PUBLISH with flags {flags:04b}")
    topic = fields.text()
    packet_id = fields.packet_id() if qos else 0
    return Publish(topic, fields.rest(), qos, bool(flags & 1), again, packet_id)


def _connect(fields: "_Fields") -> Connect:
    protocol, level = fields.text(), fields.byte()
    if protocol not in ("MQTT", "MQIsdp"):
        raise PacketError(f"the protocol is {protocol[:20]!r}: expected MQTT")
    if level != LEVEL_3_1_1 or protocol != "MQTT":
        raise WrongLevel(level)
    flags, keep_alive = fields.byte(), fields.number()
    if flags & 1 or (not flags & 4 and flags & 0x38) or flags & 0x18 == 0x18:
        raise PacketError(f"a CONNECT with flags {flags:08b}")
    client_id = fields.text()
    will = None
    if flags & 4:
        will = Will(fields.text(), fields.binary(), flags >> 3 & 3, bool(flags & 0x20))
    user = fields.text() if flags & 0x80 else None
    password = fields.binary() if flags & 0x40 else None
    return Connect(client_id, bool(flags & 2), keep_alive, will, user, password)


class _Fields:
    """The fields of a packet's body, one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def _take(self, count: int) -> bytes:
        taken = self._body[self._at : self._at + count]
        if len(taken) < count:
            raise PacketError("a packet ends in the middle of a field")
        self._at += count
        return taken

    def byte(self) -> int:
        return self._take(1)[0]

    def number(self) -> int:
        return int.from_bytes(self._take(2))

    def binary(self) -> bytes:
        return self._take(self.number())

    def text(self) -> str:
        try:
            text = self.binary().decode()
        except UnicodeDecodeError:
            raise PacketError("a text is not UTF-8") from None
        if "\x00" in text:
            raise PacketError("a text holds U+0000")
        return text

    def packet_id(self) -> int:
        number = self.number()
        if not number:
            raise PacketError("a packet identifier is 0")
        return number

    def qos(self) -> int:
        qos = self.byte()
        if qos > 2:
            raise PacketError(f"a subscription with QoS byte {qos}")
        return qos

    def every(self, one: Callable[[], Item]) -> Iterator[Item]:
        """At least one, until the body ends."""
        yield one()
        while self._at < len(self._body):
            yield one()

    def rest(self) -> bytes:
        return self._take(len(self._body) - self._at)

    def end(self) -> None:
        if self._at < len(self._body):
            raise PacketError("a packet is longer than its fields")


# --- what a server says


def connack(*, present: bool, code: int) -> bytes:
    return bytes((0x20, 2, present, code))


def suback(packet_id: int, codes: Iterable[int]) -> bytes:
    body = packet_id.to_bytes(2) + bytes(codes)
    return b"\x90" + _length(len(body)) + body


def unsuback(packet_id: int) -> bytes:
    return b"\xb0\x02" + packet_id.to_bytes(2)


def answer(kind: int, packet_id: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP."""
    return bytes((kind << 4 | _FLAGS[kind], 2)) + packet_id.to_bytes(2)


def publish(topic: bytes, payload: bytes, qos: int, packet_id: int, *, retain: bool, again: bool) -> bytes:
    """PUBLISH; `topic` in UTF-8, `packet_id` 0 with QoS 0."""
    number = packet_id.to_bytes(2) if qos else b""
    length = 2 + len(topic) + len(number) + len(payload)
    first = 0x30 | again << 3 | qos << 1 | retain
    return b"".join((bytes((first,)), _length(length), len(topic).to_bytes(2), topic, number, payload))


def _length(length: int) -> bytes:
    found = bytearray()
    while True:
        length, low = length >> 7, length & 0x7F
        found.append(low | (0x80 if length else 0))
        if not length:
            return bytes(found)
