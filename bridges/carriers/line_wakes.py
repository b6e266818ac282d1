"""A process that reads a slow line is woken for each long frame, not for each segment of it.

Nothing can be done with a part of a frame, and a slow line brings it in segments of 1.4 KB: nine of them a
packet, each of which woke the process. So the system is told how much is lacking (`SO_RCVLOWAT`).

Law: it never waits for more than the frame lacks, so nothing that follows is held back. An end of the
connection wakes whoever reads at once.
"""

import socket
import sys
from typing import Final, Protocol

_WORTH: Final = 2 * 1024
"""Bytes that come in more than one segment."""
_MOST: Final = 16 * 1024
"""The system makes room for more than that only by taking memory."""


class SettableLine(Protocol):
    """A socket, or what an event loop shows of one."""

    def setsockopt(self, level: int, name: int, value: int, /) -> object: ...


class LineWakes:
    """Of one line that is open."""

    def __init__(self, line: SettableLine) -> None:
        self._line = line
        self._least = 1

    def __repr__(self) -> str:
        return f"<LineWakes for {self._least} bytes>"

    def wait_for(self, lacks: int) -> None:
        """So many bytes are to come before anything can be done; 0 = nobody knows."""
        least = min(lacks, _MOST) if lacks >= _WORTH else 1
        if least != self._least:
            self._least = least
            self._line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)


def wakes_of(line: SettableLine | None, *, is_encrypted: bool) -> LineWakes | None:
    """None: the system does not wait for so much, or TLS stands between: it has read parts of frames."""
    if line is None or is_encrypted or sys.platform != "linux":
        return None
    return LineWakes(line)
