"""Counts what comes on a WebSocket before the other side has proved itself, by the heads of its frames alone.

Law: a packet that is longer than a stranger's may be is refused by the length that it announces; nothing of
it is kept. The head of a frame is passed on once it is whole, so the line can be cut between two frames.
"""

from typing import Final

MOST_OF_A_STRANGER: Final = 64 * 1024
"""Bytes of one packet."""
_MORE: Final = 4 * 1024
_MOST_FRAMES: Final = 64
_EXTENDED: Final = {126: 2, 127: 8}


class Gate:
    """`refusal`: why nothing more passes, '' while it does."""

    def __init__(self) -> None:
        self.refusal = ""
        self._head = bytearray()
        self._left = 0
        self._sum = 0
        self._frames = 0

    def __repr__(self) -> str:
        return f"<Gate {self._sum} bytes in {self._frames} frames{' closed' if self.refusal else ''}>"

    @property
    def rest(self) -> bytes:
        """What has come and was not passed on: the beginning of a frame's head."""
        return bytes(self._head)

    def pass_on(self, data: bytes) -> bytes:
        """What of it may be passed on now."""
        passed = bytearray()
        at = 0
        while at < len(data) and not self.refusal:
            if self._left:
                step = min(self._left, len(data) - at)
                passed += data[at : at + step]
                self._left -= step
                at += step
                continue
            self._head.append(data[at])
            at += 1
            size = _payload(self._head)
            if size is not None:
                self._count(size)
                passed += b"" if self.refusal else self._head
                self._head.clear()
                self._left = size
        return bytes(passed)

    def _count(self, size: int) -> None:
        self._frames += 1
        self._sum += size
        if size > MOST_OF_A_STRANGER:
            self.refusal = (
                f"a packet of {size} bytes: {MOST_OF_A_STRANGER} at most before the handshake is done"
            )
        elif self._sum > MOST_OF_A_STRANGER + _MORE or self._frames > _MOST_FRAMES:
            self.refusal = (
                f"{self._sum} bytes in {self._frames} frames before the handshake is done:"
                f" {MOST_OF_A_STRANGER + _MORE} in {_MOST_FRAMES} at most"
            )


def _payload(head: bytearray) -> int | None:
    """Bytes of the payload behind the head of a frame (RFC 6455, 5.2); None while the head is not whole."""
    if len(head) < 2:
        return None
    short = head[1] & 0x7F
    extended = _EXTENDED.get(short, 0)
    if len(head) < 2 + extended + (4 if head[1] & 0x80 else 0):
        return None
    return int.from_bytes(head[2 : 2 + extended]) if extended else short
