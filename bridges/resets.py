"""Lines that were reset while bytes still wait to be read there.

Wrinkle: uvloop says once that such a line can be read, and never again.
"""

import select
import socket


def was_reset(line: socket.socket) -> bool:
    """Has the line ended, whatever waits there?

    `SO_ERROR` would also tell of a router that said meanwhile that the host cannot be reached, and of that a
    line does not end.
    """
    watch = select.poll()
    watch.register(line, 0)
    return bool(watch.poll(0))
