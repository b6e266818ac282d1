"""Which connections are this very machine's."""

import pytest

from broker.entrance.near import is_near, of_a_proxy

HERE = ("127.0.0.1", 7600)


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        (HERE, HERE),
        (("127.9.9.9", 1), HERE),
        (("::1", 1, 0, 0), ("::1", 2, 0, 0)),
        (("::ffff:127.0.0.1", 1, 0, 0), ("::ffff:127.0.0.1", 2, 0, 0)),
    ],
)
def test_from_loopback_to_loopback_is_near(peer: object, local: object) -> None:
    assert is_near(peer, local)


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        (("192.0.2.7", 1), HERE),
        (HERE, ("192.0.2.7", 7600)),
        (("192.0.2.7", 1), ("192.0.2.7", 7600)),
        (("::ffff:192.0.2.7", 1, 0, 0), ("::1", 2, 0, 0)),
        (("fe80::1%eth0", 1, 0, 2), ("fe80::1%eth0", 2, 0, 2)),
        ("", HERE),
        (None, HERE),
        (HERE, "/run/socket"),
        ((), HERE),
        (("localhost", 1), HERE),
    ],
)
def test_everything_else_is_far(peer: object, local: object) -> None:
    assert not is_near(peer, local)


def test_headers_of_programs_are_none_of_proxies() -> None:
    ordinary = (
        "Host",
        "Accept",
        "Authorization",
        "Link",
        "Content-Type",
        "User-Agent",
        "Connection",
        "Upgrade",
    )
    web_socket = (
        "Sec-WebSocket-Key",
        "Sec-WebSocket-Version",
        "Sec-Fetch-Site",
        "Origin",
        "Referer",
        "Cookie",
    )
    assert of_a_proxy((*ordinary, *web_socket, "X-Request-Id", "Traceparent", "DNT", "Priority")) == ""
    assert of_a_proxy((*ordinary, "x-forwarded-host")) == "x-forwarded-host"
    assert of_a_proxy((*ordinary, "X_Forwarded_For")) == "X_Forwarded_For"
