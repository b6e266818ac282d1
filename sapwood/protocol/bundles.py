"""Bundles: what is stored, forwarded and acknowledged between nodes as one.

A bundle holds messages of one destination and one delivery class. Its body is encoded, and compressed
where that pays, once, where the messages entered; it travels as opaque bytes behind a small header and
is unpacked once, where it is delivered.

Law: a header begins with a version byte and only grows by optional fields at its end; a body is the
concatenation of its messages' MessagePack, so bodies are joined without decoding. Both may be read
years later and many hops away.

Law: `opened` raises exactly where `unpack` does. A large message is never whole in memory for it: its body is
unpacked a piece at a time and its payload is passed over, so that 16 MiB of zeros cost less than a
millisecond. To have them in memory costs twenty times as much, most of it for getting the pages.

Wrinkle: a bundle carries its expiry as *remaining* milliseconds. `elapsed` is how much of it is used up:
the smallest `expires_in` of its messages minus the header's `expires_first`.
"""

import io
import struct
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from operator import attrgetter
from typing import Annotated, Any, Final

import msgspec
import zstandard
from msgspec import Meta
from msgspec.structs import replace

from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import FrameError, TooMuchInside

VERSION: Final = 1
MAX_MESSAGES: Final = 256
MAX_BYTES: Final = 256 * 1024
MAX_HEADER: Final = 8 * 1024
MAX_NAME: Final = 4096  # bytes of a destination's, so that its header is read everywhere
UNREADABLE: Final = (msgspec.DecodeError, ValueError, RecursionError)
MAX_PROPERTIES: Final = MAX_BYTES  # a byte of them may be 60 in memory, and a microsecond of everybody's time
DEEPEST: Final = 32
"""Levels of a header beyond these are left out on the way to and from other brokers."""
MAX_UNPACKED: Final = 1024 * 1024 * 1024
WORTH_COMPRESSING: Final = 160
LARGE: Final = 65_536  # bytes of a message from which it costs less not to make it
_BINARY: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}  # how bytes begin in MessagePack, and how long their length is
_EMPTY: Final = {
    0x91: b"\x91\xc4\x00",
    0x92: b"\x92\xc4\x00",
}  # how a message begins, and one without payload
_WINDOW: Final = 2**31  # as much as zstandard has. What is taken for it is never more than the body's size
MOST_NUMBER: Final = (1 << 53) - 1
_MOST_SCOPE: Final = 255
_Number = Annotated[int, Meta(ge=0, le=MOST_NUMBER)]


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
    KEPT: Final = 128  # a retained message that follows a new filter: it was kept, and is not new


class Foreign(msgspec.Struct, omit_defaults=True, rename="kebab", gc=False, frozen=True):
    """Properties that mean something to the brokers at the edges only (see `bridges.properties`).

    `correlation`: a correlation id that is no number. `qos`: how the broker at the end is to give it (0 need
    not be kept, 1, 2 once). `utf8`: the payload is text, or is said not to be;
    None where its sender says neither.
    """

    correlation: bytes = b""
    content_encoding: str = ""
    type: str = ""
    app_id: str = ""
    user_id: str = ""
    qos: int = 1
    utf8: bool | None = None


