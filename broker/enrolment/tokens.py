"""The token of an invitation: one word that holds what a fresh machine needs to find its parent and to prove
its right to a name.

    sapwood1-KA1hY21lqnN0b3JlLTAwNDI...

`1` is the version. What follows is MessagePack and a checksum (CRC-32) in the URL-safe alphabet of base64,
so that a typing error is told before anybody is asked. Whoever has the token can join under its name, once.
"""

import binascii
import secrets
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, Literal

import msgspec

from broker.enrolment.errors import TokenError
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name

PREFIX: Final = "sapwood"
VERSION: Final = 1
MAX_TOKEN: Final = 8192
ID_BYTES: Final = 8
SECRET_BYTES: Final = 16
_CHECK_BYTES: Final = 4


class Invitation(msgspec.Struct, frozen=True, array_like=True):
    """What a token holds. `ways`: URIs of the parent, in order. `fingerprint`: SHA-256 of its authority's
    certificate. `ends`: seconds since 1970, by the parent's clock. Grows only at its end.
    """

    tree: str
    name: str
    role: Literal["leaf", "branch"]
    parent: str
    ways: tuple[str, ...]
    fingerprint: bytes
    id: bytes
    secret: bytes
    ends: int

    def __repr__(self) -> str:
        return f"<Invitation {self.id.hex()} of {self.name} by {self.parent}>"


def new_id() -> bytes:
    return secrets.token_bytes(ID_BYTES)


def new_secret() -> bytes:
    return secrets.token_bytes(SECRET_BYTES)


def write_token(invitation: Invitation) -> str:
    """The token. Show it once, keep it nowhere."""
    packed = msgspec.msgpack.encode(invitation)
    checked = packed + zlib.crc32(packed).to_bytes(_CHECK_BYTES, "big")
    return f"{PREFIX}{VERSION}-{urlsafe_b64encode(checked).decode().rstrip('=')}"


def read_token(token: str) -> Invitation:
    """What a token holds; white space in it, as mail puts there, does not count. Raises `TokenError`."""
    text = "".join(token.split())
    head, _, tail = text.partition("-")
    version = head.removeprefix(PREFIX)
    if not (head.startswith(PREFIX) and version.isdecimal() and len(text) <= MAX_TOKEN):
        raise TokenError(
            f"this is no token: expected {PREFIX}{VERSION}-…, as `sapwood invite` printed it at the parent"
        )
    if int(version) != VERSION:
        raise TokenError(
            f"the token is of version {version}, this Sapwood reads version {VERSION}:"
            " install the version that the parent has"
        )
    return _unpacked(_checked(tail))


def _checked(tail: str) -> bytes:
    mistyped = TokenError(
        "the token has a typing error, or a part of it is missing: copy it again, from 'sapwood1-' to its end"
    )
    try:
        data = urlsafe_b64decode(tail.encode("ascii") + b"=" * (-len(tail) % 4))
    except (binascii.Error, ValueError):
        raise mistyped from None
    packed, check = data[:-_CHECK_BYTES], data[-_CHECK_BYTES:]
    same = urlsafe_b64encode(data).decode().rstrip("=") == tail
    if not same or zlib.crc32(packed).to_bytes(_CHECK_BYTES, "big") != check:
        raise mistyped
    return packed


def _unpacked(packed: bytes) -> Invitation:
    """Whoever made the token may have written anything: names stand in the configuration, in comments too."""
    try:
        found = msgspec.msgpack.decode(packed, type=Invitation)
        for name in (found.tree, found.name, found.parent):
            node_name(name)
    except (msgspec.DecodeError, ValueError, RecursionError, InvalidName):
        raise TokenError("the token holds something else than an invitation: ask for a new one") from None
    if len(found.id) != ID_BYTES or len(found.secret) != SECRET_BYTES or not found.ways:
        raise TokenError("the token holds something else than an invitation: ask for a new one")
    return found
