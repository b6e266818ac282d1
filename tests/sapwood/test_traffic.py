"""Bytes that get through: the kernel's own counts, read right."""

import socket

import pytest

from sapwood.traffic import Traffic, traffic


def test_the_kernel_counts_what_was_acknowledged_and_what_came() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        with socket.create_connection(listener.getsockname()) as client:
            server, _ = listener.accept()
            with server:
                before = traffic(client)
                server.sendall(b"hello")
                assert client.recv(5) == b"hello"
                assert traffic(client) == before._replace(came=5)
                client.setblocking(False)
                while True:
                    try:
                        client.send(bytes(65536))
                    except BlockingIOError:
                        break
                full = traffic(client)
                assert full.waits
                server.settimeout(10)
                while traffic(client).acknowledged == full.acknowledged:
                    assert server.recv(65536)
                assert full.goes_on(traffic(client))


@pytest.mark.parametrize(
    ("now", "goes_on"),
    [
        (Traffic(10, 10, waits=True), False),
        (Traffic(10, 11, waits=False), True),
        (Traffic(20, 10, waits=False), False),
        (Traffic(20, 10, waits=True), True),
    ],
    ids=["nothing", "a part came", "little was taken by its system alone", "much goes slowly"],
)
def test_a_long_packet_goes_on(now: Traffic, goes_on: bool) -> None:
    assert Traffic(10, 10, waits=True).goes_on(now) is goes_on


def test_the_traffic_of_what_is_no_tcp_connection_is_not_known() -> None:
    left, right = socket.socketpair()
    with left, right:
        assert traffic(left) == traffic(None) == Traffic()
