"""Heads of HTTP/1.x requests: read, checked, and mended for aiohttp, which is strict.

Deployed clients of the link-level protocol leave out the Host header that HTTP/1.1 asks for, and write names
bare: with spaces, umlauts, question marks and percent signs. All of that is understood here. What is no
request at all is `Malformed`, so that the answer to it is made by us and leads to the documentation.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote_from_bytes, unquote_to_bytes

from broker.core.errors import BadRequest

MAX_HEAD: Final = 32 * 1024
MAX_LINE: Final = 8 * 1024
END: Final = b"\r\n\r\n"
_HOST_LINE: Final = b"Host: localhost\r\n"
_FIRST: Final = re.compile(rb"([A-Za-z]{1,20}) (\S.*) HTTP/1\.([01])", re.DOTALL)
_CONTROL: Final = re.compile(rb"[\x00-\x1f\x7f]")
_FIELDS: Final = re.compile(rb"(?:\r\n[A-Za-z0-9!#$%&'*+.^_`|~-]+:[^\x00-\x08\x0a-\x1f\x7f]*)*")
_HOST: Final = re.compile(rb"\r\nhost:", re.IGNORECASE)
_UPGRADE: Final = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)
_ENCODING: Final = re.compile(rb"\r\ntransfer-encoding:[ \t]*([^\r\n]*?)[ \t]*(?=\r\n|$)", re.IGNORECASE)
_CONNECTION: Final = re.compile(rb"\r\nconnection:([^\r\n]*)", re.IGNORECASE)
_EXPECT: Final = re.compile(rb"\r\nexpect:(?![ \t]*100-continue[ \t]*(?:\r\n|$))", re.IGNORECASE)
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")
_MAX_CHUNK_LINE: Final = 1024
_MAX_TRAILERS: Final = 8 * 1024
LINES_AT_ONCE: Final = 500
"""Of the smallest chunks 40,000 come with one reading of the line."""
_WORTH_KEEPING: Final = 512
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([^\r\n]*?)[ \t]*(?=\r\n|$)", re.IGNORECASE)
_MOST_DIGITS: Final = 18
_PLAIN: Final = re.compile(rb"[A-Za-z0-9/:?\[\]@!$&'()*+,;=~._-]*")
_SAFE: Final = "/:?[]@!$&'()*+,;=~._-%"
_BARE_PERCENT: Final = re.compile("%(?![0-9A-Fa-f]{2})")


class Malformed(Exception):
    """What came is no HTTP/1.x request. `status`: how it is answered."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


CHUNKED: Final = -1


class Head(NamedTuple):
    """A request's head. `fields`: its header lines as they came, each after a line end.

    `length`: bytes of the body, `CHUNKED` where it comes in chunks. `upgrade`: another protocol follows.
    `connection`: what the Connection header says, in lower case.
    """

    method: str
    target: bytes
    minor: int
    fields: bytes
    length: int
    upgrade: bool
    connection: bytes = b""


def read_head(data: bytes) -> Head:
    """Read a head, without the empty line at its end. Raises `Malformed`."""
    line, _, _ = data.partition(b"\r\n")
    first = _FIRST.fullmatch(line)
    if first is None or _CONTROL.search(line):
        raise Malformed(400, "expected 'METHOD /path HTTP/1.1'")
    if len(line) > MAX_LINE:
        raise Malformed(414, f"a request line has at most {MAX_LINE} bytes")
    fields = data[len(line) :]
    framing = (_framing if len(fields) > _WORTH_KEEPING else _known_framing)(fields)
    return Head(first[1].decode(), first[2], int(first[3]), fields, *framing)


def _framing(fields: bytes) -> tuple[int, bool, bytes]:
    """Check header lines. How long is the body, does another protocol follow, does the connection stay?"""
    if not _FIELDS.fullmatch(fields):
        raise Malformed(400, "expected header lines of the form 'Name: value'")
    if len(fields) > MAX_LINE and max(map(len, fields.split(b"\r\n"))) > MAX_LINE:
        raise Malformed(431, f"a header line has at most {MAX_LINE} bytes")
    if _EXPECT.search(fields):
        raise Malformed(417, "nothing but 'Expect: 100-continue' is understood")
    return (
        _length(fields),
        _UPGRADE.search(fields) is not None,
        b",".join(_CONNECTION.findall(fields)).lower(),
    )


_known_framing = lru_cache(maxsize=1024)(_framing)  # a client's header lines are the same again and again


def without_length(fields: bytes) -> bytes:
    """The header lines but for Content-Length, which differs from request to request."""
    return _LENGTH.sub(b"", fields)


