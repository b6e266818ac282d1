"""The advisory rules: who is told of which consumer.

`Advertiser` is the telling end of a link: it watches the routing table and says what its audience is to
know. `Held` is the listening end: it puts into the table what one neighbour says. `digest_of` and the
tallies let both compare, when a link starts, whether they agree.

Together with `RoutingTable` and `Interests` they give the law of the tree: a leaf's consumer costs exactly
as many advisories as its depth, a branch's its depth and its descendants, the root's all other nodes, a
second consumer of the same on the same node none, and the last one's going as many as the first one's coming.
"""

from collections.abc import Iterable

from sapwood.protocol.destinations import Destination
from treeconnector.advertiser import (
    AT_ONCE,
    GIVEN_BACK,
    LINGER,
    MOVED,
    RESYNC,
    Advertiser,
    Audience,
    Beside,
    Down,
    Up,
)
from treeconnector.frames import Advice
from treeconnector.held import Applied, Held, Kept, Limits, StoredRoute
from treeconnector.offers import OfferStanding, Tally, digest_of, standing

__all__ = [
    "AT_ONCE",
    "GIVEN_BACK",
    "LINGER",
    "MOVED",
    "RESYNC",
    "Advertiser",
    "Applied",
    "Audience",
    "Backlog",
    "Beside",
    "Down",
    "Held",
    "Kept",
    "Limits",
    "OfferStanding",
    "StoredRoute",
    "Tally",
    "Up",
    "digest_of",
    "standing",
]


class Backlog:
    """Increments that a link may not say yet, because its snapshot is under way: the last word on each key.

    A *remove* of what the snapshot never named is said all the same; the listening end ignores it.
    """

    __slots__ = ("_advices",)

    def __init__(self) -> None:
        self._advices: dict[Destination, Advice] = {}

    def __repr__(self) -> str:
        return f"<Backlog advices={len(self._advices)}>"

    def __len__(self) -> int:
        return len(self._advices)

    def add(self, advices: Iterable[Advice]) -> None:
        for advice in advices:
            self._advices[advice.key] = advice

    def drain(self) -> list[Advice]:
        """All of them, once."""
        advices, self._advices = list(self._advices.values()), {}
        return advices
