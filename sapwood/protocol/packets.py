"""Packets: frames that a line carries as one, a MessagePack array of them; links and sessions alike."""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from sapwood.protocol.bundles import UNREADABLE

Bytes: TypeAlias = bytes | bytearray | memoryview
"""Bytes that are passed on without a copy."""
PACKET_OVERHEAD: Final = 5
MOMENT: Final = 16 * 1024
_MOST_IN_PACKET: Final = 0xFFFF
_MOST_IN_PIECE: Final = 1000

_items = msgspec.msgpack.Decoder(list[msgspec.Raw])


def head(count: int) -> bytes:
    """The bytes before so many frames."""
    return bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2, "big")


def packet(encoded: list[bytes]) -> bytes:
    """Join encoded frames to one packet."""
    return head(len(encoded)) + b"".join(encoded)


def packets(encoded: list[bytes], max_frame: int) -> list[bytes]:
    """Join encoded frames to as few packets of at most `max_frame` bytes as their order allows."""
    result: list[bytes] = []
    batch: list[bytes] = []
    size = PACKET_OVERHEAD
    for item in encoded:
        if batch and (size + len(item) > max_frame or len(batch) == _MOST_IN_PACKET):
            result.append(packet(batch))
            batch, size = [], PACKET_OVERHEAD
        batch.append(item)
        size += len(item)
    if batch:
        result.append(packet(batch))
    return result


def pieces(data: bytes) -> Iterator[bytes]:
    """The same frames in the same order as packets that are read in a moment each, were `data` made of very
    many small ones: a millisecond is for frames to be read, not a second. Each is made when it is asked for.
    """
    if len(data) <= MOMENT or data[0] & 0xF0 == 0x90:
        yield data
        return
    try:
        items = _items.decode(data)
    except UNREADABLE:
        yield data
        return
    for start in range(0, len(items), _MOST_IN_PIECE):
        some = items[start : start + _MOST_IN_PIECE]
        yield from packets([bytes(item) for item in some], MOMENT)
