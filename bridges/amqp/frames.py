"""AMQP 0-9-1 frames of messages: bytes in, messages and confirms out, and back. No socket is here.

Source: AMQP 0-9-1, sections 2.3.5 and 4.2. Other frames are left to pika, as they came.

Law: bytes that are not in the standard are `NotAmqp`, upon which the connection ends. Nothing is kept of a
message that says it is larger than `LARGEST`.

Wrinkle: RabbitMQ cuts bodies as we ask for, never properties: those of a message that somebody else was
allowed to publish may be a larger frame than was agreed, and are read.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from pika import BasicProperties
from pika.exceptions import AMQPError

from bridges.amqp.errors import NotAmqp
from bridges.amqp.tables import read_properties, read_text, said_text

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
END: Final = 0xCE
AROUND: Final = 8
"""Bytes of a frame around what it carries."""
BASIC: Final = 60
PUBLISH: Final = 60 << 16 | 40
DELIVER: Final = 60 << 16 | 60
ACK: Final = 60 << 16 | 80
NACK: Final = 60 << 16 | 120
LARGEST: Final = 512 * 1024 * 1024
"""Bytes of a body: no RabbitMQ takes a larger one."""
LARGEST_HEADER: Final = 16 * 1024 * 1024
_FRAME: Final = struct.Struct(">BHI")
_METHOD: Final = struct.Struct(">I")
_CONTENT: Final = struct.Struct(">HHQ")
CONTENT_SIZE: Final = _CONTENT.size
"""Bytes before the properties in their frame."""
_DELIVERY: Final = struct.Struct(">Q?")
_ANSWER: Final = struct.Struct(">BHIIQBB")
_ANSWER_SIZE: Final = 13


class Incoming(NamedTuple):
    """A message that a consumer was given. `tag`: acknowledge it by this, on its channel.

    `properties` may be those of another message too: nobody changes them.
    """

    tag: int
    exchange: str
    key: str
    redelivered: bool
    properties: BasicProperties
    body: bytes


class Delivered(NamedTuple):
    """A message for a consumer of a channel."""

    channel: int
    consumer: str
    message: Incoming


class Confirmed(NamedTuple):
    """The broker has a message of ours, and with `multiple` all before it; or not, if it is not `good`."""

    channel: int
    tag: int
    multiple: bool
    good: bool


class _Content:
    """A message of which a part has come. `size`: of its body, -1 as long as its header has not come."""

    __slots__ = ("consumer", "exchange", "got", "key", "parts", "properties", "redelivered", "size", "tag")

    def __init__(self, consumer: str, tag: int, redelivered: bool, exchange: str, key: str) -> None:
        self.consumer = consumer
        self.tag = tag
        self.redelivered = redelivered
        self.exchange = exchange
        self.key = key
        self.size = -1
        self.got = 0
        self.parts: list[bytes] = []
        self.properties: BasicProperties

    def delivered(self, channel: int, body: bytes) -> Delivered:
        return Delivered(
            channel,
            self.consumer,
            Incoming(self.tag, self.exchange, self.key, self.redelivered, self.properties, body),
        )


class ContentReader:
    """Of one connection. `largest`: bytes of a frame, as agreed with the broker."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._chunks: list[bytes] = []
        self._held = 0
        self._needed = 0
        self._last = b"", BasicProperties()
        self._open: dict[int, _Content] = {}

    def __repr__(self) -> str:
        return f"<ContentReader held={self._held} messages={len(self._open)}>"

    def feed(self, data: bytes) -> Iterator[Delivered | Confirmed | bytes]:
        """All that is complete, in its order: messages, confirms, and other frames as they came."""
        self._chunks.append(data)
        self._held += len(data)
        if self._held < self._needed:
            return
        data = b"".join(self._chunks)
        self._chunks = []
        at, length = 0, len(data)
        while length - at >= _FRAME.size:
            kind, channel, size = _FRAME.unpack_from(data, at)
            start = at + _FRAME.size
            end = start + size
            if size > self._largest - AROUND and (kind != HEADER or size > LARGEST_HEADER):
                raise NotAmqp(f"a frame of {size} bytes on channel {channel}: {self._largest} were agreed")
            if end >= length:
                break
            if data[end] != END:
                raise NotAmqp(f"a frame of {size} bytes on channel {channel} without its end")
            found: Delivered | Confirmed | bytes | None
            try:
                found = self._read(kind, channel, data, start, end)
            except (struct.error, IndexError):
                raise NotAmqp(f"a frame on channel {channel} ends in the middle of a field") from None
            except AMQPError as error:
                raise NotAmqp(f"a frame on channel {channel} cannot be read: {error!r}") from None
            at = end + 1
            if found is not None:
                yield found
        self._keep(data[at:])

    def _keep(self, rest: bytes) -> None:
        """Wait for what is missing of the next frame before it is looked at again."""
        self._chunks, self._held, self._needed = [rest] if rest else [], len(rest), _FRAME.size
        if len(rest) >= _FRAME.size:
            self._needed = AROUND + int(_FRAME.unpack_from(rest)[2])

    def _read(
        self, kind: int, channel: int, data: bytes, start: int, end: int
    ) -> Delivered | Confirmed | bytes | None:
        content = self._open.get(channel)
        if kind == METHOD:
            if content is not None:
                raise NotAmqp(f"channel {channel}: a method in the middle of a message")
            (method,) = _METHOD.unpack_from(data, start)
            if method == DELIVER:
                self._open[channel] = _delivery(data, start + 4, end)
                return None
            if method in (ACK, NACK):
                return _confirmed(channel, method == ACK, data, start + 4, end)
        elif content is not None and kind == HEADER:
            return self._header(channel, content, data, start, end)
        elif content is not None and kind == BODY:
            return self._body(channel, content, data[start:end])
        return data[start - _FRAME.size : end + 1]

    def _header(self, channel: int, content: _Content, data: bytes, start: int, end: int) -> Delivered | None:
        of, _, size = _CONTENT.unpack_from(data, start)
        if content.size >= 0 or of != BASIC:
            raise NotAmqp(f"channel {channel}: a header that belongs to no message")
        if size > LARGEST:
            raise NotAmqp(f"channel {channel}: a message of {size} bytes; {LARGEST} at most")
        content.size, content.properties = size, self._properties(data, start + _CONTENT.size, end)
        if size:
            return None
        del self._open[channel]
        return content.delivered(channel, b"")

    def _properties(self, data: bytes, start: int, end: int) -> BasicProperties:
        """Those of one producer are often the same: they are read once."""
        said, read = self._last
        if data[start:end] != said:
            read = read_properties(data, start, end)
            self._last = data[start:end], read
        return read

    def _body(self, channel: int, content: _Content, part: bytes) -> Delivered | None:
        content.got += len(part)
        if content.got < content.size:
            content.parts.append(part)
            return None
        if content.size < 0 or content.got > content.size:
            raise NotAmqp(f"channel {channel}: a body of more bytes than its header said")
        del self._open[channel]
        return content.delivered(channel, b"".join((*content.parts, part)) if content.parts else part)


