"""Opening: whether a body can be read, and what its messages carry beside their payloads.

Law: `opened` raises exactly where `unpack` does. A large message is never whole in memory for it: its body is
unpacked a piece at a time and its payload is passed over, so that 16 MiB of zeros cost less than a
millisecond. To have them in memory costs twenty times as much, most of it for getting the pages.
"""

import io
from typing import Final

import msgspec
import zstandard

from treeconnector.bundles import (
    MAX_PROPERTIES,
    UNREADABLE,
    Flag,
    Header,
    Properties,
    check_size,
    decode_messages,
    plain_body,
    unpack,
    whole,
)
from treeconnector.errors import FrameError, TooMuchInside

LARGE: Final = 65_536  # bytes of a message from which it costs less not to make it
_BINARY: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4}  # how bytes begin in MessagePack, and how long their length is
_EMPTY: Final = {
    0x91: b"\x91\xc4\x00",
    0x92: b"\x92\xc4\x00",
}  # how a message begins, and one without payload
_WINDOW: Final = 2**31  # as much as zstandard has. What is taken for it is never more than the body's size


class _Checked(msgspec.Struct, array_like=True, gc=False):
    """A message that is read as `Message` is, but its payload is not copied."""

    payload: msgspec.Raw
    properties: Properties = msgspec.field(default_factory=Properties)


_checking_decoder = msgspec.msgpack.Decoder(list[_Checked])
_decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW)


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


def opened(header: Header, body: bytes) -> list[Properties]:
    """The properties of a bundle's messages. Raises `FrameError` if `unpack` would."""
    if header.size <= LARGE * header.count:
        return [each.properties for each in unpack(header, body)]
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
        return _decompressor.stream_reader(body)
    return io.BytesIO(body)


def _last(source: "io.BytesIO | zstandard.ZstdDecompressionReader", header: Header, count: int) -> bytes:
    """So many bytes at its end. Raises `FrameError` if it is not of the size that its header says."""
    source.seek(header.size - count - source.tell(), io.SEEK_CUR)
    found = source.read(count + 1)
    if len(found) != count or source.tell() != header.size:
        raise FrameError(f"{header}: says {header.size} bytes, its body has others")
    return found
