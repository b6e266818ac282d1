"""Whether bytes get through on a connection, also where no packet is whole yet: its system tells."""

import socket
import struct
from typing import Any, Final, NamedTuple

_INFO: Final = struct.Struct("=24xI92x2Q8xI")
"""Of the kernel's `struct tcp_info`: segments that wait for their acknowledgement; bytes that
were acknowledged, that came, and that were not sent yet.
"""


class Traffic(NamedTuple):
    """Of a connection so far: bytes that the other end has acknowledged, and that came. `waits`: others have
    not been acknowledged yet.
    """

    acknowledged: int = 0
    came: int = 0
    waits: bool = False

    def goes_on(self, now: "Traffic") -> bool:
        """Has anything come since, or does much go out slowly?

        Little that was sent is acknowledged at once, by the system of a peer that does nothing any more.
        """
        return now.came > self.came or (now.waits and now.acknowledged > self.acknowledged)


def traffic(connection: Any) -> Traffic:
    """All 0 where the system tells nothing; Linux does."""
    if connection is None or not hasattr(socket, "TCP_INFO"):
        return Traffic()
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO.size)
    except OSError:
        return Traffic()
    if len(info) < _INFO.size:
        return Traffic()
    on_their_way, acknowledged, came, unsent = _INFO.unpack(info)
    return Traffic(acknowledged, came, waits=on_their_way > 0 or unsent > 0)
