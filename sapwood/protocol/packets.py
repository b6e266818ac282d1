"""Packets: frames that a line carries as one, a MessagePack array of them; links and sessions alike."""

from typing import Final

PACKET_OVERHEAD: Final = 5
_MOST_IN_PACKET: Final = 0xFFFF


def packet(encoded: list[bytes]) -> bytes:
    """Join encoded frames to one packet."""
    count = len(encoded)
    head = bytes([0x90 | count]) if count < 16 else b"\xdc" + count.to_bytes(2, "big")
    return head + b"".join(encoded)


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
