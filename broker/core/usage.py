"""Which routes messages used: counted at a node as they come, by route and not by message's topic.

Law: counting costs a bundle one look into a dictionary. What a topic matches is asked once for all its
messages, when the counts are taken; so a route that came in between counts as used by what came before it.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from treeconnector.destinations import Destination, Kind

if TYPE_CHECKING:
    from broker.core.custody import Stored
    from treeconnector.routes import RoutingTable

_MOST_SEEN: Final = 10_000


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of what is written. Without `kind` it is a file's first: counted from `since` to `until`."""

    node: str
    kind: str | None = None
    destination: str | None = None
    messages: int = 0
    since: str | None = None
    until: str | None = None


class RouteUsage:
    """Messages by route, of one node. `saw` is a tap of its arrivals."""

    __slots__ = ("_seen", "_table", "_used")

    def __init__(self, table: "RoutingTable") -> None:
        self._table = table
        self._seen: dict[Destination, int] = {}
        self._used: dict[Destination, int] = {}

    def __repr__(self) -> str:
        return f"<RouteUsage seen={len(self._seen)} used={len(self._used)}>"

    def saw(self, stored: "Stored") -> None:
        """A bundle came, from an application or a neighbour."""
        header = stored.header
        self._seen[header.destination] = self._seen.get(header.destination, 0) + header.count
        if len(self._seen) >= _MOST_SEEN:
            self._match()

    def take(self) -> dict[Destination, int]:
        """Messages by route since this was asked last."""
        self._match()
        used, self._used = self._used, {}
        return used

    def _match(self) -> None:
        seen, self._seen = self._seen, {}
        for destination, count in seen.items():
            for key in self._routes(destination):
                self._used[key] = self._used.get(key, 0) + count

    def _routes(self, destination: Destination) -> set[Destination]:
        if destination.kind == Kind.TOPIC:
            return self._table.matching(destination.name)
        key = destination.route_key
        return {key} if self._table.spread(key)[0] else set()
