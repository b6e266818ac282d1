"""Bundles: what is stored, forwarded and acknowledged between nodes as one.

A bundle holds messages of one destination and one delivery class. Its body is encoded, and compressed
where that pays, once, where the messages entered; it travels as opaque bytes behind a small header and
is unpacked once, where it is delivered.

Law: a header begins with a version byte and only grows by optional fields at its end; a body is the
concatenation of its messages' MessagePack, so bodies are joined without decoding. Both may be read
years later and many hops away.

Wrinkle: a bundle carries its expiry as *remaining* milliseconds. `elapsed` is how much of it is used up:
the smallest `expires_in` of its messages minus the header's `expires_first`.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec
import zstandard

from treeconnector.destinations import Destination
from treeconnector.errors import FrameError, TooMuchInside

VERSION: Final = 1
MAX_MESSAGES: Final = 256
MAX_BYTES: Final = 256 * 1024
MAX_HEADER: Final = 8 * 1024
UNREADABLE: Final = (msgspec.DecodeError, ValueError, RecursionError)
MAX_PROPERTIES: Final = MAX_BYTES  # a byte of them may be 60 in memory, and a microsecond of everybody's time
DEEPEST: Final = 32
"""Levels of a header beyond these are left out on the way to and from other brokers."""
MAX_UNPACKED: Final = 1024 * 1024 * 1024
WORTH_COMPRESSING: Final = 160
_MOST: Final = (1 << 53) - 1
_MOST_SCOPE: Final = 255


class Scope(IntEnum):
    VERTICAL = 0
    TREE = 1


class Flag:
    """Bits of a header's `flags`. Plain integers: each bundle is asked several times on its way."""

    PERSISTENT: Final = 1
    RETAINED: Final = 2
    MAYBE_DUPLICATE: Final = 4
    REROUTED: Final = 8
    COMPRESSED: Final = 16
    TELL: Final = 32  # the sender wants to be told at once when nobody serves the queue
    NOTICE: Final = 64  # a node says so; only nodes set it, a client's message never has it


class Foreign(msgspec.Struct, omit_defaults=True, rename="kebab", gc=False, frozen=True):
    """Properties that mean something to the brokers at the edges only (see `bridges.properties`).

    `correlation`: a correlation id that is no number. `qos`: how the broker at the end is to give it (0 need
    not be kept, 1, 2 once). `utf8`: the payload is text.
    """

    correlation: bytes = b""
    content_encoding: str = ""
    type: str = ""
    app_id: str = ""
    user_id: str = ""
    qos: int = 1
    utf8: bool = False


class Properties(msgspec.Struct, omit_defaults=True, rename="kebab", gc=False):
    """What a message may carry beside its payload. `expires_in`: ms when it entered the tree; 0 = never.

    `timestamp`: seconds since 1970. Wrinkle: from sixteen fields on, every message would be two bytes longer.
    """

    correlation_id: int | None = None
    reply_to: str = ""
    task_id: str = ""
    expires_in: int = 0
    message_id: str = ""
    content_type: str = ""
    timestamp: int = 0
    priority: int = 0
    interface: str = ""
    interface_version: str = ""
    headers: dict[str, Any] = {}
    foreign: Foreign | None = None


class Message(msgspec.Struct, array_like=True, gc=False):
    payload: bytes
    properties: Properties = msgspec.field(default_factory=Properties)


