"""The fields of an MQTT packet's body, one after the other, and the errors of a packet.

Law: nothing is believed: lengths are checked before anything is kept, texts are UTF-8 without U+0000.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from sapwood.protocol.errors import SapwoodError

Item = TypeVar("Item")
MALFORMED: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
TOO_LARGE: Final = 0x95
CUT_SHORT: Final = "a packet ends in the middle of a field"
ID_0: Final = "a packet identifier is 0"
_MOST_LENGTH_BYTES: Final = 4


class PacketError(SapwoodError):
    """These bytes are no MQTT, or not what may be said now. `reason`: its code in MQTT 5.

    `answer`: what is to be written before the end.
    """

    def __init__(self, text: str, reason: int = MALFORMED) -> None:
        super().__init__(text)
        self.reason = reason
        self.answer = b""


class PacketFields:
    """Of one packet, from place `at` on. All methods raise `PacketError` where the body ends too early."""

    def __init__(self, body: bytes, at: int = 0) -> None:
        self._body = body
        self._at = at

    def __repr__(self) -> str:
        return f"<PacketFields at {self._at} of {len(self._body)} bytes>"

    @property
    def left(self) -> int:
        """Bytes that have not been taken."""
        return len(self._body) - self._at

    def _take(self, count: int) -> bytes:
        taken = self._body[self._at : self._at + count]
        if len(taken) < count:
            raise PacketError(CUT_SHORT)
        self._at += count
        return taken

    def byte(self) -> int:
        return self._take(1)[0]

    def number(self) -> int:
        return int.from_bytes(self._take(2))

    def long(self) -> int:
        return int.from_bytes(self._take(4))

    def variable(self) -> int:
        """A variable byte integer."""
        found = 0
        for place in range(_MOST_LENGTH_BYTES):
            byte = self.byte()
            found |= (byte & 0x7F) << 7 * place
            if not byte & 0x80:
                return found
        raise PacketError("a length has more than four bytes")

    def binary(self) -> bytes:
        return self._take(self.number())

    def text(self) -> str:
        return decoded(self.binary())

    def packet_id(self) -> int:
        number = self.number()
        if not number:
            raise PacketError(ID_0)
        return number

    def part(self) -> "PacketFields":
        """The fields of a part that says its length."""
        return PacketFields(self._take(self.variable()))

    def every(self, one: Callable[[], Item], most: int, what: str) -> Iterator[Item]:
        """At least one, until the body ends. Raises `PacketError` if there is none, or more than `most`."""
        if not self.left:
            raise PacketError(f"a packet without {what}", PROTOCOL_ERROR)
        yield one()
        for _ in range(most - 1):
            if not self.left:
                return
            yield one()
        if self.left:
            raise PacketError(f"a packet with more than {most} {what}", TOO_LARGE)

    def rest(self) -> bytes:
        return self._take(self.left)

    def end(self) -> None:
        if self.left:
            raise PacketError("a packet is longer than its fields")


def decoded(data: bytes) -> str:
    """The text of a field. Raises `PacketError`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise PacketError("a text is not UTF-8") from None
    if "\x00" in text:
        raise PacketError("a text holds U+0000")
    return text


def variable(length: int) -> bytes:
    """A variable byte integer."""
    if length < 0x80:
        return bytes((length,))
    if length < 0x4000:
        return bytes((length & 0x7F | 0x80, length >> 7))
    found = bytearray()
    while True:
        length, low = length >> 7, length & 0x7F
        found.append(low | (0x80 if length else 0))
        if not length:
            return bytes(found)


def text(value: str) -> bytes:
    """A text, which has 65,535 bytes at most."""
    data = value.encode()
    return len(data).to_bytes(2) + data
