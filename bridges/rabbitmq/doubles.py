"""Floating-point numbers and times in headers: pika reads numbers as whole ones, cannot write them, and ends
the connection over a time that no calendar has. It learns better here.

Without this, what a Java program put into a header would change between one RabbitMQ and another, and one odd
time would end each connection that its message is given to. Wrinkle: pika's functions are those of the whole
process; nothing that they could do is changed.
"""

import struct
from typing import Any

import pika.data

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
    return tuple(_decode(encoded, offset))


pika.data.encode_value, pika.data.decode_value = _encode_value, _decode_value
