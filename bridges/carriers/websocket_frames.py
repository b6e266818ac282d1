"""Frames of RFC 6455 (5.2): what comes is read into messages, what goes is written in parts.

Law: nothing is kept of a frame that breaks the rules, nor of a message that is larger than agreed: its head
says so, before the rest has come.

Wrinkle: all connections are read into one buffer, which is emptied before the loop reads the next. Only what
is left of a frame is kept; the rest of it is then read to where it belongs, and not copied.
"""

import mmap
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

from websockets.frames import CloseCode, Opcode

from sapwood.protocol.packets import Bytes

try:
    from websockets.speedups import apply_mask
except ImportError:  # where it was not compiled
    from websockets.utils import apply_mask

_buffer: Final = memoryview(mmap.mmap(-1, 256 * 1024, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
_LONG: Final = 16 * 1024
"""Behind a frame that is longer comes another such, of which so much is read before it is known."""
_OF_SLOW: Final = 64 * 1024
_AT_FIRST: Final = 512 * 1024
"""Bytes that are set aside for a frame, whatever its head says."""
_ROOMS: Final = 4
AT_ONCE: Final = 500
"""Frames that are read at one go: of the smallest, 40,000 have come with one reading of the line."""
PLAIN: Final = bytes(4)
"""The mask that changes nothing."""
_FIN: Final = 0x80
_MASKED: Final = 0x80
_RESERVED: Final = 0x70
_CODE: Final = 0x0F
_MOST_OF_CONTROL: Final = 125
_EXTENDED: Final = {126: 2, 127: 8}
_CONTROL: Final = frozenset((Opcode.CLOSE, Opcode.PING, Opcode.PONG))
_KNOWN: Final = frozenset((Opcode.CONT, Opcode.TEXT, Opcode.BINARY, *_CONTROL))


class Malformed(Exception):
    """The other side breaks the rules. `code`: of the frame that tells it so."""

    def __init__(self, text: str, code: int = CloseCode.PROTOCOL_ERROR) -> None:
        super().__init__(text)
        self.code = code


class Heard(NamedTuple):
    """`opcode`: of a whole message, `BINARY` or `TEXT`, or of a control frame."""

    opcode: int
    data: bytes


_rooms: Final[list[bytearray]] = []


def _room() -> memoryview:
    """`_AT_FIRST` bytes that nobody sees. Zeros fill new ones first: a twentieth of the CPU of a channel.

    Wrinkle: Python shortens no bytes that somebody has a view of, so this tells which are free.
    """
    for room in _rooms:
        with suppress(BufferError):
            room.append(room.pop())
            return memoryview(room)
    room = bytearray(_AT_FIRST)
    if len(_rooms) < _ROOMS:
        _rooms.append(room)
    return memoryview(room)


class _Head(NamedTuple):
    first: int
    size: int
    mask: bytes
    end: int


class FrameReader:
    """Of one connection. `most`: bytes of a message. `masked`: are the frames that come, as a client's are?

    `fault`: what broke the rules; nothing is read any more. `is_behind`: more have come than are read at
    one go; `go_on` reads on.
    """

    def __init__(self, most: int, *, masked: bool) -> None:
        self.fault: Malformed | None = None
        self.is_behind = False
        self._keeps_long = False
        self._most = most
        self._masked = masked
        self._rest = b""
        self._head: _Head | None = None
        self._long: bytearray | memoryview = bytearray()
        self._filled = 0
        self._step = len(_buffer)
        self._opcode = 0
        self._parts = bytearray()

    def __repr__(self) -> str:
        return f"<FrameReader of {self._most} bytes at most{', at fault' if self.fault else ''}>"

    @property
    def kept(self) -> int:
        """Bytes of a message that is not whole."""
        return len(self._long) + len(self._parts) + len(self._rest)

    @property
    def lacks(self) -> int:
        """Bytes that are still to come of a frame that has begun, before anything else can.

        0: none has, or one so long that its line is quick, and brings much at a time.
        """
        head = self._head
        return head.size - self._filled if head is not None and head.size <= _OF_SLOW else 0

    def buffer(self) -> memoryview:
        """Where the line's next bytes go; `filled` says how many."""
        if self._head is not None:
            if self._filled == len(self._long):  # so much of it has come that as much may be kept for more
                grown = bytearray(min(self._head.size, 2 * self._filled))
                grown[: self._filled] = self._long
                self._long = grown
            return memoryview(self._long)[self._filled : self._head.size]
        return _buffer[: self._step]

    def filled(self, size: int) -> list[Heard]:
        """The messages that are whole now."""
        if self._head is None:
            self._keeps_long = True
            return self._messages(_buffer[:size])
        self._filled += size
        if self._filled < self._head.size:
            return []
        found: list[Heard] = []
        head, data = self._head, self._long
        self._head, self._long = None, bytearray()
        self._frame(head, data[: head.size] if len(data) > head.size else data, found)
        return found

    def forget(self) -> None:
        """Nothing more comes: nothing that was read outlives the connection, whoever still knows this."""
        self._head, self._rest, self.is_behind = None, b"", False
        self._long, self._parts = bytearray(), bytearray()

    def stop(self, why: str) -> None:
        """Nothing more is read, and nothing is kept of a message that is not whole."""
        self.forget()
        self.fault = self.fault or Malformed(why)

    def feed(self, data: Bytes) -> list[Heard]:
        """The same of what was read elsewhere. Nothing is kept but what has come."""
        self._keeps_long = False
        return self._messages(memoryview(data))

    def go_on(self) -> list[Heard]:
        """The messages in what has come, and was left for others to have their turns."""
        return self._messages(memoryview(b""))

    def _messages(self, data: memoryview) -> list[Heard]:
        found: list[Heard] = []
        left, self.is_behind = AT_ONCE, False
        if self._rest:
            data, self._rest = memoryview(self._rest + data), b""
        at = 0
        self._step = len(_buffer)
        try:
            while self.fault is None and (head := self._read_head(data, at)) is not None:
                end = head.end + head.size
                if end > len(data):
                    if self._keeps_long:
                        self._begin(head, data[head.end :])
                        return found
                    break
                part = data[head.end : end]
                self._frame(head, part if self._hides(head) else bytes(part), found)
                at, left = end, left - 1
                if not left:
                    self.is_behind = True
                    break
        except Malformed as fault:
            self.fault = fault
        self._rest = b"" if self.fault else bytes(data[at:])
        return found

    def _begin(self, head: _Head, data: memoryview) -> None:
        """A frame of which not all has come."""
        self._head, self._filled = head, len(data)
        # A packet that is kept is seen as at least half of what it keeps.
        fits = _AT_FIRST // 2 < head.size <= _AT_FIRST
        self._long = _room() if fits else bytearray(min(head.size, max(_AT_FIRST, 2 * len(data))))
        self._long[: len(data)] = data
        if head.size > _LONG:
            self._step = _LONG

    def _read_head(self, data: memoryview, at: int) -> _Head | None:
        """None: not all of it has come. Raises `Malformed`."""
        if len(data) < at + 2:
            return None
        first, second = data[at], data[at + 1]
        size = second & ~_MASKED
        extended = _EXTENDED.get(size, 0)
        masked = bool(second & _MASKED)
        start = at + 2 + extended
        end = start + (4 if masked else 0)
        if len(data) < end:
            return None
        if extended:
            size = int.from_bytes(data[at + 2 : start])
        self._check(first, size, masked=masked)
        return _Head(first, size, bytes(data[start:end]), end)

    def _check(self, first: int, size: int, *, masked: bool) -> None:
        opcode = first & _CODE
        if masked is not self._masked:
            raise Malformed(f"a frame that is {'' if masked else 'not '}masked")
        if first & _RESERVED or opcode not in _KNOWN:
            raise Malformed(f"a frame that begins with {first:#x}")
        if opcode in _CONTROL:
            if size > _MOST_OF_CONTROL or not first & _FIN:
                raise Malformed(f"a control frame of {size} bytes, or in parts")
        elif (opcode == Opcode.CONT) is not bool(self._opcode):
            raise Malformed("a part of no message, or another message between the parts of one")
        elif size + len(self._parts) > self._most:
            text = f"a message of {size + len(self._parts)} bytes: {self._most} at most"
            raise Malformed(text, CloseCode.MESSAGE_TOO_BIG)

    def _hides(self, head: _Head) -> bool:
        """Does a mask hide its data?"""
        return self._masked and head.mask != PLAIN

    def _frame(self, head: _Head, data: Bytes, found: list[Heard]) -> None:
        """One that has come. Its data is copied once, or not at all."""
        opcode = head.first & _CODE
        whole = apply_mask(data, head.mask) if self._hides(head) else cast("bytes", data)
        if opcode in _CONTROL or (head.first & _FIN and not self._opcode):
            found.append(Heard(opcode, whole))
        else:
            self._opcode = self._opcode or opcode
            self._parts += whole
            if head.first & _FIN:
                found.append(Heard(self._opcode, bytes(self._parts)))
                self._opcode, self._parts = 0, bytearray()


def frame(opcode: int, parts: Sequence[Bytes], mask: bytes) -> list[Bytes]:
    """A whole message as what is to be written, one after the other. Nothing is copied but to mask it.

    `mask`: 4 bytes, of a client; b'' = none, of a server.
    """
    size = sum(map(len, parts))
    bit = _MASKED if mask else 0
    if size < 126:
        head = struct.pack("!BB", _FIN | opcode, bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", _FIN | opcode, bit | 126, size)
    else:
        head = struct.pack("!BBQ", _FIN | opcode, bit | 127, size)
    if not mask or mask == PLAIN:
        return [head + mask, *parts]
    written: list[Bytes] = [head + mask]
    for part in parts:
        written.append(apply_mask(part, mask))
        turn = len(part) % 4
        mask = mask[turn:] + mask[:turn]
    return written
