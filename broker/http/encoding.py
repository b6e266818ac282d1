"""Answers to verbs as bytes, and the headers of requests for them."""

import asyncio
from functools import lru_cache
from http import HTTPStatus
from typing import Final

from multidict import CIMultiDict

from broker.http.heads import Head
from broker.http.verbs import NOTE, VerbAnswer

LINK: Final = '</docs>; rel="help"'
"""Every answer says where the protocol is described."""


class Fields:
    """Headers and connection of a request, for `facts_of`."""

    def __init__(self, fields: bytes, transport: asyncio.BaseTransport) -> None:
        lines = (line.partition(":") for line in fields.decode("latin-1").split("\r\n")[1:])
        self.headers = CIMultiDict((name, value.strip()) for name, _, value in lines)
        self.transport = transport


def stays_open(head: Head) -> bool:
    """Whether the connection stays open after this request."""
    if not head.connection:
        return head.minor == 1
    return b"keep-alive" in head.connection if head.minor == 0 else b"close" not in head.connection


@lru_cache(maxsize=2)
def _date(second: int) -> bytes:
    from email.utils import formatdate  # a node that nobody asks does not need it

    return formatdate(second, usegmt=True).encode()


def encoded(answer: VerbAnswer, stays: bool, second: int) -> bytes:
    """The answer as bytes. Its length is always told, and every answer leads to the documentation."""
    status, body, content_type, note = answer
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b%bLink: %b\r\nServer: sapwood\r\nDate: %b\r\n%b\r\n%b" % (
        _status(status),
        len(body),
        _content_type(content_type),
        f"{NOTE}: {note}\r\n".encode() if note else b"",
        _LINK,
        _date(second),
        _KEEP_ALIVE if stays else _CLOSE,
        body,
    )


_LINK: Final = LINK.encode()
_KEEP_ALIVE: Final = b"Connection: keep-alive\r\n"
_CLOSE: Final = b"Connection: close\r\n"


@lru_cache
def _status(status: int) -> bytes:
    return f"{status} {HTTPStatus(status).phrase}".encode()


@lru_cache
def _content_type(name: str) -> bytes:
    return f"Content-Type: {name}\r\n".encode() if name else b""
