"""Where the packets of MQTT begin and end in a stream of bytes."""

from typing import Final

from bridges.mqtt.fields import TOO_LARGE, PacketError

LEVEL_3_1_1: Final = 4
LEVEL_5: Final = 5
PUBLISH: Final = 3
_MOST_LENGTH_BYTES: Final = 4


class Framing:
    """Takes bytes as they come. `most`: bytes that one packet may have; may be changed at any time.

    `cuts`: of a PUBLISH with more only the head is read; else no packet may have more.
    """

    def __init__(self, most: int, level: int = LEVEL_3_1_1) -> None:
        self.most = most
        self.level = level
        self.cuts = False
        self._buffer = bytearray()

    def __len__(self) -> int:
        """Bytes that wait here."""
        return len(self._buffer)

    def body(self, start: int) -> tuple[int, int, int] | None:
        """Where the body of the packet at `start` lies, and its length; None while it is not complete."""
        buffer = self._buffer
        present = len(buffer)
        if start + 2 > present:
            return None
        length, begin = buffer[start + 1], start + 2
        if length & 0x80 and begin < present and buffer[begin] < 0x80:  # as most, in two bytes
            length, begin = length & 0x7F | buffer[begin] << 7, begin + 1
        elif length & 0x80:
            if (found := self._length(start)) is None:
                return None
            length, begin = found
        size = length
        if length > self.most:
            if not self.cuts or buffer[start] >> 4 != PUBLISH:
                text = f"a packet of {length} bytes: this node takes {self.most} at most"
                raise PacketError(text, TOO_LARGE)
            if present < begin + 2:
                return None
            size = 2 + int.from_bytes(buffer[begin : begin + 2]) + (2 if buffer[start] & 6 else 0)
        end = begin + size
        return (begin, end, length) if end <= present else None

    def _length(self, start: int) -> tuple[int, int] | None:
        """The length that the packet at `start` says, and where its body begins; None if it is not here."""
        buffer = self._buffer
        length = shift = 0
        for place in range(start + 1, start + 1 + _MOST_LENGTH_BYTES):
            if place >= len(buffer):
                return None
            length |= (buffer[place] & 0x7F) << shift
            shift += 7
            if not buffer[place] & 0x80:
                return length, place + 1
        raise PacketError("the length of a packet has more than four bytes")
