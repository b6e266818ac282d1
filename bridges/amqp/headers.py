"""Odd headers: the one patch of pika. It holds for the whole process, for pika calls these two by module.

- pika reads floating-point numbers as whole ones (https://github.com/pika/pika/issues/599) and cannot write
  them (https://github.com/pika/pika/pull/1705: accepted, and not in 1.4.4).
- A time that no calendar has ends the connection (https://github.com/pika/pika/issues/1698: mended, and not
  in 1.4.4).
- So do lists in lists in lists, at Python's limit of recursion. Everything below `DEEPEST` is left out.

Without this, what a Java program put into a header would change between one RabbitMQ and another, and one odd
header would end each connection that its message is given to. The first two go once the oldest pika that we
take has them; the third stays. Nothing else of pika is changed.
"""

import struct
import threading
from typing import Any

import pika.data

from sapwood.protocol.bundles import DEEPEST

_nested = threading.local()
_encode, _decode = pika.data.encode_value, pika.data.decode_value


def _encode_value(pieces: list[bytes], value: Any) -> int:
    if isinstance(value, float):
        pieces.append(struct.pack(">cd", b"d", value))
        return 9
    return int(_encode(pieces, value))


def _decode_value(encoded: bytes, offset: int) -> tuple[Any, int]:
    match encoded[offset : offset + 1]:
        case b"d":
            return struct.unpack_from(">d", encoded, offset + 1)[0], offset + 9
        case b"f":
            return struct.unpack_from(">f", encoded, offset + 1)[0], offset + 5
        case b"T":
            try:
                return tuple(_decode(encoded, offset))
            except (ValueError, OverflowError, OSError):
                return struct.unpack_from(">Q", encoded, offset + 1)[0], offset + 9
        case b"F" | b"A":
            return _decode_nested(encoded, offset)
    return tuple(_decode(encoded, offset))


def _decode_nested(encoded: bytes, offset: int) -> tuple[Any, int]:
    """A table or a list: its length, and what is in it."""
    depth = getattr(_nested, "depth", 0)
    if depth >= DEEPEST:
        return None, offset + 5 + struct.unpack_from(">I", encoded, offset + 1)[0]
    _nested.depth = depth + 1
    try:
        return tuple(_decode(encoded, offset))
    finally:
        _nested.depth = depth


pika.data.encode_value, pika.data.decode_value = _encode_value, _decode_value
