"""Lines that were reset while bytes still wait to be read there.

Wrinkle: uvloop says once that such a line can be read, and never again.
Wrinkle: a write to such a line fails, and an event loop ends it then without another look at what waits.
"""

import asyncio
import os
import select
import socket
from typing import Final

_MOST_REST: Final = 256 * 1024
"""Bytes: as an event loop reads at once."""


def was_reset(line: socket.socket) -> bool:
    """Has the line ended, whatever waits there?

    `SO_ERROR` would also tell of a router that said meanwhile that the host cannot be reached, and of that a
    line does not end.
    """
    watch = select.poll()
    watch.register(line, 0)
    return bool(watch.poll(0))


def rest_of(transport: asyncio.BaseTransport) -> bytes:
    """Read the bytes that came before the line of `transport` was lost. Caller's duty: it is being told of
    the loss, so the socket is not closed yet, and what it hears is not under TLS.
    """
    line = transport.get_extra_info("socket")
    try:
        return os.read(line.fileno(), _MOST_REST) if line is not None else b""
    except OSError:
        return b""


def take(protocol: asyncio.BufferedProtocol, rest: bytes) -> None:
    """Let a protocol have these bytes, as a transport would."""
    while rest:
        buffer = memoryview(protocol.get_buffer(len(rest)))
        count = min(len(buffer), len(rest))
        buffer[:count] = rest[:count]
        protocol.buffer_updated(count)
        rest = rest[count:]
