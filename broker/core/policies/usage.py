"""Which routes messages used: counted at a node where they leave it, by route and not by message's topic.

Law: a message uses a route when it is chosen to go over it, or is given to a consumer of it; once for each
neighbour and consumer, and again if it has to go again. The count of a route stays when the route goes.
"""

from typing import Final

from broker.core.policy import Policy
from sapwood.protocol import destinations
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.names import LOCAL
from treeconnector.routes import RoutingTable

_MOST_USED: Final = 100_000
"""Routes with a count."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Of their names."""


class RouteUsage(Policy):
    """Messages by route, of one node. A policy, added to the core's.

    `used`: messages by route. `whole`: whether every route that was used has a count. Whoever has both from
    before sets them, and counting goes on.
    """

    __slots__ = ("_size", "_table", "_used", "whole")

    def __init__(self, table: "RoutingTable") -> None:
        self._used: dict[Destination, int] = {}
        self._size = 0
        self.whole = True
        self._table = table

    def __repr__(self) -> str:
        return f"<RouteUsage used={len(self.used)}{'' if self.whole else ' and more'}>"

    @property
    def used(self) -> dict[Destination, int]:
        return self._used

    @used.setter
    def used(self, used: dict[Destination, int]) -> None:
        self._used, self._size = used, sum(len(key.name.encode()) for key in used)

    def routed(self, destination: Destination, gateway: str, messages: int, pattern: str = "") -> None:
        """So many messages go through a gateway. What goes up by default uses no route.

        A consumer of one pattern uses its route alone: of a topic that thousands match, each has a message.
        """
        keys = (destinations.topic(pattern),) if pattern else self._keys(destination, gateway)
        for key in keys:
            if self._table.route(key, gateway) is not None:
                self._count(key, messages)

    def _keys(self, destination: Destination, gateway: str) -> tuple[Destination, ...]:
        if destination.kind == Kind.TOPIC and not destination.node:
            return self._table.match(destination.name).keys
        return (destinations.queue(destination.name) if gateway == LOCAL else destination.route_key,)

    def _count(self, key: Destination, messages: int) -> None:
        used = self._used
        if key in used:
            used[key] += messages
            return
        size = self._size + len(key.name.encode())
        if len(used) < _MOST_USED and size <= MOST_BYTES:
            used[key] = messages
            self._size = size
        else:
            self.whole = False
