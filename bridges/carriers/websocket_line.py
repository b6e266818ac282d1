"""An open WebSocket as a carrier, at either end: one binary message is one packet.

No compression (bundles are compressed where they enter), no pings of our own (links have their keep-alive; a
peer's ping is answered). `websocket` dials one, `websocket_accept` takes one from the node's port.

Wrinkle: pings that come together have one answer, of the last. Answers that the line has no room for are
dropped.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Final

from websockets.exceptions import ProtocolError
from websockets.frames import Close, CloseCode, Opcode

from bridges.carriers.base import (
    BUFFER_BYTES,
    CLOSE_TIMEOUT,
    SOON,
    Carrier,
    CarrierBroken,
    CarrierClosed,
    CarrierError,
    CarrierFlooded,
)
from bridges.carriers.line_room import LineRoom, room_of
from bridges.carriers.line_wakes import LineWakes, wakes_of
from bridges.carriers.websocket_errors import end_of
from bridges.carriers.websocket_frames import FrameReader, Heard, Malformed, frame
from sapwood.protocol.packets import Bytes

UNSENT: Final = 4 * 1024
MUCH: Final = 64 * 1024
_MOST_UNREAD: Final = 512 * 1024
_MOST_REASON: Final = 120
_TURNS: Final = 4
"""That all others have before more of very many small frames are read."""


class WebSocketLine(Carrier, asyncio.BufferedProtocol):
    """`is_client`: we dialled it, so ours are the frames that have a mask."""

    def __init__(self, peer: str, max_packet: int, *, is_client: bool) -> None:
        self.peer = peer
        self.max_packet = max_packet
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(max_packet, masked=not is_client)
        self._packets: list[bytes] = []
        self._unread = 0
        self._waiting: asyncio.Future[None] | None = None
        self._error: CarrierError | None = None
        self._ending: CarrierError | None = None
        self._close_sent = False
        self._drained = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_short = False
        self._line_room: LineRoom | None = None
        self._wakes: LineWakes | None = None
        self._reads_on = False

    def __repr__(self) -> str:
        state = type(self._error).__name__ if self._error else "open"
        return f"<{type(self).__name__} to {self.peer} {state}, {self._buffered} bytes buffered>"

    # --- the transport's side

    def get_buffer(self, _sizehint: int) -> memoryview:
        return self._reader.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._take(self._reader.filled(nbytes))
        if self._wakes is not None and self._transport is not None and not self._transport.is_closing():
            self._wakes.wait_for(self._reader.lacks)
        if self.when_kept is not None and self.kept > MUCH:
            self.when_kept()

    def _took_over(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        is_encrypted = transport.get_extra_info("sslcontext") is not None
        self._wakes = wakes_of(transport.get_extra_info("socket"), is_encrypted=is_encrypted)
        self._say_when_it_waits(transport)
        if self._buffered < BUFFER_BYTES:
            self._drained.set()

    @staticmethod
    def _say_when_it_waits(transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=BUFFER_BYTES - 1, low=BUFFER_BYTES // 2)

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        self._reader.forget()
        why = f": {exc}" if exc is not None else ""
        self._end(CarrierBroken(f"the connection to {self.peer} was lost{why}"))

    # --- receiving

    def _take(self, messages: Iterable[Heard]) -> None:
        """Messages have come on the line."""
        ping: bytes | None = None
        for opcode, data in messages:
            if opcode == Opcode.PING:
                ping = data
            elif opcode != Opcode.PONG:
                self._message(opcode, data)
        if ping is not None and self.room > 0:
            self._write(self._frame(Opcode.PONG, ping))
        if (fault := self._reader.fault) is not None and not self._stopped:
            self._break(fault)
        if self._packets:
            self._wake()
            if self._unread > _MOST_UNREAD and self._transport is not None:
                self._transport.pause_reading()
        if self._reader.is_behind and not self._reads_on:
            self._reads_on = True
            self._read_on(_TURNS)
            if self._transport is not None:
                self._transport.pause_reading()

    def _read_on(self, turns: int) -> None:
        """Once others have had so many turns."""
        if turns:
            self._loop.call_soon(self._read_on, turns - 1)
            return
        self._reads_on = False
        self._take(self._reader.go_on())
        self._go_on_reading()

    def _go_on_reading(self) -> None:
        is_full = self._unread > _MOST_UNREAD or self._reader.is_behind
        if not is_full and self._transport is not None and not self._gone.is_set():
            self._transport.resume_reading()

    def _message(self, opcode: int, data: bytes) -> None:
        if self._stopped:
            if opcode == Opcode.CLOSE:  # it has heard that we are through; nothing else counts any more
                self._hang_up()
        elif opcode == Opcode.BINARY:
            self._packets.append(data)
            self._unread += len(data)
        elif opcode == Opcode.TEXT:
            self._text_came(data)
        else:
            self._close_came(data)

    def _text_came(self, _data: bytes) -> None:
        self._end(CarrierBroken(f"{self.peer} sent text: expected binary packets; is it a Sapwood node?"))

    def _close_came(self, data: bytes) -> None:
        try:
            close = Close.parse(data)
        except (ProtocolError, UnicodeDecodeError) as error:
            self._break(Malformed(f"a frame of closing that cannot be: {error}"))
            return
        self._say_close(data)
        self._end(end_of(self.peer, close.code, close.reason))
        self._hang_up()

    def _break(self, fault: Malformed) -> None:
        """The other side does not keep to the rules."""
        self._say_close(Close(fault.code, _short(str(fault))).serialize())
        self._end(CarrierBroken(f"the connection to {self.peer} broke: {fault}"))
        self._hang_up()

    async def receive(self) -> list[bytes]:
        while not self._packets:
            if self._error is not None:
                raise self._error
            if self._ending is not None:
                if not isinstance(self._ending, CarrierFlooded):
                    self._error = self._ending
                raise self._ending
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        packets, self._packets = self._packets, []
        was_full, self._unread = self._unread > _MOST_UNREAD, 0
        if was_full:
            self._go_on_reading()
        return packets

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # --- sending

    @property
    def _stopped(self) -> CarrierError | None:
        """Why nothing more is sent. A peer that floods us is still told so."""
        if self._error is None and self._ending is None:  # asked for each packet
            return None
        return self._error or (None if isinstance(self._ending, CarrierFlooded) else self._ending)

    def send(self, packets: Sequence[bytes]) -> None:
        if error := self._stopped:
            raise error
        self.check_size(packets)
        self._write(part for packet in packets for part in self._frame(Opcode.BINARY, packet))

    def send_in_parts(self, parts: Sequence[Bytes]) -> None:
        if error := self._stopped:
            raise error
        self._write(self._frame(Opcode.BINARY, *parts))

    def _frame(self, opcode: int, *parts: Bytes) -> list[Bytes]:
        return frame(opcode, parts, self._mask())

    def _mask(self) -> bytes:
        """Of the next frame."""
        return b""

    def _write(self, parts: Iterable[Bytes]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(parts)

    @property
    def _buffered(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport and not self._gone.is_set() else 0

    @property
    def unsent(self) -> int:
        return self._buffered

    @property
    def kept(self) -> int:
        return self._unread + self._reader.kept

    @property
    def room(self) -> int:
        return 0 if self._stopped else BUFFER_BYTES - self._buffered

    @property
    def is_idle(self) -> bool:
        """Asked once, the system takes no more than `UNSENT` bytes that it cannot send from then on."""
        if self._stopped:
            return False
        if not self._is_short and self._transport is not None:
            self._is_short = True
            line = self._transport.get_extra_info("socket")
            _keep_short(line)
            self._line_room = room_of(line, self._loop.time())
        return not self._buffered

    @property
    def takes(self) -> int:
        if not self.is_idle:
            return 0
        return self._line_room.ask(self._loop.time()) if self._line_room is not None else BUFFER_BYTES

    async def until_idle(self) -> bool:
        """Wrinkle: the transport tells of the moment only if it takes its buffer for full until then."""
        transport, begun = self._transport, self._loop.time()
        if transport is not None and not self.is_idle and not self._gone.is_set():
            try:
                while self._buffered and not self._stopped:
                    self._drained.clear()
                    transport.set_write_buffer_limits(high=0)
                    await self._told()
            finally:
                if not self._gone.is_set():
                    self._say_when_it_waits(transport)
        is_soon = self._loop.time() - begun < SOON
        while not self._stopped and self._line_room is not None and not self.takes:
            await asyncio.sleep(self._line_room.pause)
        if error := self._stopped:
            raise error
        return is_soon

    async def drain(self) -> None:
        while not self._stopped and self.room <= 0:
            self._drained.clear()
            if self._transport is not None:
                self._say_when_it_waits(self._transport)
            await self._told()
        if error := self._stopped:
            raise error

    async def _told(self) -> None:
        """Until the transport says that it waits no more, or this has ended.

        Law: who waits clears the event before. The transport tells of a pause once, and may have told whoever
        had it before; a wait that returns at once in a loop would stop the whole node.
        """
        await self._drained.wait()

    # --- the end

    def _end(self, error: CarrierError) -> None:
        """Nothing more comes, and nothing more is sent; what has come is still received."""
        self._ending = self._ending or error
        self._drained.set()
        self._wake()

    def _say_close(self, data: bytes) -> None:
        if not self._close_sent:
            self._close_sent = True
            self._write(self._frame(Opcode.CLOSE, data))

    def _hang_up(self) -> None:
        """After what is still to be sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Nothing is sent any more."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self, reason: str = "") -> None:
        if self._error is None:
            self._error = CarrierClosed(
                f"the connection to {self.peer} was closed here: {reason or 'no reason given'}"
            )
        self._packets.clear()
        if self._reader.kept > MUCH:  # else the other side's frame of closing is waited for
            self._reader.stop("the middle of a message that nobody waits for any more")
        self._drained.set()
        self._wake()
        self._say_close(Close(CloseCode.NORMAL_CLOSURE, _short(reason)).serialize())
        if self._ending is not None:
            self._hang_up()
        elif self._transport is not None:
            self._transport.resume_reading()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await self._gone.wait()
        finally:
            if not self._gone.is_set():
                self.abort()


def _short(reason: str) -> str:
    return reason.encode()[:_MOST_REASON].decode(errors="ignore")


def _keep_short(line: Any) -> None:
    """Let the system say that it takes no more while it has that much unsent, where it can."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if line is not None and option is not None:
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, option, UNSENT)