class Properties(msgspec.Struct, omit_defaults=True, rename="kebab", gc=False):
    """What a message may carry beside its payload. `expires_in`: ms when it entered the tree; 0 = never.

    A header says it too, and must be readable everywhere: hence its bound. `timestamp`: seconds since 1970.
    Wrinkle: from sixteen fields on, every message would be two bytes longer.
    """

    correlation_id: int | None = None
    reply_to: str = ""
    task_id: str = ""
    expires_in: Annotated[int, Meta(le=MOST_NUMBER)] = 0
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
    `start`: in which start of its origin it was made; 0 = an older node made it, or passed it on.
    `replaces`: a retained message for whoever has this one as his last, and for nobody else.
    """

    id: Annotated[bytes, Meta(min_length=16, max_length=16)]
    destination: Destination
    scope: Annotated[int, Meta(ge=0, le=_MOST_SCOPE)] = 0
    flags: _Number = 0
    count: Annotated[int, Meta(ge=1, le=MAX_MESSAGES)] = 1
    size: _Number = 0
    origin_store: bytes = b""
    origin: str = ""
    expires_first: _Number = 0
    expires_last: _Number = 0
    reroutes: _Number = 0
    done: bytes = b""
    start: _Number = 0
    replaces: bytes = b""

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


class _Checked(msgspec.Struct, array_like=True, gc=False):
    """A message that is read as `Message` is, but its payload is not copied."""

    payload: msgspec.Raw
    properties: Properties = msgspec.field(default_factory=Properties)


_header_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(Header)
_bare_decoder = msgspec.msgpack.Decoder(list[tuple[bytes]])
_messages_decoder = msgspec.msgpack.Decoder(list[Message])
_undecoded_decoder = msgspec.msgpack.Decoder(list[_Undecoded])
_encoded_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_checking_decoder = msgspec.msgpack.Decoder(list[_Checked])
_message_encoder = msgspec.msgpack.Encoder()
_compressor = zstandard.ZstdCompressor(level=1, write_content_size=True)
_decompressor = zstandard.ZstdDecompressor()
_opener = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
_VERSION_BYTE = bytes([VERSION])
_ARRAY: Final = struct.Struct(">BI")


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
    if header.done:
        _check_mask(header.done, header.count)
    if header.destination.kind not in ("queue", "topic") or len(header.destination.name) > MAX_NAME:
        raise FrameError(
            "a bundle's destination is a queue or a topic with a name of at most 4096 characters"
        )
    return header


def _check_mask(done: bytes, count: int) -> None:
    if len(done) > (count + 7) // 8:
        raise FrameError(f"a mask of {len(done)} bytes for {count} messages")
    if mask_bits(done) >> count:
        raise FrameError(f"a mask that marks more than {count} messages")


def mask_bits(done: bytes) -> int:
    return int.from_bytes(done, "little")


def mask_bytes(bits: int) -> bytes:
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def encode_message(message: Message) -> bytes:
    return _message_encoder.encode(message)


def encode_messages(messages: Sequence[Message]) -> bytes:
    """The plain body of these: as `encode_message` of each, joined."""
    encoded, count = _message_encoder.encode(messages), len(messages)
    return encoded[1 if count < 16 else 3 if count < 65_536 else 5 :]  # MessagePack's head of a list


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
    whole = _ARRAY.pack(0xDD, count) + plain
    if len(plain) > MAX_PROPERTIES:
        size = sum(len(each.properties) for each in _undecoded_decoder.decode(whole))
        if size > MAX_PROPERTIES:
            text = f"properties of {size} bytes in {count} messages: {MAX_PROPERTIES} at most"
            raise TooMuchInside(text)
    return whole


def decode_messages(plain: bytes, count: int) -> list[Message]:
    """Read exactly `count` messages. Raises `FrameError` if there are not that many, or more bytes."""
    try:
        if len(plain) <= MAX_PROPERTIES:
            return _messages_decoder.decode(_ARRAY.pack(0xDD, count) + plain)
        return _messages_decoder.decode(whole(plain, count))
    except (*UNREADABLE, struct.error) as error:
        raise FrameError(f"not {count} messages: {error}") from None


def unpack(header: Header, body: bytes, most: int = MAX_UNPACKED) -> list[Message]:
    """A bundle's messages. Raises `FrameError` if it cannot be read."""
    if header.flags & Flag.COMPRESSED or len(body) != header.size or header.size > most:
        body = plain_body(header, body, most)
    return decode_messages(body, header.count)


def part_of(header: Header, body: bytes, bits: int) -> tuple[Header, bytes]:
    """A bundle that brings only the messages of `bits`, and its body: the others are empty in their places.

    So each keeps its place, and one that is left out takes three bytes. The header says that those are done,
    how large the body is, and when what is left expires. Raises `FrameError` if it cannot be read.
    """
    everything = (1 << header.count) - 1
    header = replace(header, done=mask_bytes(everything & ~bits))
    if bits == everything:
        return header, body
    plain = plain_body(header, body)
    if header.expires_first:
        times = [each.properties.expires_in for each in decode_messages(plain, header.count)]
        _leave_times(header, times, bits)
    try:
        found = _encoded_decoder.decode(_ARRAY.pack(0xDD, header.count) + plain)
    except UNREADABLE as error:
        raise FrameError(f"not {header.count} messages: {error}") from None
    left = b"".join(bytes(each) if bits >> at & 1 else _EMPTY[0x91] for at, each in enumerate(found))
    small, compressed = compress(left)
    header.flags, header.size = header.flags & ~Flag.COMPRESSED | compressed, len(left)
    return header, small