class Header(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """The small part that every hop reads. Frozen by version: new fields are optional and come last.

    `id`: 16 bytes. `size`: bytes of the body before compression. `expires_first`, `expires_last`:
    remaining ms until the first and the last message expires, 0 = never. `reroutes`: how often it went
    back where it came from. `done`: bit i (little endian) set = message i is dealt with; empty = none.
    """

    id: bytes
    destination: Destination
    scope: int = 0
    flags: int = 0
    count: int = 1
    size: int = 0
    origin_store: bytes = b""
    origin: str = ""
    expires_first: int = 0
    expires_last: int = 0
    reroutes: int = 0
    done: bytes = b""

    def __str__(self) -> str:
        return f"bundle {self.id.hex()} of {self.count} for {self.destination}"

    @property
    def identity(self) -> bytes:
        """What nobody else's bundle has: ids can be guessed by who has seen one, origins are proven."""
        return self.id + self.origin.encode()

    @property
    def persistent(self) -> bool:
        return bool(self.flags & 1)


class _Undecoded(msgspec.Struct, array_like=True, gc=False):
    """A message of which nothing has been looked into."""

    payload: msgspec.Raw
    properties: msgspec.Raw = msgspec.Raw()


_header_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(Header)
_messages_decoder = msgspec.msgpack.Decoder(list[Message])
_undecoded_decoder = msgspec.msgpack.Decoder(list[_Undecoded])
_message_encoder = msgspec.msgpack.Encoder()
_compressor = zstandard.ZstdCompressor(level=1, write_content_size=True)
_decompressor = zstandard.ZstdDecompressor()
_VERSION_BYTE = bytes([VERSION])


def encode_header(header: Header) -> bytes:
    return _VERSION_BYTE + _header_encoder.encode(header)


def decode_header(data: bytes) -> Header:
    """Read a header from a peer or the store. Raises `FrameError` on anything that is not one."""
    if not data or len(data) > MAX_HEADER:
        raise FrameError(f"a bundle header of {len(data)} bytes: expected 1 to {MAX_HEADER}")
    if data[0] < VERSION:
        raise FrameError(f"bundle version {data[0]}: this node reads {VERSION} and later ones that only grew")
    try:
        header = _header_decoder.decode(memoryview(data)[1:])
    except UNREADABLE as error:
        raise FrameError(f"not a bundle header: {error}") from None
    _check(header)
    return header


def _check(header: Header) -> None:
    if len(header.id) != 16:
        raise FrameError(f"a bundle id of {len(header.id)} bytes: expected 16")
    if not 1 <= header.count <= MAX_MESSAGES:
        raise FrameError(f"{header.count} messages in a bundle: expected 1 to {MAX_MESSAGES}")
    if len(header.done) > (header.count + 7) // 8:
        raise FrameError(f"a mask of {len(header.done)} bytes for {header.count} messages")
    if header.done and mask_bits(header.done) >> header.count:
        raise FrameError(f"a mask that marks more than {header.count} messages")
    numbers = header.size, header.reroutes, header.expires_first, header.expires_last, header.flags
    if min(numbers) < 0 or max(numbers) > _MOST or not 0 <= header.scope <= _MOST_SCOPE:
        raise FrameError("a size, count, expiry, scope or flag in a bundle header that cannot be")
    if header.destination.kind not in ("queue", "topic") or len(header.destination.name) > 4096:
        raise FrameError(
            "a bundle's destination is a queue or a topic with a name of at most 4096 characters"
        )


def mask_bits(done: bytes) -> int:
    return int.from_bytes(done, "little")


def mask_bytes(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def encode_message(message: Message) -> bytes:
    return _message_encoder.encode(message)


def join(encoded: Sequence[bytes]) -> bytes:
    """The plain body of messages that are encoded already."""
    return b"".join(encoded)


def compress(plain: bytes) -> tuple[bytes, int]:
    """Return (body, flag): compressed where that saves an eighth at least, else as it is."""
    if len(plain) >= WORTH_COMPRESSING:
        small = _compressor.compress(plain)
        if len(small) < len(plain) - len(plain) // 8:
            return small, Flag.COMPRESSED
    return plain, 0


def check_size(header: Header, body: bytes, most: int = MAX_UNPACKED) -> None:
    """Is a body's size `most` bytes at most, and does the body say it itself? Raises `FrameError`.

    Nothing is unpacked for it.
    """
    if header.size > most:
        raise TooMuchInside(f"{header}: says {header.size} bytes unpacked, {most} at most")
    if header.flags & Flag.COMPRESSED:
        try:
            size = zstandard.get_frame_parameters(body).content_size
        except zstandard.ZstdError as error:
            raise FrameError(f"{header}: its body does not decompress: {error}") from None
        if size != header.size:
            raise FrameError(f"{header}: says {header.size} bytes, its body says {size}")
    elif len(body) != header.size:
        raise FrameError(f"{header}: says {header.size} bytes and has {len(body)}")


def plain_body(header: Header, body: bytes, most: int = MAX_UNPACKED) -> bytes:
    """Undo `compress`. Raises `FrameError` if the body is not the size that its header says.

    The size is known before anything is unpacked: above `most` bytes nothing is.
    """
    check_size(header, body, most)
    if header.flags & Flag.COMPRESSED:
        try:
            body = _decompressor.decompress(body, max_output_size=header.size)
        except zstandard.ZstdError as error:
            raise FrameError(f"{header}: its body does not decompress: {error}") from None
        if len(body) != header.size:
            raise FrameError(f"{header}: says {header.size} bytes and has {len(body)}")
    return body


def whole(plain: bytes, count: int) -> bytes:
    """A body as one MessagePack array, whose properties are no more than may be decoded."""
    whole = b"\xdd" + struct.pack(">I", count) + plain
    if len(plain) > MAX_PROPERTIES:
        size = sum(len(each.properties) for each in _undecoded_decoder.decode(whole))
        if size > MAX_PROPERTIES:
            text = f"properties of {size} bytes in {count} messages: {MAX_PROPERTIES} at most"
            raise TooMuchInside(text)
    return whole


def decode_messages(plain: bytes, count: int) -> list[Message]:
    """Read exactly `count` messages. Raises `FrameError` if there are not that many, or more bytes."""
    try:
        return _messages_decoder.decode(whole(plain, count))
    except (*UNREADABLE, struct.error) as error:
        raise FrameError(f"not {count} messages: {error}") from None


def unpack(header: Header, body: bytes, most: int = MAX_UNPACKED) -> list[Message]:
    return decode_messages(plain_body(header, body, most), header.count)


def check_properties(message: Message, encoded: bytes) -> None:
    """Raise `TooMuchInside` if no node would read a message for its properties. `encoded`: the message."""
    size = len(encoded) - len(message.payload)
    if size > MAX_PROPERTIES:
        raise TooMuchInside(f"properties of {size} bytes in a message: {MAX_PROPERTIES} at most")
