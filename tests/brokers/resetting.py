"""Lines that a test's broker resets while much waits to be read there, as behind a node that stood still."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

Loop = Callable[[], asyncio.AbstractEventLoop]
each_loop = pytest.mark.parametrize("kind", [asyncio.new_event_loop, uvloop.new_event_loop])
"""uvloop says once that such a line can be read, and never again."""


def reset(writer: asyncio.StreamWriter, last: bytes) -> None:
    """Say as much of it as there is room for, and then nothing any more, at once."""
    given = writer.get_extra_info("socket")
    with socket.socket(fileno=os.dup(given.fileno())) as line, contextlib.suppress(BlockingIOError):
        line.setblocking(False)
        while last := last[line.send(last) :]:
            pass
    given.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def twice(kind: Loop, once: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On one loop: the second line has the number of the first one's file."""
    with asyncio.Runner(loop_factory=kind) as runner:
        for _ in range(2):
            runner.run(once())
