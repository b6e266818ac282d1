"""What was given to children: that a child may give back, and nothing else in its place.

A queue's bundle that comes back has a foreign origin, and a thief would call everything given back. So the
bundle's id and a digest of its origin and body are remembered, the latest of all children together: in memory
as long as the copy itself is on disk, and on disk from the transaction on in which that is deleted.

Law: each may be given back once. In a mesh a child gives back over any node, so its nodes tell each other
what they gave, and what has come back; they are asked for nothing.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import msgspec

from broker.core.copies import Copy
from broker.core.neighbours import Neighbour
from broker.core.rows import MetaRow
from treeconnector.bundles import Header
from treeconnector.destinations import Kind
from treeconnector.frames import MAX_GIVEN_IN_FRAME

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_MOST: Final = 100_000
_DIGEST: Final = 16
_BACK: Final = b""
_ROW: Final = "given "


class Given:
    """Of one node, and of the others of its mesh."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self._digests: dict[bytes, bytes] = {}
        self._news: list[tuple[bytes, bytes]] = []
        self._rows: dict[int, int] = {}
        self._number = self._written = 0
        self._taken: dict[bytes, None] = {}

    def __repr__(self) -> str:
        return f"<Given by {self._core.identity.name}: {len(self._digests)} bundles>"

    def add(self, neighbour: Neighbour, header: Header, body: bytes) -> None:
        """A queue's bundle goes to a child, which may give it back."""
        if header.destination.kind == Kind.QUEUE:
            digest = _digest(neighbour, header, body)
            self._keep(header.id, digest)
            self._note(header.id, digest)

    def take(self, neighbour: Neighbour, header: Header, body: bytes) -> bool:
        """Was this child given it? It may give it back once."""
        if self._digests.get(header.id) != _digest(neighbour, header, body):
            return False
        del self._digests[header.id]
        self._note(header.id, _BACK)
        self._write([(header.id, _BACK)])
        self._taken[header.id] = None
        if len(self._taken) > _MOST:
            del self._taken[next(iter(self._taken))]
        return True

    def arrived(self, neighbour: Neighbour, copies: list[Copy]) -> None:
        """A child has these, so their copies go from the disk: they may come back after a restart, too."""
        entries: list[tuple[bytes, bytes]] = []
        for copy in copies:
            header = copy.stored.header
            if header.destination.kind != Kind.QUEUE:
                continue
            if header.id not in self._digests and header.id not in self._taken:
                self.add(neighbour, header, self._core.custody.body(copy))  # it was sent before this start
            if header.id in self._digests:
                entries.append((header.id, self._digests[header.id]))
        if entries:
            self._write(entries)

    def restore(self, rows: Iterable[MetaRow]) -> None:
        """At a start: what was on disk, in the order in which it was written."""
        numbered = {int(row.name[len(_ROW) :]): row.value for row in rows if row.name.startswith(_ROW)}
        for number in sorted(numbered):
            entries = msgspec.msgpack.decode(numbered[number], type=list[tuple[bytes, bytes]])
            self.heard(entries)
            self._rows[number], self._number = len(entries), number
            self._written += len(entries)

    def _write(self, entries: list[tuple[bytes, bytes]]) -> None:
        transaction = self._core.custody.transaction
        self._number += 1
        self._rows[self._number] = len(entries)
        self._written += len(entries)
        transaction.put(MetaRow(f"{_ROW}{self._number}", msgspec.msgpack.encode(entries)))
        while self._written > _MOST:
            oldest = next(iter(self._rows))
            self._written -= self._rows.pop(oldest)
            transaction.delete(MetaRow, f"{_ROW}{oldest}")

    def heard(self, entries: list[tuple[bytes, bytes]]) -> None:
        """Another node of the mesh has given these, or had them given back."""
        for bundle, digest in entries:
            if digest == _BACK:
                self._digests.pop(bundle, None)
            else:
                self._keep(bundle, digest)

    def tell(self) -> None:
        """The others of the mesh hear what is new."""
        news, self._news = self._news, []
        for start in range(0, len(news), MAX_GIVEN_IN_FRAME):
            for peer in self._core.mesh.peers():
                if peer.link is not None:
                    peer.link.send_given(news[start : start + MAX_GIVEN_IN_FRAME])

    def _keep(self, bundle: bytes, digest: bytes) -> None:
        self._digests.pop(bundle, None)
        self._digests[bundle] = digest
        if len(self._digests) > _MOST:
            del self._digests[next(iter(self._digests))]

    def _note(self, bundle: bytes, digest: bytes) -> None:
        if self._core.table.mesh:
            self._news.append((bundle, digest))


def _digest(neighbour: Neighbour, header: Header, body: bytes) -> bytes:
    about = f"{neighbour.name} {header.origin} {header.destination}".encode()
    return blake2b(body, digest_size=_DIGEST, key=blake2b(about, digest_size=32).digest()).digest()
