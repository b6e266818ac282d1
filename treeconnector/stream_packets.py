"""Packets of streams, as they are written: what is large in them is not copied."""

from collections.abc import Sequence
from typing import Final

import msgspec

from sapwood.protocol.packets import Bytes, head
from treeconnector.frames import Frame, StreamData, encode

_SMALL: Final = 1024
_DATA: Final = bytes([0x93, 102])


def packet_in_parts(some: Sequence[Frame]) -> list[Bytes]:
    """The bytes of `packets.packet`, of what `encode` makes of each, without a copy of large data."""
    parts: list[Bytes] = []
    small = head(len(some))
    for frame in some:
        if isinstance(frame, StreamData) and len(frame.data) > _SMALL:
            parts += (small + _head_of_data(frame), frame.data)
            small = b""
        else:
            small += encode(frame)
    return [*parts, small] if small else parts


def _head_of_data(frame: StreamData) -> bytes:
    """Up to the data, whose length takes four bytes."""
    return _DATA + msgspec.msgpack.encode(frame.stream) + b"\xc6" + len(frame.data).to_bytes(4, "big")
