"""The client's side of WebSocket (RFC 6455), without I/O: the handshake, and frames as bytes.

Law: nothing is compressed, no extension is asked for, and a server's frames are not masked. A frame that
breaks the rules, or announces more than `max_packet`, raises `BadFrame` before anything of it is kept.

Wrinkle: Python masks large packets at a tenth of the speed of C. aiohttp has a function in C, and loading
aiohttp takes 13 MB; so `mask` is Python's until `load_fast_mask` has been called, which a node does that
sends large packets. See `bridges.carriers.websocket`.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

MAX_HEAD: Final = 32 * 1024
LARGE: Final = 4 * 1024
"""Bytes of a packet from which on it matters how fast it is masked."""
BINARY: Final = 2
TEXT: Final = 1
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10
_CONTINUATION: Final = 0
_FIN: Final = 0x80
_RESERVED: Final = 0x70
_MASKED: Final = 0x80
_MOST_CONTROL: Final = 125
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_STATUS: Final = re.compile(rb"HTTP/1\.[01] (\d{3})(?: |$)")
_TABLES: Final = tuple(bytes(octet ^ key for octet in range(256)) for key in range(256))
PROTOCOL_ERROR: Final = 1002
TOO_BIG: Final = 1009


class BadFrame(Exception):
    """The server breaks the protocol. `code`: the one to close with."""

    def __init__(self, text: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Opening:
    """A server's answer to the request for a WebSocket. `status` 101: it is open."""

    status: int
    location: str


def request(host: str, target: str, key: bytes) -> bytes:
    """The request that asks for a WebSocket. `key`: 16 random bytes."""
    return (
        f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {base64.b64encode(key).decode()}\r\n\r\n"
    ).encode("latin-1")


def opening(head: bytes, key: bytes) -> Opening:
    """Read the head of the answer. Raises `BadFrame` if it is none of HTTP, or none to our request."""
    first, *lines = head.split(b"\r\n")
    found = _STATUS.match(first)
    if found is None:
        raise BadFrame("it does not answer as HTTP")
    pairs = (line.partition(b":") for line in lines)
    fields = {name.strip().lower(): value.strip() for name, _, value in pairs}
    status = int(found[1])
    if status == 101:
        proof = hashlib.sha1(base64.b64encode(key) + _GUID, usedforsecurity=False).digest()
        if fields.get(b"sec-websocket-accept") != base64.b64encode(proof):
            raise BadFrame("its answer is not to the request for a WebSocket")
        if fields.get(b"upgrade", b"").lower() != b"websocket" or b"sec-websocket-extensions" in fields:
            raise BadFrame("it opens something that was not asked for")
    return Opening(status, fields.get(b"location", b"").decode("latin-1"))


def _mask(key: bytes, data: bytearray) -> None:
    """Mask `data` in place; a table for each byte of the key."""
    for place in range(4):
        data[place::4] = data[place::4].translate(_TABLES[key[place]])


mask: Callable[[bytes, bytearray], None] = _mask


def load_fast_mask() -> None:
    """Mask with aiohttp's from now on. Takes a tenth of a second: call it in a thread."""
    global mask
    from aiohttp._websocket.helpers import websocket_mask

    mask = websocket_mask


def frame(opcode: int, payload: bytes, key: bytes) -> bytes:
    """A frame as the client sends it. `key`: 4 random bytes."""
    size = len(payload)
    data = bytearray(payload)
    mask(key, data)
    if size < 126:
        head = bytes((_FIN | opcode, _MASKED | size))
    elif size < 1 << 16:
        head = bytes((_FIN | opcode, _MASKED | 126)) + size.to_bytes(2)
    else:
        head = bytes((_FIN | opcode, _MASKED | 127)) + size.to_bytes(8)
    return b"".join((head, key, data))


def closing(payload: bytes) -> tuple[int, str]:
    """Code and reason of a close frame; 1005 where it has none."""
    if len(payload) < 2:
        return 1005, ""
    return int.from_bytes(payload[:2]), payload[2:].decode(errors="replace")


class Frames:
    """Takes a server's bytes apart."""

    def __init__(self, max_packet: int) -> None:
        self._max = max_packet
        self._data = b""
        self._parts = bytearray()
        self._begun = 0

    def __repr__(self) -> str:
        return f"<Frames {len(self._data)} bytes of the next>"

    def receive(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Opcode and payload of each message that is whole now. Raises `BadFrame`, after those before it."""
        data = self._data + data if self._data else data
        at = 0
        try:
            while (head := self._head(data, at)) is not None:
                first, begin, size = head
                end = begin + size
                if len(data) < end:
                    break
                at = end
                if (message := self._message(first, data[begin:end])) is not None:
                    yield message
        finally:
            self._data = data[at:] if at else data

    def _head(self, data: bytes, at: int) -> tuple[int, int, int] | None:
        """Its first byte, where the payload begins, and its size; None while it is not whole."""
        have = len(data) - at
        if have < 2:
            return None
        first, size = data[at], data[at + 1]
        if size & _MASKED or first & _RESERVED:
            raise BadFrame("a frame that no server sends")
        begin = at + 2
        if size >= 126:
            extended = 2 if size == 126 else 8
            if have < 2 + extended:
                return None
            begin += extended
            size = int.from_bytes(data[begin - extended : begin])
        if first & 8 and (size > _MOST_CONTROL or not first & _FIN):
            raise BadFrame("a control frame that is too long, or in parts")
        if size + len(self._parts) > self._max and not first & 8:
            raise BadFrame(f"a packet of more than {self._max} bytes", TOO_BIG)
        return first, begin, size

    def _message(self, first: int, payload: bytes) -> tuple[int, bytes] | None:
        """A whole message; None while parts of it are still to come."""
        opcode = first & 0x0F
        if opcode in (CLOSE, PING, PONG):
            return opcode, payload
        if opcode not in (_CONTINUATION, TEXT, BINARY) or (opcode == _CONTINUATION) != bool(self._begun):
            raise BadFrame(f"a frame of kind {opcode} out of order")
        if first & _FIN and not self._begun:
            return opcode, payload
        self._begun = self._begun or opcode
        self._parts += payload
        if not first & _FIN:
            return None
        whole = self._begun, bytes(self._parts)
        self._begun, self._parts = 0, bytearray()
        return whole
