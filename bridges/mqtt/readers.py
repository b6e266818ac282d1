"""Streams of bytes, of which MQTT packets are read: what a client says, and what a server does.

Packets that come in a row and are alike are read together (`Alike`, `Acknowledged`): one by one each costs
twice as much, and who has much to say or to read sends little else. Law: only what is
well-formed is in a row; the rest is read packet by packet, and refused there.
"""

import re
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from bridges.mqtt.fields import PacketError
from bridges.mqtt.framing import LEVEL_3_1_1, LEVEL_5, PUBLISH, Framing
from bridges.mqtt.packets import (
    ACKNOWLEDGES,
    PUBACK,
    PUBCOMP,
    Connect,
    Control,
    Packet,
    PacketAnswer,
    Publish,
    answer_of,
    packet_of,
    publish_of,
    short_properties,
)
from bridges.mqtt.properties import Place

MOST: Final = 64
"""Packets of a row: nobody else has a turn within one."""
_MOST_BYTES: Final = 64 * 1024


class Alike(NamedTuple):
    """PUBLISH packets of one topic, QoS 0 or 1 and the same short properties, behind another such one."""

    publishes: list[Publish]


class Acknowledged(NamedTuple):
    """PUBACK packets without a reason."""

    packet_ids: tuple[int, ...]


class ServerReader(Framing):
    """Reads what a server of that level says."""

    def feed(self, data: bytes) -> Iterator[Publish | Alike | PacketAnswer | Acknowledged | Control]:
        """Yield the packets that are complete. Raises `PacketError`."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            while (place := self.body(start)) is not None:
                first = buffer[start]
                if first == ACKNOWLEDGES and (numbers := _acknowledged(buffer, start)):
                    start += 4 * len(numbers)
                    yield Acknowledged(numbers)
                    continue
                body = bytes(buffer[place[0] : place[1]])
                start = place[1]
                if first >> 4 == PUBLISH:
                    packet = publish_of(first & 0x0F, body, self.level, Place.DELIVERY)
                    yield packet
                    if packet.topic and packet.qos < 2 and start < len(buffer) and buffer[start] == first:
                        said = short_properties(body, packet.qos, self.level)
                        if said is not None:
                            row, start = _alike(buffer, start, packet, said, self.most)
                            if row:
                                yield Alike(row)
                elif PUBACK <= first >> 4 <= PUBCOMP:
                    yield answer_of(first, body, self.level)
                else:
                    yield Control(first, body)
        finally:
            del buffer[:start]


class PacketReader(Framing):
    """Reads what a client says; its CONNECT says the level. The payload that is cut off is passed over."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._passing = 0

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

    def feed(self, data: bytes) -> Iterator[Packet | Alike | Acknowledged]:
        """Yield the packets that are complete. Raises `PacketError`, `WrongLevel`."""
        buffer = self._buffer
        buffer += data
        start = 0
        try:
            if self._passing:
                start = self._passed(start)
            while (place := self.body(start)) is not None:
                begin, end, length = place
                cut = end - begin < length
                first = buffer[start]
                if first == ACKNOWLEDGES and (numbers := _acknowledged(buffer, start)):
                    start += 4 * len(numbers)
                    yield Acknowledged(numbers)
                    continue
                packet = packet_of(first, bytes(buffer[begin:end]), LEVEL_3_1_1 if cut else self.level)
                if isinstance(packet, Connect):
                    self.level = packet.level
                if cut and isinstance(packet, Publish):
                    why = f"a packet of {length} bytes: this node takes {self.most} at most"
                    packet = msgspec.structs.replace(packet, cut=why)
                    self._passing = length - (end - begin)
                start = self._passed(end) if self._passing else end
                yield packet
                if isinstance(packet, Publish) and self._has_alike(packet, first, start):
                    row, start = _alike(buffer, start, packet, _NOTHING[self.level], self.most)
                    if row:
                        yield Alike(row)
        finally:
            del buffer[:start]

    def _has_alike(self, packet: Publish, first: int, start: int) -> bool:
        """May a row begin at `start`, behind a packet with that first byte?"""
        plain = packet.topic and packet.qos < 2 and not (packet.properties or packet.cut)
        return bool(plain) and start < len(self._buffer) and self._buffer[start] == first

    def _passed(self, start: int) -> int:
        """Where the next packet begins: what is passed over of the one before is not kept."""
        now = min(self._passing, len(self._buffer) - start)
        self._passing -= now
        return start + now


_NOTHING: Final = {LEVEL_3_1_1: b"", LEVEL_5: b"\0"}
"""How a PUBLISH without properties says so."""
_PUBACKS: Final = re.compile(rb"(?:\x40\x02..){2,%d}" % MOST, re.DOTALL)


def _acknowledged(buffer: bytearray, start: int) -> tuple[int, ...]:
    """The identifiers of the PUBACK packets that stand in a row there, four bytes each; () if none do."""
    found = _PUBACKS.match(buffer, start)
    if found is None:
        return ()
    numbers: tuple[int, ...] = struct.unpack(f">{(found.end() - start) // 2}H", found[0])[1::2]
    return numbers if all(numbers) else ()


def _alike(
    buffer: bytearray, start: int, before: Publish, said: bytes, most: int
) -> tuple[list[Publish], int]:
    """The row of PUBLISH packets that begin with the byte at `start`, and where it ends.

    `before`: the packet before them, which begins with that byte too. `said`: its properties, as they are
    written. `most`: bytes of one.
    """
    first, topic, qos, retain, again = buffer[start], before.topic, before.qos, before.retain, before.again
    name, properties = topic.encode(), before.properties
    head, present, stop = len(name).to_bytes(2) + name, len(buffer), start + _MOST_BYTES
    inside = len(head) + 2 * qos + len(said)
    found: list[Publish] = []
    while len(found) < MOST and start < stop and start + 2 < present and buffer[start] == first:
        size, at = buffer[start + 1], start + 2
        if size & 0x80:
            if buffer[at] & 0x80:
                break  # a large one
            size, at = size & 0x7F | buffer[at] << 7, at + 1
        end, body = at + size, at + inside
        if not inside <= size <= most or end > present or not buffer.startswith(head, at):
            break
        if said and not buffer.startswith(said, body - len(said)):
            break  # it has others
        at += len(head)
        number = buffer[at] << 8 | buffer[at + 1] if qos else 0
        if qos and not number:
            break
        payload = bytes(buffer[body:end])
        found.append(Publish(topic, payload, qos, retain, again, number, properties=properties))
        start = end
    return found, start
