"""Bundles that are larger than a packet: cut into pieces here, put together there.

Law: pieces of one bundle follow each other with nothing but control frames between them, and a buffer
never holds more than has arrived, nor more than the limit that is checked at the first piece.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from sapwood.protocol.errors import FrameError, SequenceError
from sapwood.protocol.packets import PACKET_OVERHEAD
from treeconnector.frames import Part, encode

VOLATILE: Final = 0
_PART_OVERHEAD: Final = 64


def split(number: int, header: bytes, body: bytes, max_frame: int) -> Iterator[bytes]:
    """Encoded `Part` frames, each small enough for a packet. `number`: `VOLATILE` if it has none."""
    total = len(header) + len(body)
    room = max_frame - PACKET_OVERHEAD - _PART_OVERHEAD
    start, head = 0, header
    while start < len(body):
        end = min(start + room - len(head), len(body))
        offset = len(header) + start if start else 0
        yield encode(Part(number, head, total, offset, body[start:end]))
        start, head = end, b""


class Whole(NamedTuple):
    """A bundle put together again."""

    number: int
    header: bytes
    body: bytes


class Assembly:
    """Puts pieces together. `limit`: largest header + body, bytes. `total`: bytes of the bundle of which some
    pieces are here, and not all; 0 = there is none.
    """

    __slots__ = ("_body", "_header", "_limit", "_number", "total")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.forget()

    def __repr__(self) -> str:
        return f"<Assembly of {self._number}: {self.arrived} of {self.total} bytes>"

    def forget(self) -> None:
        """Nothing of a bundle is here any more."""
        self._number, self.total, self._header, self._body = -1, 0, b"", bytearray()

    @property
    def arrived(self) -> int:
        return len(self._header) + len(self._body)

    def begins(self, part: Part) -> bool:
        """Is this a first piece? Raises if it cannot be one, or does not follow the last."""
        if self.total:
            self._check_follows(part)
            return False
        if part.offset or not part.header:
            raise SequenceError(f"a piece of bundle {part.number} at {part.offset} without those before it")
        if part.total > self._limit:
            raise FrameError(
                f"bundle {part.number} of {part.total} bytes: this end takes {self._limit} at most"
            )
        return True

    def _check_follows(self, part: Part) -> None:
        if (part.number, part.total, part.offset) != (self._number, self.total, self.arrived):
            raise SequenceError(
                f"a piece of bundle {part.number} at {part.offset} of {part.total}:"
                f" expected {self._number} at {self.arrived} of {self.total}"
            )
        if part.header:
            raise FrameError(f"a second header in a piece of bundle {part.number}")

    def add(self, part: Part) -> Whole | None:
        """Take a piece that `begins` has seen; return the bundle when it is whole."""
        if not self.total:
            self._number, self.total, self._header = part.number, part.total, part.header
        if not part.data or self.arrived + len(part.data) > self.total:
            raise FrameError(f"a piece of {len(part.data)} bytes at {part.offset} of {part.total}")
        self._body += part.data
        if self.arrived < self.total:
            return None
        whole = Whole(self._number, self._header, bytes(self._body))
        self.forget()
        return whole
