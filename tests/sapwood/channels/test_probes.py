"""Who is dead: the kernel's own words, read right."""

import socket
import struct
import time

import pytest

from sapwood.channels.probes import is_dead, probe, says_dead


def info(*, unacknowledged: int = 0, probes: int = 0, silent_ms: int = 0) -> bytes:
    words = [0] * 24
    words[4], words[12] = unacknowledged, silent_ms
    return struct.pack("=8B24I", 1, 0, 0, probes, 0, 0, 0, 0, *words)


@pytest.mark.parametrize(
    ("words", "dead"),
    [
        (info(silent_ms=10_000_000), False),
        (info(unacknowledged=3, silent_ms=59_000), False),
        (info(unacknowledged=3, silent_ms=61_000), True),
        (info(probes=2, silent_ms=61_000), True),
        (info(probes=1, silent_ms=2_000), False),
    ],
)
def test_idle_is_not_dead_and_silent_though_something_was_sent_is(words: bytes, dead: bool) -> None:
    assert says_dead(words) is dead


def test_the_kernel_speaks_of_a_living_connection_as_we_read_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        probe(listener)
        with socket.create_connection(listener.getsockname()) as client:
            server, _ = listener.accept()
            with server:
                assert server.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                client.sendall(b"x")
                assert server.recv(1) == b"x"
                words = struct.unpack("=8B24I", server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))
                assert words[0] == 1  # established
                assert words[8 + 4] == 0
                deadline = time.monotonic() + 10
                while words[8 + 12] < 5 and time.monotonic() < deadline:
                    words = struct.unpack(
                        "=8B24I", server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
                    )
                assert 5 <= words[8 + 12] < 10_000  # ms since the last acknowledgement
                assert not is_dead(server)


def test_what_is_no_tcp_connection_is_not_dead() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert not is_dead(left)
    assert not is_dead(None)
