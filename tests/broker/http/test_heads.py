"""Heads of requests are read, refused and mended."""

import pytest

from broker.core.errors import BadRequest
from broker.http.heads import (
    CHUNKED,
    LINES_AT_ONCE,
    Chunks,
    Malformed,
    mended,
    parts_of,
    path_of,
    read_head,
    with_length,
)


def test_a_head() -> None:
    head = read_head(b"POST /send/q/1 HTTP/1.1\r\nHost: x\r\ncontent-length:  12 \r\nX: \xfc")
    assert (head.method, head.target, head.minor, head.length, not head.upgrade) == (
        "POST",
        b"/send/q/1",
        1,
        12,
        True,
    )
    assert head.fields == b"\r\nHost: x\r\ncontent-length:  12 \r\nX: \xfc"


def test_a_bare_name_may_have_spaces() -> None:
    assert read_head(b"GET /create/a b  c HTTP/1.0").target == b"/create/a b  c"


def test_other_framings() -> None:
    assert read_head(b"GET /x HTTP/1.1\r\nupgrade: websocket").upgrade
    assert read_head(b"POST /x HTTP/1.1\r\ntransfer-encoding: Chunked").length == CHUNKED


CHUNKED_BODY = b"3\r\nabc\r\nA ;x=y\r\n0123\r\n6789\r\n0\r\nTrailer: t\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_a_body_in_chunks_wherever_it_is_cut(size: int) -> None:
    chunks, data = Chunks(100), bytearray()
    whole = []
    for start in range(0, len(CHUNKED_BODY), size):
        data += CHUNKED_BODY[start : start + size]
        whole.append(chunks.take(data))
    assert whole == [False] * (len(whole) - 1) + [True]
    assert (bytes(chunks.body), bytes(data)) == (b"abc0123\r\n6789", b"")


def test_of_very_many_small_chunks_so_many_are_taken_at_one_go() -> None:
    chunks, data = Chunks(LINES_AT_ONCE), bytearray(b"1\r\nx\r\n" * LINES_AT_ONCE + b"0\r\n\r\n")
    turns = 0
    while not chunks.take(data):
        assert chunks.is_behind
        turns += 1
    assert (turns, bytes(chunks.body), bytes(data)) == (2, b"x" * LINES_AT_ONCE, b"")
    assert not chunks.is_behind


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"x\r\n", 400), (b"-1\r\n", 400), (b"3\r\nabcd\r\n", 400), (b"65\r\n", 413), (b"1" * 2000, 400)],
)
def test_what_is_no_body_in_chunks(data: bytes, status: int) -> None:
    with pytest.raises(Malformed) as caught:
        Chunks(100).take(bytearray(data))
    assert caught.value.status == status


def test_what_comes_after_a_body_in_chunks_stays() -> None:
    data = bytearray(b"1\r\nx\r\n0\r\n\r\nGET")
    assert Chunks(10).take(data)
    assert data == b"GET"
    assert (
        with_length(b"\r\nA: b\r\nTransfer-Encoding: chunked\r\nC: d", 1)
        == b"\r\nA: b\r\nC: d\r\nContent-Length: 1"
    )


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense", 400),
        (b"GET /x", 400),
        (b"GET  HTTP/1.1", 400),
        (b"GET /x HTTP/2.0", 400),
        (b"GET /a\x01b HTTP/1.1", 400),
        (b"GET /x HTTP/1.1\r\nno colon", 400),
        (b"GET /x HTTP/1.1\r\nA: b\r\n folded", 400),
        (b"GET /x HTTP/1.1\r\nA : b", 400),
        (b"GET /x HTTP/1.1\r\nA: b\x00", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: -1", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 1, 1", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 9999999999999999999", 400),
        (b"POST /x HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", 400),
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1", 414),
        (b"GET /x HTTP/1.1\r\nA: " + b"x" * 9000, 431),
    ],
)
def test_what_is_no_request(data: bytes, status: int) -> None:
    with pytest.raises(Malformed) as caught:
        read_head(data)
    assert caught.value.status == status
    assert str(caught.value)


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        (b"/create", ["create"]),
        (b"/create/", ["create", ""]),
        (b"/send/a%20b%2Fc/5/r%40n", ["send", "a b/c", "5", "r@n"]),
        ("/create/grün?#é".encode(), ["create", "grün?#é"]),
        (b"/create/50%/%zz%41+", ["create", "50%", "%zzA+"]),
        (b"/create/..", ["create", ".."]),
    ],
)
def test_paths_of_the_protocol(target: bytes, parts: list[str]) -> None:
    assert parts_of(target) == parts


@pytest.mark.parametrize("target", [b"/create/\xff", b"/create/%ff"])
def test_names_are_utf8(target: bytes) -> None:
    with pytest.raises(BadRequest, match="UTF-8"):
        parts_of(target)


def test_a_target_may_name_the_host() -> None:
    assert path_of(b"http://127.0.0.1:7600/login/t") == b"/login/t"
    assert path_of(b"/login/http://x") == b"/login/http://x"
    assert path_of(b"*") == b"*"


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
def test_mended_paths(written: bytes, encoded: bytes) -> None:
    line = mended(b"GET " + written + b" HTTP/1.1\r\nHost: x\r\n\r\n").split(b"\r\n")[0]
    assert line == b"GET " + encoded + b" HTTP/1.1"


def test_a_missing_host_is_put_in() -> None:
    assert mended(b"GET / HTTP/1.1\r\n\r\n") == b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert mended(b"GET / HTTP/1.1\r\nHOST: a\r\n\r\n") == b"GET / HTTP/1.1\r\nHOST: a\r\n\r\n"


def test_lines_between_chunks_and_behind_them_are_bounded() -> None:
    with pytest.raises(Malformed, match="a line between chunks has at most 1024 bytes"):
        Chunks(100).take(bytearray(b"1;" + b"x" * 2000 + b"\r\na\r\n"))
    with pytest.raises(Malformed, match="the trailers of a body have at most 8192 bytes") as caught:
        Chunks(100).take(bytearray(b"1\r\na\r\n0\r\n" + (b"X: " + b"y" * 1000 + b"\r\n") * 9))
    assert caught.value.status == 431
    assert Chunks(100).take(bytearray(b"1\r\na\r\n0\r\n" + (b"X: " + b"y" * 1000 + b"\r\n") * 8 + b"\r\n"))
