"""A line that was reset is told from one that lives, or is read to its end."""

import errno
import select
import socket
import struct

import pytest

from bridges.resets import was_reset


class Troubled(socket.socket):
    """A line of which a router has said that it does not reach the host; it lives all the same."""

    def getsockopt(self, *_given: int) -> int:  # type: ignore[override]
        return errno.EHOSTUNREACH


@pytest.mark.parametrize(("how", "ended"), [("lives", False), ("closed", False), ("reset", True)])
def test_a_line_has_ended_if_it_was_reset(how: str, ended: bool) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as own,
    ):
        other, _ = server.accept()
        with other, Troubled(fileno=own.detach()) as line:
            other.sendall(b"what waits")
            if how == "reset":
                other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if how != "lives":
                other.close()
            select.select([line], [], [], 60)
            assert was_reset(line) is ended
            assert line.recv(100) == b"what waits"
