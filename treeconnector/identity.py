"""Who a node is, durably and for one start, and how bundles and messages are named.

Durable: the *store id*, a UUID made with the database, and the *start number*, plus one at each start
and committed before the first handshake. For one start: the *incarnation*, a UUID, which is the
node's logical address.

A bundle id is 16 bytes: 12 random bytes drawn at each start and a counter of 4. It is not derived from
the store id, because a database restored from a backup would then give old ids to new messages.
A message id is the bundle's id and the message's position in it, and is never changed: `<32 hex>-<position>`.
"""

import uuid
from collections.abc import Callable
from typing import NamedTuple

import msgspec

BundleId = bytes
StoreId = bytes
BUNDLE_ID_BYTES = 16
_PREFIX_BYTES = 12
_COUNTER_END = 1 << 32


class Identity(msgspec.Struct, frozen=True):
    """What a node says of itself in every handshake. Ids are 16 bytes, as in `uuid.UUID.bytes`."""

    tree: str
    name: str
    role: str
    store_id: StoreId
    start: int
    incarnation: bytes


class Shown(NamedTuple):
    """What a carrier knows of who is at its other end, before that says a word.

    `certified`: the names in its certificate, none if it showed none. `place`: the node whose topics or
    queues at a broker the carrier rides on, '' for a carrier without such a thing. `vouched`: the broker's
    permissions keep everyone else from them. `serial`: the number of the certificate, 0 if there is none.
    `anybody`: whoever is on the same network may have told its address.
    """

    certified: frozenset[str] = frozenset()
    place: str = ""
    vouched: bool = False
    serial: int = 0
    anybody: bool = False


class MessageId(NamedTuple):
    bundle: BundleId
    position: int

    def __str__(self) -> str:
        return f"{self.bundle.hex()}-{self.position}"


def parse_message_id(text: str) -> MessageId:
    """Read `<32 hex>-<position>`; raise ValueError that says so if it is not."""
    bundle, hyphen, index = text.partition("-")
    if hyphen and len(bundle) == 2 * BUNDLE_ID_BYTES and index.isdecimal() and len(index) <= 6:
        try:
            return MessageId(bytes.fromhex(bundle), int(index))
        except ValueError:
            pass
    raise ValueError(f"{text[:60]!r} is no message id: expected 32 hexadecimal digits, '-' and a position")


def new_uuid(random_bytes: Callable[[int], bytes]) -> bytes:
    """A random UUID. `random_bytes` gives so many that nobody can guess."""
    return uuid.UUID(bytes=random_bytes(16), version=4).bytes


class BundleIds:
    """Makes ids that nobody else makes. One for each start of a node."""

    __slots__ = ("_count", "_prefix", "_random_bytes")

    def __init__(self, random_bytes: Callable[[int], bytes]) -> None:
        self._random_bytes = random_bytes
        self._prefix = random_bytes(_PREFIX_BYTES)
        self._count = 0

    def __repr__(self) -> str:
        return f"<BundleIds {self._prefix.hex()} made={self._count}>"

    def next(self) -> BundleId:
        if self._count == _COUNTER_END:
            self._prefix, self._count = self._random_bytes(_PREFIX_BYTES), 0
        made = self._prefix + self._count.to_bytes(4, "big")
        self._count += 1
        return made