def _length(fields: bytes) -> int:
    """Bytes of the body; 0 without a Content-Length."""
    lengths, encodings = set(_LENGTH.findall(fields)), _ENCODING.findall(fields)
    if encodings:
        if lengths or [encoding.lower() for encoding in encodings] != [b"chunked"]:
            raise Malformed(400, "expected a Content-Length, or 'Transfer-Encoding: chunked', and not both")
        return CHUNKED
    if not lengths:
        return 0
    (text, *more) = lengths
    if more or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise Malformed(400, "Content-Length is one whole number")
    return int(text)


def with_length(fields: bytes, length: int) -> bytes:
    """The header lines of a request that came in chunks, once its body is whole."""
    return _ENCODING.sub(b"", fields) + b"\r\nContent-Length: %d" % length


def without_upgrade(head: bytes) -> bytes:
    """The same request head for who does not change the protocol."""
    return _UPGRADE.sub(b"", head)


class Chunks:
    """Puts a body together that comes in chunks. `body`: what is there so far, at most `most` bytes.
    `is_behind`: more of it has come than is taken at one go.

    Law: lines between chunks are short, and the trailers together are; they are read and forgotten.
    """

    def __init__(self, most: int) -> None:
        self.body = bytearray()
        self.is_behind = False
        self._most = most
        self._left = 0
        self._trailing = False
        self._trailers = 0

    def take(self, data: bytearray) -> bool:
        """Take the body from the front of `data`. True once it is whole. Raises `Malformed`."""
        lines, self.is_behind = 0, False
        while data:
            if self._left > 2:
                part = data[: self._left - 2]
                self.body += part
                self._left -= len(part)
                del data[: len(part)]
                continue
            end = data.find(b"\r\n", 0, _MAX_CHUNK_LINE + 2)
            if end < 0:
                if len(data) > _MAX_CHUNK_LINE:
                    raise Malformed(400, f"a line between chunks has at most {_MAX_CHUNK_LINE} bytes")
                return False
            line = bytes(data[:end])
            del data[: end + 2]
            if self._line(line):
                return True
            lines += 1
            if lines == LINES_AT_ONCE:
                self.is_behind = True
                return False
        return False

    def _line(self, line: bytes) -> bool:
        """A line between chunks. True if it is the last."""
        if self._trailing:
            self._trailers += len(line)
            if self._trailers > _MAX_TRAILERS:
                raise Malformed(431, f"the trailers of a body have at most {_MAX_TRAILERS} bytes")
            return not line
        if self._left:
            if line:
                raise Malformed(400, "a chunk is longer than it says")
            self._left = 0
            return False
        found = _CHUNK.fullmatch(line)
        if found is None:
            raise Malformed(400, "a chunk begins with its size")
        size = int(found[1], 16)
        if len(self.body) + size > self._most:
            raise Malformed(413, f"TOO_LARGE: a body of more than {self._most} bytes")
        self._trailing = not size
        self._left = size + 2 if size else 0
        return False


def path_of(target: bytes) -> bytes:
    """The path of a request's target, which may also be written with scheme and host."""
    if target.startswith(b"/"):
        return target
    _, scheme, rest = target.partition(b"://")
    return b"/" + rest.partition(b"/")[2] if scheme else target


def verb_of(target: bytes) -> str:
    """The first segment of the path."""
    start = 1 if target.startswith(b"/") else len(target) - len(path_of(target)) + 1
    end = target.find(b"/", start)
    return (target[start:] if end < 0 else target[start:end]).decode("latin-1")


def parts_of(target: bytes) -> list[str]:
    """The segments of a link-level path, decoded once: `/send/a%20b/5` is `['send', 'a b', '5']`.

    The protocol has no queries: a question mark is a letter of a name like any other. Raises `BadRequest`.
    """
    segments = target[1:].split(b"/")
    try:
        return [(unquote_to_bytes(segment) if b"%" in segment else segment).decode() for segment in segments]
    except UnicodeDecodeError:
        raise BadRequest("names are UTF-8, percent-encoded or bare") from None


def mended(head: bytes) -> bytes:
    """The same request head, for aiohttp: with an encoded path and a Host."""
    first, _, rest = head.partition(b"\r\n")
    method, _, target = first.partition(b" ")
    target, _, version = target.rpartition(b" ")
    if not _PLAIN.fullmatch(target):
        target = _BARE_PERCENT.sub("%25", quote_from_bytes(target, _SAFE)).encode()
    host = b"" if _HOST.search(head) else _HOST_LINE
    return b"%b %b %b\r\n%b%b" % (method, target, version, host, rest)
