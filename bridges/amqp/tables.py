"""The properties of a message, as pika has them, and their bytes.

Law: what pika says and reads (`bridges.amqp.headers` included) is said and read here byte for byte; only
faster, and a table that is not as long as it says is `NotAmqp`. Wrinkle: a text that is not UTF-8 stays
bytes, as with pika.

Source: AMQP 0-9-1, sections 4.2.5 and 4.2.6.1, with RabbitMQ's errata about the types of fields.
"""

import struct
from typing import Any, Final

import pika.data
from pika import BasicProperties
from pika.exceptions import ShortStringTooLong

import bridges.amqp.headers  # noqa: F401 - pika learns to read and write odd headers
from bridges.amqp.errors import NotAmqp

_SHORT: Final = struct.Struct(">H")
_LONG: Final = struct.Struct(">I")
_INTEGER: Final = struct.Struct(">i")
_TIME: Final = struct.Struct(">Q")
_TEXT_FIELD: Final = struct.Struct(">cI")
_INTEGER_FIELD: Final = struct.Struct(">ci")
_BEFORE: Final = (
    (BasicProperties.FLAG_CONTENT_TYPE, "content_type"),
    (BasicProperties.FLAG_CONTENT_ENCODING, "content_encoding"),
)
_BETWEEN: Final = (
    (BasicProperties.FLAG_CORRELATION_ID, "correlation_id"),
    (BasicProperties.FLAG_REPLY_TO, "reply_to"),
    (BasicProperties.FLAG_EXPIRATION, "expiration"),
    (BasicProperties.FLAG_MESSAGE_ID, "message_id"),
)
_BEHIND: Final = (
    (BasicProperties.FLAG_TYPE, "type"),
    (BasicProperties.FLAG_USER_ID, "user_id"),
    (BasicProperties.FLAG_APP_ID, "app_id"),
    (BasicProperties.FLAG_CLUSTER_ID, "cluster_id"),
)
_ANY_BEFORE, _ANY_BETWEEN, _ANY_BEHIND = (
    sum(flag for flag, _ in texts) for texts in (_BEFORE, _BETWEEN, _BEHIND)
)


def read_properties(data: bytes, at: int, end: int) -> BasicProperties:
    """Those between two offsets. Raises `NotAmqp`, `struct.error`, `IndexError`, or an error of pika's."""
    (flags,) = _SHORT.unpack_from(data, at)
    if flags & 1:
        raise NotAmqp("properties with flags that AMQP does not have")
    at += 2
    read = BasicProperties()
    if flags & _ANY_BEFORE:
        at = _read_texts(read, _BEFORE, flags, data, at)
    if flags & BasicProperties.FLAG_HEADERS:
        read.headers, at = _read_table(data, at)
    if flags & BasicProperties.FLAG_DELIVERY_MODE:
        read.delivery_mode, at = data[at], at + 1
    if flags & BasicProperties.FLAG_PRIORITY:
        read.priority, at = data[at], at + 1
    if flags & _ANY_BETWEEN:
        at = _read_texts(read, _BETWEEN, flags, data, at)
    if flags & BasicProperties.FLAG_TIMESTAMP:
        (read.timestamp,), at = _TIME.unpack_from(data, at), at + 8
    if flags & _ANY_BEHIND:
        at = _read_texts(read, _BEHIND, flags, data, at)
    if at > end:
        raise NotAmqp("properties that are longer than their frame")
    return read


def _read_texts(
    read: BasicProperties, texts: tuple[tuple[int, str], ...], flags: int, data: bytes, at: int
) -> int:
    for flag, name in texts:
        if flags & flag:
            value, at = read_text(data, at)
            setattr(read, name, value)
    return at


def read_text(data: bytes, at: int) -> tuple[Any, int]:
    """A short text, and where it ends."""
    start = at + 1
    end = start + data[at]
    return _text(data[start:end]), end


def _text(raw: bytes) -> Any:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _read_table(data: bytes, at: int) -> tuple[dict[Any, Any], int]:
    table: dict[Any, Any] = {}
    (size,) = _LONG.unpack_from(data, at)
    at += 4
    end = at + size
    while at < end:
        name, at = read_text(data, at)
        match data[at]:
            case 0x53:  # S
                start = at + 5
                at = start + _LONG.unpack_from(data, at + 1)[0]
                table[name] = _text(data[start:at])
            case 0x49:  # I
                (table[name],), at = _INTEGER.unpack_from(data, at + 1), at + 5
            case 0x74:  # t
                table[name], at = data[at + 1] != 0, at + 2
            case _:
                table[name], at = pika.data.decode_value(data, at)
    if at != end:
        raise NotAmqp("a table that is not as long as its fields")
    return table, at


def said_properties(properties: BasicProperties) -> bytes:
    """Raises what pika raises for properties that AMQP has no room for, and `TypeError` for no text."""
    pieces = [b""]
    flags = _say_texts(properties, _BEFORE, pieces)
    if properties.headers is not None:
        flags |= BasicProperties.FLAG_HEADERS
        _say_table(properties.headers, pieces)
    if properties.delivery_mode is not None:
        flags |= BasicProperties.FLAG_DELIVERY_MODE
        pieces.append(struct.pack("B", properties.delivery_mode))
    if properties.priority is not None:
        flags |= BasicProperties.FLAG_PRIORITY
        pieces.append(struct.pack("B", properties.priority))
    flags |= _say_texts(properties, _BETWEEN, pieces)
    if properties.timestamp is not None:
        flags |= BasicProperties.FLAG_TIMESTAMP
        pieces.append(_TIME.pack(properties.timestamp))
    flags |= _say_texts(properties, _BEHIND, pieces)
    pieces[0] = _SHORT.pack(flags)
    return b"".join(pieces)


def _say_texts(properties: BasicProperties, texts: tuple[tuple[int, str], ...], pieces: list[bytes]) -> int:
    flags = 0
    for flag, name in texts:
        text = getattr(properties, name)
        if text is not None:
            flags |= flag
            pieces += said_text(text)
    return flags


def said_text(text: Any) -> tuple[bytes, bytes]:
    """A short text. Raises `ShortStringTooLong`."""
    if isinstance(text, str):
        text = text.encode()
    elif not isinstance(text, bytes):
        raise TypeError(f"{text!r} is no text")
    if len(text) > 255:
        raise ShortStringTooLong(text)
    return bytes((len(text),)), text


def _say_table(table: dict[Any, Any], pieces: list[bytes]) -> None:
    place, size = len(pieces), 0
    pieces.append(b"")
    for name, value in table.items():
        length, text = said_text(name)
        pieces += (length, text)
        if type(value) is str:
            said = value.encode()
            pieces += (_TEXT_FIELD.pack(b"S", len(said)), said)
            size += 6 + len(text) + len(said)
        elif type(value) is int and -0x8000_0000 <= value < 0x8000_0000:
            pieces.append(_INTEGER_FIELD.pack(b"I", value))
            size += 6 + len(text)
        else:
            size += 1 + len(text) + int(pika.data.encode_value(pieces, value))
    pieces[place] = _LONG.pack(size)
