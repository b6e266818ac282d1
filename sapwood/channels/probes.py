"""Dead connections: who has gone without a word, though nothing is ever closed for being idle.

An idle connection is probed by TCP itself: after half a minute of silence, every ten seconds, and is dead
after three probes without an answer. Wrinkle: TCP does not probe while something that was sent waits for its
acknowledgement, and would send that again for a quarter of an hour. So whoever has been sent something and
has not been heard of at all for `SILENCE` is dead as well; a peer that is only slow to read still answers.
"""

import socket
import struct
from typing import Any, Final

SILENCE: Final = 60.0
_PROBE_AFTER: Final = 30
_PROBE_EVERY: Final = 10
_PROBES: Final = 3
_INFO: Final = struct.Struct("=8B24I")
_PROBING: Final = 3
_UNACKED: Final = 8 + 4
_LAST_ACK: Final = 8 + 12


def probe(line: socket.socket) -> None:
    """Let TCP probe a connection, or all that a listening socket takes."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _PROBE_AFTER),
        ("TCP_KEEPINTVL", _PROBE_EVERY),
        ("TCP_KEEPCNT", _PROBES),
    ):
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def is_dead(connection: Any) -> bool:
    """Has something been sent that nobody acknowledges, and nothing been heard for long? Linux tells."""
    if connection is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:
        return False
    return len(info) == _INFO.size and says_dead(info)


def says_dead(info: bytes) -> bool:
    """`info`: the kernel's `struct tcp_info`."""
    values = _INFO.unpack(info)
    unanswered = values[_UNACKED] > 0 or values[_PROBING] > 0
    return unanswered and bool(values[_LAST_ACK] > SILENCE * 1000)
