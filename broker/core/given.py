"""What was given to children with permits: that a child may give back, and nothing else in its place.

A queue's bundle that comes back has a foreign origin, and a thief would call everything given back. So the
bundle's id and a digest of its body are remembered, in memory, the latest of all children together.

Law: each may be given back once. In a mesh a child gives back over any node, so its nodes tell each other
what they gave, and what has come back; they are asked for nothing.
"""

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from broker.core.neighbours import Neighbour
from treeconnector.bundles import Header
from treeconnector.destinations import Destination, Kind
from treeconnector.frames import MAX_GIVEN_IN_FRAME

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_MOST: Final = 100_000
_DIGEST: Final = 16
_BACK: Final = b""


class Given:
    """Of one node, and of the others of its mesh."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self._digests: dict[bytes, bytes] = {}
        self._news: list[tuple[bytes, bytes]] = []

    def __repr__(self) -> str:
        return f"<Given by {self._core.identity.name}: {len(self._digests)} bundles>"

    def add(self, neighbour: Neighbour, header: Header, body: bytes) -> None:
        """A queue's bundle goes to a child, which may give it back."""
        if neighbour.permit and header.destination.kind == Kind.QUEUE:
            digest = _digest(neighbour, header.destination, body)
            self._keep(header.id, digest)
            self._note(header.id, digest)

    def take(self, neighbour: Neighbour, header: Header, body: bytes) -> bool:
        """Was this child given it? It may give it back once."""
        if self._digests.get(header.id) != _digest(neighbour, header.destination, body):
            return False
        del self._digests[header.id]
        self._note(header.id, _BACK)
        return True

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


def _digest(neighbour: Neighbour, destination: Destination, body: bytes) -> bytes:
    about = f"{neighbour.name} {destination}".encode()
    return blake2b(body, digest_size=_DIGEST, key=blake2b(about, digest_size=32).digest()).digest()
