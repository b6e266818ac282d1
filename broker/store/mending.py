"""Bundles of a former version that this one does not read: an expiry above `MOST_NUMBER` becomes that, which
is 285,000 years, and the name of a destination is cut after `MAX_NAME` bytes. Nothing else of them changes.
"""

import sqlite3
from typing import Any, Final, NamedTuple

import msgspec

from broker.core.rows import BundleRow, RetainedRow
from broker.store.schema import STATEMENTS
from sapwood.protocol import bundles
from sapwood.protocol.bundles import MAX_NAME, MOST_NUMBER, Flag, Header
from sapwood.protocol.errors import FrameError

_TIMES: Final = [Header.__struct_fields__.index(name) for name in ("expires_first", "expires_last")]
_DESTINATION: Final = Header.__struct_fields__.index("destination")
_decoder = msgspec.msgpack.Decoder(list[Any])
_encode = msgspec.msgpack.Encoder().encode


def why_not_read(connection: sqlite3.Connection) -> str:
    """Why a start would not read some header of a database, '' if it reads all."""
    for table in (BundleRow, RetainedRow):
        for (header,) in connection.execute(f'SELECT "header" FROM "{STATEMENTS[table].table}"'):  # noqa: S608
            try:
                bundles.decode_header(header)
            except FrameError as error:
                return str(error)
    return ""


class Mended(NamedTuple):
    """A bundle as this version reads it. `cut`: of its destination's name only the beginning is left."""

    header: bytes
    body: bytes
    cut: bool


def mended(header: bytes, body: bytes) -> Mended | None:
    """None if it is damaged, or not of that kind."""
    try:
        values = _decoder.decode(header[1:])
        name = values[_DESTINATION][1].encode()
        values[_DESTINATION][1] = name[:MAX_NAME].decode(errors="ignore")
        for at in _TIMES:
            values[at] = min(values[at], MOST_NUMBER)
        read = bundles.decode_header(header[:1] + _encode(values))
        plain = bundles.whole(bundles.plain_body(read, body), read.count)
        messages = _decoder.decode(plain)
        for message in messages:
            for properties in message[1:2]:
                if properties.get("expires-in", 0) > MOST_NUMBER:
                    properties["expires-in"] = MOST_NUMBER
        plain = b"".join(map(_encode, messages))
        body, compressed = bundles.compress(plain)
        read.flags, read.size = read.flags & ~Flag.COMPRESSED | compressed, len(plain)
        bundles.unpack(read, body)
    except (FrameError, *bundles.UNREADABLE, TypeError, LookupError, AttributeError):
        return None
    return Mended(bundles.encode_header(read), body, len(name) > MAX_NAME)
