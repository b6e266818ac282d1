"""Rows: all that the node keeps on disk, and a transaction as the set of rows that it changes.

Law: a core never writes; it puts rows into a `Transaction`, the store applies it as one commit, and a
start loads the same rows again. A row type is a table; its first `KEYS[type]` fields are the key. Within
a transaction the last word on a key wins.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from sapwood.protocol.bundles import Header, decode_header
from sapwood.protocol.errors import FrameError, StoreError

FORMER: Final = 2
ENDED: Final = "ended"
"""The name of the value that says that the node has ended as it should."""
UNREAD: Final = (
    "the store holds a message that this version does not read ({}): `sapwood node recover`, with the node"
    " stopped, makes it one that it reads"
)


def own_header(data: bytes) -> Header:
    """Of a bundle on this node's own disk. Raises `StoreError`."""
    try:
        return decode_header(data)
    except FrameError as error:
        raise StoreError(UNREAD.format(error)) from None


class BundleRow(NamedTuple):
    """A blob, stored once however many copies refer to it. `row` increases and is never used again.

    `body` None: the blob is there already, only the header changes.
    """

    row: int
    header: bytes
    body: bytes | None


class CopyRow(NamedTuple):
    """One duty to deliver a bundle. `place`: 'queue:NAME[@NODE]', 'link:NODE', 'subscription:ID', 'dead',
    'upward' (for a parent, while there is none), or 'subscriptions:' (for all whose ids follow in `note`).

    `number`: the link's sequence number, 0 = none yet. `done`: mask of messages dealt with. `came`: node
    that handed it over, '' = entered here. `transfer`: first transfer id given to its messages, 0 = none.
    `since`: tick (ms of running time) of arrival. `note`: why it is dead; or who sent it, for quotas.
    """

    row: int
    bundle: int
    place: str
    number: int
    done: bytes
    came: str
    deliveries: int
    transfer: int
    since: int
    note: str


class StoredEntry(NamedTuple):
    """A copy with its bundle, as they are read together. `size`: of the body, which is read only if asked."""

    copy: CopyRow
    header: bytes
    size: int
    body: bytes | None


class PageRow(NamedTuple):
    """Copies that wait in one place and are in nobody's hands, which a start need not read: see `pages`.

    `first`: row of the first copy. `summary`: what is known of all of them, MessagePack.
    """

    first: int
    place: str
    summary: bytes


class RouteRow(NamedTuple):
    """A route; `gateway` is 'local' or a neighbour's name. `declined`: 1 = held for the digest, never used;
    `FORMER` = no route any more, but that node was below this neighbour until `reads` (seconds of running
    time; 0 = an older version has not kept it).
    """

    kind: str
    name: str
    gateway: str
    live: int
    origin: str
    cause: str
    reads: int
    declined: int


class LinkRow(NamedTuple):
    """Where we stand with a neighbour. `relation`: 'parent' or 'child'. `detail`: MessagePack map."""

    name: str
    relation: str
    store_id: bytes
    start: int
    epoch: int
    received: int
    assigned: int
    deleted: int
    session: int
    met: int
    detail: bytes


class QueueRow(NamedTuple):
    """A persistent queue. `home`: stays on this node. `maker`: the account or certificate that made it, as
    the names of all its sessions begin; '' = nobody's, or it was made by an older version.
    """

    name: str
    home: int
    maker: str = ""


class SubscriptionRow(NamedTuple):
    """A durable subscription of a session to a topic pattern. `seen`: tick of its last reader."""

    id: str
    session: str
    pattern: str
    seen: int


class ProducerRow(NamedTuple):
    """Highest number of a streaming producer that is committed here."""

    producer: str
    number: int
    seen: int


class RejectedRow(NamedTuple):
    """Sends of a streaming producer that were not taken, which it may not have heard yet."""

    producer: str
    first: int
    last: int
    code: str
    text: str


class RetainedRow(NamedTuple):
    """The latest retained message of a topic, as a bundle in which nothing else is open."""

    topic: str
    header: bytes
    body: bytes


class SeenRow(NamedTuple):
    """A bundle of which messages were dealt with here, by its `Header.identity`; known for `dedup_window`.

    `part`: bit i (little endian) set = message i was; empty = all.
    """

    bundle: bytes
    at: int
    part: bytes = b""


class ClientRow(NamedTuple):
    """What is kept of a client's session that outlives its connections: see `kept_sessions`. `name`: '' = the
    session itself.
    """

    session: str
    name: str
    value: bytes


class InvitationRow(NamedTuple):
    """An invitation to join this node. `stored`: what is kept of its secret. `ends`: seconds since 1970;
    `until`: tick; whichever comes first. `key`: public key of the node that used it, empty = nobody yet.
    """

    id: bytes
    name: str
    role: str
    stored: bytes
    ends: int
    until: int
    key: bytes


class MemberRow(NamedTuple):
    """A child that has a certificate of ours. `key`: its public key; `former`: the one before, while it may
    not have the answer yet. `ends`: of its latest certificate, seconds since 1970. `revoked`: odd = it is;
    counts revocations and what came after each, so that of two accounts the newer can be told.
    """

    name: str
    role: str
    key: bytes
    former: bytes
    ends: int
    revoked: int


class MetaRow(NamedTuple):
    """Single values: 'ticks', 'transfer' (first id not reserved), and what the store itself keeps."""

    name: str
    value: bytes


Row = (
    BundleRow
    | CopyRow
    | PageRow
    | RouteRow
    | LinkRow
    | QueueRow
    | SubscriptionRow
    | ProducerRow
    | RejectedRow
    | RetainedRow
    | SeenRow
    | ClientRow
    | InvitationRow
    | MemberRow
    | MetaRow
)

KEYS: Final[dict[type[Any], int]] = {
    BundleRow: 1,
    CopyRow: 1,
    PageRow: 1,
    RouteRow: 3,
    LinkRow: 1,
    QueueRow: 1,
    SubscriptionRow: 1,
    ProducerRow: 1,
    RejectedRow: 2,
    RetainedRow: 1,
    SeenRow: 1,
    ClientRow: 2,
    InvitationRow: 1,
    MemberRow: 1,
    MetaRow: 1,
}


class Transaction(msgspec.Struct):
    """Changes by table and key: the new row, or None where the row goes."""

    changes: defaultdict[type[Any], dict[Any, Any]] = msgspec.field(
        default_factory=partial(defaultdict, dict)
    )

    def __repr__(self) -> str:
        counts = (f"{table.__name__}={len(rows)}" for table, rows in self.changes.items() if rows)
        return f"<Transaction {' '.join(counts) or 'empty'}>"

    def __bool__(self) -> bool:
        return any(self.changes.values())

    def put(self, row: Any) -> None:
        keys = KEYS[type(row)]
        self.changes[type(row)][row[0] if keys == 1 else row[:keys]] = row

    def delete(self, table: type[Any], key: Any) -> None:
        """`key`: the key's value, or a tuple of them where a table has several key fields."""
        self.changes[table][key] = None

    def tables(self) -> Iterator[tuple[type[Any], list[Any], list[Any]]]:
        """For each table that changes: (table, rows to write, keys to delete)."""
        for table in filter(self.changes.get, KEYS):
            changes = self.changes[table]
            rows = list(filter(None, changes.values()))
            some_go = len(rows) < len(changes)
            yield table, rows, [key for key, row in changes.items() if row is None] if some_go else []
