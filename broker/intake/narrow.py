"""Reads a stranger's connection in small pieces; who has logged in is read as fast as the line goes.

Wrinkle: an event loop reads up to 256 KiB at once and hands that out whole. A protocol that keeps what it
cannot use yet would so keep far more of a stranger than it means to.
Wrinkle: all strangers are read into one buffer, which is emptied before the loop reads the next.
"""

import asyncio
from typing import Final, cast

from broker.intake.admission import Guest

PIECE: Final = 16 * 1024
_buffer: Final = bytearray(PIECE)
_view: Final = memoryview(_buffer)


class Narrow(asyncio.BufferedProtocol):
    """Stands before `inner` until its guest has proved itself, and then gives it the connection."""

    def __init__(self, inner: asyncio.Protocol, guest: Guest) -> None:
        self._inner = inner
        self._guest = guest
        self._transport: asyncio.Transport

    def __repr__(self) -> str:
        return f"<Narrow before {self._inner!r}>"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        loop = asyncio.get_running_loop()
        self._guest.when_proved = lambda: loop.call_soon(self._widen)
        self._inner.connection_made(transport)

    def _widen(self) -> None:
        """Wrinkle: uvloop notices another protocol's way of reading when reading begins."""
        transport = self._transport
        if transport.is_closing():
            return
        reads = transport.is_reading()
        if reads:
            transport.pause_reading()
        transport.set_protocol(self._inner)
        if reads:
            transport.resume_reading()

    def get_buffer(self, _sizehint: int) -> memoryview:
        return _view

    def buffer_updated(self, nbytes: int) -> None:
        self._inner.data_received(bytes(_view[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._guest.when_proved = None
        self._guest.leave()
        self._inner.connection_lost(exc)
