"""How much a TCP line takes before more of it would only queue on the way.

A modem, or a router before a slow line, keeps a tenth of a second of what is sent and more, and TCP fills
that. The next message waits behind it, however urgent. So bulk is sent only while the line has no more under
way than it carries in the time of a turn and a little (`_SLACK`): the line stays full, and its queue short.

The rate is the most that it has carried of late; the time of a turn is the least that the system has seen.

Wrinkle: on a busy machine one looks late, and finds a line that has run dry. Then the slack grows, so that a
line is not bounded by the turns of a processor.
"""

import socket
import struct
import sys
from typing import Final, Protocol

LEAST: Final = 4 * 1024
"""Bytes that any line may have under way."""
MOST: Final = 1024 * 1024
_START: Final = 16 * 1024
_GRAIN: Final = 3000
"""Two segments, which a line of 1 Mbit/s has not said that it has."""
_SLACK: Final = 0.002
_MOST_SLACK: Final = 0.1
_ABOVE: Final = 1.25
_ROUND: Final = 0.01
"""Seconds over which a rate is measured, at least."""
_QUICK: Final = 100e6
"""Bytes a second that only processors bound, not lines with a queue that anybody waits for."""
_OTHERS: Final = 0.064
_OTHERS_LAST: Final = 10.0
"""A line that takes so many seconds longer although next to nothing of ours is under way is filled by others.
For a while that is taken for the time of a turn: else they would have all of it."""
_SIZE: Final = 216
_INFO: Final = struct.Struct("=68xI48xQ16xII48xQQ")
"""Of `struct tcp_info`: rtt, bytes_acked, notsent_bytes, min_rtt, bytes_sent, bytes_retrans."""


class Line(Protocol):
    """A socket, or what an event loop shows of one."""

    def getsockopt(self, level: int, name: int, size: int, /) -> bytes: ...


class LineRoom:
    """Of one line. `pause`: seconds after which it may have room again."""

    def __init__(self, line: Line, now: float) -> None:
        self._line = line
        self._window = float(_START)
        self._rate = 0.0
        self._slack = _SLACK
        self._since, self._acked = now, self._look()[1]
        self._held = self._was_full = False
        self._others = self._others_until = self._free_until = 0.0
        self.pause = _SLACK / 2

    def __repr__(self) -> str:
        return f"<LineRoom {self._window:.0f} bytes at {self._rate:.0f} a second>"

    def _look(self) -> tuple[int, int, int, int, int, int]:
        found = self._line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SIZE)
        rtt, acked, unsent, least_rtt, sent, again = _INFO.unpack(found)
        return rtt, acked, unsent, least_rtt, sent, again

    def ask(self, now: float) -> int:
        """Bytes that it takes now; 0: ask again later. Caller's duty: it asks because it has some."""
        if now < self._free_until:
            return MOST
        rtt, acked, unsent, least_rtt, sent, again = self._look()
        under_way = max(sent - again - acked, 0) + unsent
        if self._held or unsent:  # TCP alone may bound it: then all of the room is never used
            self._slack = min(max(self._slack * (0.99 if under_way else 1.5), _SLACK), _MOST_SLACK)
        if now - self._since >= max(rtt / 1e6, _ROUND):
            self._measure(now, acked, rtt / 1e6, least_rtt / 1e6)
        room = self._window - under_way
        step = min(self._window / 2, max(LEAST / 2, self._rate * self._slack / 2))
        self._held = room < step
        if self._held or unsent:
            self._was_full = True
        if self._rate:
            self.pause = min(max((step - room) / self._rate, _SLACK / 2), _ROUND)
        return 0 if self._held else int(room)

    def _measure(self, now: float, acked: int, rtt: float, turn: float) -> None:
        rate = (acked - self._acked) / (now - self._since)
        above = 2 if rate > _ABOVE * self._rate else _ABOVE  # it may be far quicker than we know yet
        if rate > self._rate:
            self._rate = rate
        elif self._was_full:
            self._rate = max(rate, 0.9 * self._rate)
        self._since, self._acked, self._was_full = now, acked, False
        if self._window <= 2 * LEAST and rtt > turn + _OTHERS and now >= self._others_until:
            self._others, self._others_until = rtt, now + _OTHERS_LAST
        if now < self._others_until:
            turn = max(turn, self._others)
        self._window = max(LEAST, self._rate * (above * turn + self._slack) + _GRAIN)
        if self._rate > _QUICK:
            self._free_until = now + _ROUND


def room_of(line: Line | None, now: float) -> LineRoom | None:
    """None: it is no TCP line, or its system does not tell what is under way."""
    if line is None or sys.platform != "linux":  # others tell the same in other places
        return None
    try:
        return LineRoom(line, now)
    except (OSError, struct.error):
        return None
