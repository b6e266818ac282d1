"""Heads of requests are mended wherever the bytes are cut, and bodies are left alone."""

import asyncio
from typing import Any

import pytest

from broker.http.leniency import Lenient, mended


class Inner(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.protocol: Any = None

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol


def fronted() -> tuple[Lenient, Inner, Transport]:
    inner, transport = Inner(), Transport()
    front = Lenient(inner)
    transport.set_protocol(front)
    front.connection_made(transport)
    return front, inner, transport


BODY = b"GET /not/a/request HTTP/1.1\r\n\r\n"
REQUESTS = (
    b"GET /login/t HTTP/1.1\r\n\r\n"
    b"POST /send/a b/1 HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b"
    b"GET /create/50%% HTTP/1.1\r\nHost: x\r\n\r\n" % (len(BODY), BODY)
)
MENDED = (
    b"GET /login/t HTTP/1.1\r\nHost: localhost\r\n\r\n"
    b"POST /send/a%%20b/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
    b"GET /create/50%%25 HTTP/1.1\r\nHost: x\r\n\r\n" % (len(BODY), BODY)
)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 10_000])
def test_wherever_the_bytes_are_cut(size: int) -> None:
    front, inner, _ = fronted()
    for start in range(0, len(REQUESTS), size):
        front.data_received(REQUESTS[start : start + size])
    assert inner.data == MENDED


@pytest.mark.parametrize("header", [b"Transfer-Encoding: chunked", b"Upgrade: websocket"])
def test_other_framings_are_passed_on_untouched_after_their_head(header: bytes) -> None:
    front, inner, transport = fronted()
    head = b"POST /x HTTP/1.1\r\n" + header + b"\r\n\r\n"
    front.data_received(head + b"GET /y HTTP/1.1\r\n\r\n")
    assert inner.data == mended(head) + b"GET /y HTTP/1.1\r\n\r\n"
    assert transport.protocol is inner
    front.data_received(b"more")
    assert inner.data.endswith(b"more")


def test_it_leaves_alone_who_stands_before_it() -> None:
    front, _inner, transport = fronted()
    transport.set_protocol("a watcher")  # type: ignore[arg-type]
    front.data_received(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
    assert transport.protocol == "a watcher"


def test_a_head_without_end_is_not_kept_for_ever() -> None:
    front, inner, transport = fronted()
    front.data_received(b"x" * 40_000)
    assert inner.data == b"x" * 40_000
    assert transport.protocol is inner


@pytest.mark.parametrize(
    ("written", "encoded"),
    [
        (b"/a%20b/c%2Fd?x=1&y=@", b"/a%20b/c%2Fd?x=1&y=@"),
        ("/grün".encode(), b"/gr%C3%BCn"),
        (b"/a b", b"/a%20b"),
        (b"/100%/50%25", b"/100%25/50%25"),
        (b"/q#1", b"/q%231"),
        (b'/"<>\\^`{|}', b"/%22%3C%3E%5C%5E%60%7B%7C%7D"),
    ],
)
def test_paths(written: bytes, encoded: bytes) -> None:
    line = mended(b"GET " + written + b" HTTP/1.1\r\nHost: x\r\n\r\n").split(b"\r\n")[0]
    assert line == b"GET " + encoded + b" HTTP/1.1"