def _delivery(data: bytes, at: int, end: int) -> _Content:
    consumer, at = read_text(data, at)
    tag, redelivered = _DELIVERY.unpack_from(data, at)
    exchange, at = read_text(data, at + _DELIVERY.size)
    key, at = read_text(data, at)
    if at != end:
        raise NotAmqp("a delivery that is not as long as its fields")
    return _Content(consumer, tag, redelivered, exchange, key)


def _confirmed(channel: int, good: bool, data: bytes, at: int, end: int) -> Confirmed:
    if at + 9 != end:
        raise NotAmqp("a confirm that is not as long as its fields")
    (tag,) = struct.unpack_from(">Q", data, at)
    return Confirmed(channel, tag, bool(data[at + 8] & 1), good)


# --- from us


def ack(channel: int, tag: int, multiple: bool) -> bytes:
    """A basic.ack of a delivery."""
    return _ANSWER.pack(METHOD, channel, _ANSWER_SIZE, ACK, tag, multiple, END)


def publish(
    channel: int,
    exchange: str,
    key: str,
    properties: bytes,
    body: bytes,
    mandatory: bool,
    largest: int,
) -> bytes:
    """A basic.publish with its content. `properties`: see `said_properties`. `largest`: bytes of a frame."""
    size, most = len(body), largest - AROUND
    pieces = [
        _publish(channel, exchange, key, mandatory),
        _FRAME.pack(HEADER, channel, _CONTENT.size + len(properties)),
        _CONTENT.pack(BASIC, 0, size),
        properties,
        b"\xce",
    ]
    if 0 < size <= most:
        pieces += (_FRAME.pack(BODY, channel, size), body, b"\xce")
    elif size:
        for start in range(0, size, most):
            part = body[start : start + most]
            pieces += (_FRAME.pack(BODY, channel, len(part)), part, b"\xce")
    return b"".join(pieces)


@lru_cache(maxsize=1024)
def _publish(channel: int, exchange: str, key: str, mandatory: bool) -> bytes:
    names = b"".join((*said_text(exchange), *said_text(key)))
    said = _METHOD.pack(PUBLISH) + b"\0\0" + names + bytes([mandatory])
    return _FRAME.pack(METHOD, channel, len(said)) + said + b"\xce"
