"""Which routes messages used: counted at a node as they come, by route and not by message's topic.

Law: a message uses the routes that stand when it comes, and the one that comes while it waits here. What was
counted for a route stays when the route goes.

Law: counting costs a bundle one look into a dictionary. What a topic matches is asked once for all its
messages: when the counts are asked for, or before the routes are others.
"""

from typing import TYPE_CHECKING, Final

import msgspec

from broker.core.places import place_name
from treeconnector.destinations import Destination, Kind
from treeconnector.patterns import matches

if TYPE_CHECKING:
    from broker.core.custody import Custody, Stored
    from treeconnector.routes import RoutingTable

_MOST_SEEN: Final = 10_000
_MOST_USED: Final = 100_000
"""Routes with a count. What uses further ones is counted all together."""


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of what is written. Without `kind` it is a file's first: counted from `since` to `until`.

    `more`: how many routes at most were used that have no line, because there are too many.
    """

    node: str
    kind: str | None = None
    destination: str | None = None
    messages: int = 0
    since: str | None = None
    until: str | None = None
    more: int = 0


class RouteUsage:
    """Messages by route, of one node. `saw` is a tap of its arrivals.

    `used`: what is counted, up to date once `settle` was asked. `more`: how many routes at most were used
    beyond those. Whoever has both from before sets them, and counting goes on.
    """

    __slots__ = ("_custody", "_seen", "_standing", "_table", "more", "used")

    def __init__(self, table: "RoutingTable", custody: "Custody") -> None:
        self.used: dict[Destination, int] = {}
        self.more = 0
        self._table, self._custody = table, custody
        self._standing = set(table)
        self._seen: dict[Destination, int] = {}
        table.watch(self._route_changed)

    def __repr__(self) -> str:
        return f"<RouteUsage seen={len(self._seen)} used={len(self.used)}>"

    def saw(self, stored: "Stored") -> None:
        """A bundle came, from an application or a neighbour."""
        header = stored.header
        self._seen[header.destination] = self._seen.get(header.destination, 0) + header.count
        if len(self._seen) >= _MOST_SEEN:
            self.settle()

    def settle(self, changed: Destination | None = None) -> dict[Destination, int]:
        """Match what was seen with the routes that stand, or stood until one `changed`; return `used`."""
        seen, self._seen = self._seen, {}
        for destination, count in seen.items():
            for key in self._routes(destination, changed):
                self._count(key, count)
        return self.used

    def _routes(self, destination: Destination, changed: Destination | None) -> set[Destination]:
        if destination.kind != Kind.TOPIC:
            return {destination.route_key} & self._standing
        keys = self._table.matching(destination.name)
        if changed and changed.kind == Kind.TOPIC and matches(changed.name, destination.name):
            keys.add(changed)
        return keys & self._standing

    def _route_changed(self, key: Destination, cause: str, origin: str) -> None:
        stands = key in self._table
        if stands == (key in self._standing):
            return
        self.settle(key)
        if not stands:
            self._standing.remove(key)
            return
        self._standing.add(key)
        waiting = self._waiting(key)
        if waiting:
            self._count(key, waiting)

    def _waiting(self, key: Destination) -> int:
        """Messages that are here for a queue, or for a node's cells."""
        if key.kind == Kind.DOMAIN:
            return sum(place.messages for place in self._custody.directed.get(key.name, {}).values())
        place = self._custody.places.get(place_name(key)) if key.kind == Kind.QUEUE else None
        return place.messages if place is not None else 0

    def _count(self, key: Destination, messages: int) -> None:
        if key in self.used or len(self.used) < _MOST_USED:
            self.used[key] = self.used.get(key, 0) + messages
        else:
            self.more += 1