def _leave_times(header: Header, times: Sequence[int], bits: int) -> None:
    """Say when the first and the last message of `bits` expire. `times`: of all, when they entered."""
    gone = min((time for time in times if time > 0), default=0) - header.expires_first
    left = [max(time - gone, 1) if time > 0 else 0 for at, time in enumerate(times) if bits >> at & 1]
    header.expires_first = min(filter(None, left), default=0)
    header.expires_last = max(left) if all(left) else 0


def check_properties(message: Message, encoded: bytes) -> None:
    """Raise `TooMuchInside` if no node would read a message for its properties. `encoded`: the message."""
    size = len(encoded) - len(message.payload)
    if size > MAX_PROPERTIES:
        raise TooMuchInside(f"properties of {size} bytes in a message: {MAX_PROPERTIES} at most")


# --- whether a body can be read, and what its messages carry beside their payloads


class Opening:
    """A bundle's body that is looked into when somebody asks for it, and once."""

    __slots__ = ("_body", "_found", "_header")

    def __init__(self, header: Header, body: bytes) -> None:
        self._header = header
        self._body = body
        self._found: list[Properties] | FrameError | None = None

    def __repr__(self) -> str:
        return f"<Opening of {self._header}{'' if self._found is None else ', looked into'}>"

    def properties(self) -> list[Properties]:
        """Raises `FrameError` if it cannot be read.

        Each time a new one: an error that was raised here leads back here, and would keep the body in memory
        until the collector finds the two.
        """
        if self._found is None:
            try:
                self._found = opened(self._header, self._body)
            except FrameError as error:
                self._found = type(error)(*error.args)
        if isinstance(self._found, FrameError):
            raise type(self._found)(*self._found.args)
        return self._found


_properties_of = attrgetter("properties")
_NONE: Final = Properties()


def opened(header: Header, body: bytes) -> list[Properties]:
    """The properties of a bundle's messages. Raises `FrameError` if `unpack` would."""
    if header.size <= LARGE * header.count:
        plain = plain_body(header, body)
        if plain[:1] == b"\x91":  # a payload alone, and so are the others, most likely: a third of the time
            with suppress(*UNREADABLE):
                _bare_decoder.decode(_ARRAY.pack(0xDD, header.count) + plain)
                return [_NONE] * header.count
        return list(map(_properties_of, decode_messages(plain, header.count)))
    if header.count == 1:
        plain = _without_payload(header, body)
        if plain:
            return [each.properties for each in decode_messages(plain, 1)]
    return _opened_whole(header, body)


def _opened_whole(header: Header, body: bytes) -> list[Properties]:
    """Several messages, or one that begins as none does that this project's nodes make."""
    plain = plain_body(header, body)
    try:
        found = _checking_decoder.decode(whole(plain, header.count))
    except UNREADABLE as error:
        raise FrameError(f"not {header.count} messages: {error}") from None
    if not all(memoryview(each.payload)[0] in _BINARY for each in found):
        raise FrameError(f"not {header.count} messages: a payload that is no bytes")
    return [each.properties for each in found]


def _without_payload(header: Header, body: bytes) -> bytes:
    """The plain body of one message, with an empty payload in place of its own. Raises `FrameError`.

    Empty if it begins in another way than messages do.
    """
    check_size(header, body)
    source = _stream(header, body)
    try:
        head = source.read(2)
        if len(head) < 2 or head[0] not in _EMPTY or head[1] not in _BINARY:
            return b""
        payload = int.from_bytes(source.read(_BINARY[head[1]]))
        left = header.size - source.tell() - payload
        if not 0 <= left <= MAX_PROPERTIES:
            raise TooMuchInside(f"{left} bytes behind a payload: 0 to {MAX_PROPERTIES} are read")
        return _EMPTY[head[0]] + _last(source, header, left)
    except zstandard.ZstdError as error:
        raise FrameError(f"{header}: its body does not decompress: {error}") from None


def _stream(header: Header, body: bytes) -> "io.BytesIO | zstandard.ZstdDecompressionReader":
    if header.flags & Flag.COMPRESSED:
        return _opener.stream_reader(body)
    return io.BytesIO(body)


def _last(source: "io.BytesIO | zstandard.ZstdDecompressionReader", header: Header, count: int) -> bytes:
    """So many bytes at its end. Raises `FrameError` if it is not of the size that its header says."""
    source.seek(header.size - count - source.tell(), io.SEEK_CUR)
    found = source.read(count + 1)
    if len(found) != count or source.tell() != header.size:
        raise FrameError(f"{header}: says {header.size} bytes, its body has others")
    return found
