"""What consumers on this node want: the law behind the `LOCAL` routes.

Law: the first consumer of a key puts its `LOCAL` route into the table, the last one takes it out.

After a start, nobody has come back yet. The keys that were on disk are *recovering*: their routes stand,
so that a restart never sweeps the tree, until a consumer of that key comes, or `reattach_time` is over
(`expire`).

Adding a consumer that is there, or removing one that is not, changes nothing: site brokers report some
events twice. Every method says which keys changed, so that the caller can keep them on disk.
"""

from collections.abc import Iterable

from sapwood.protocol.destinations import Destination
from sapwood.protocol.names import LOCAL
from treeconnector.routes import Route, RoutingTable

REATTACH_TIME = 60.0
RECOVERING = "recovering"
NOT_REATTACHED = "not-reattached"


class Interests:
    """Local consumers by key. `node`: this node's name. `reattach_time`: seconds of running time.

    `changed_at`: when a consumer last came or went.
    """

    __slots__ = ("_consumers", "_node", "_reattach_time", "_recovering", "_table", "changed_at")

    def __init__(self, table: RoutingTable, node: str, reattach_time: float = REATTACH_TIME) -> None:
        self._table = table
        self._node = node
        self._reattach_time = reattach_time
        self.changed_at = 0.0
        self._consumers: dict[Destination, str | set[str]] = {}
        self._recovering: dict[Destination, float] = {}

    def __repr__(self) -> str:
        return f"<Interests of {self._node} keys={len(self._consumers)} recovering={len(self._recovering)}>"

    def __contains__(self, key: object) -> bool:
        """Whether a key is wanted here, by a consumer or because it is recovering."""
        return key in self._consumers or key in self._recovering

    def consumers(self, key: Destination) -> int:
        """How many consumers a key has here; none while it is only recovering."""
        found = self._consumers.get(key, ())
        return 1 if isinstance(found, str) else len(found)

    def is_recovering(self, key: Destination) -> bool:
        return key in self._recovering

    def add(self, key: Destination, consumer_id: str, cause: str, now: float) -> Route | None:
        """A consumer came. Returns the route to keep if there was none. `cause`: id of this event.

        Caller's duty: `key` is canonical and within the limits; `consumer_id` is unique for that key.
        """
        self.changed_at = now
        found = self._consumers.get(key)
        if found is None:
            self._consumers[key] = consumer_id
        elif isinstance(found, set):
            found.add(consumer_id)
        elif found != consumer_id:
            self._consumers[key] = {found, consumer_id}
        if self._recovering.pop(key, None) is not None or found is not None:
            return None
        route = Route(key, LOCAL, True, self._node, cause)
        self._table.put(route)
        return route

    def remove(self, key: Destination, consumer_id: str, cause: str, now: float) -> bool:
        """A consumer went. Returns whether it was the last, so that the key's route has gone."""
        self.changed_at = now
        found = self._consumers.get(key)
        if isinstance(found, set):
            found.discard(consumer_id)
            if len(found) == 1:
                self._consumers[key] = found.pop()
            return False
        if found is None or found != consumer_id:
            return False
        del self._consumers[key]
        return self._end(key, cause)

    def recover(self, keys: Iterable[Destination], now: float) -> None:
        """At a start: put back what was wanted before."""
        for key in keys:
            if key not in self:
                self._recovering[key] = now + self._reattach_time
                self._table.put(Route(key, LOCAL, True, self._node, RECOVERING))

    def expire(self, now: float) -> list[Destination]:
        """Give up the keys whose `reattach_time` is over. Returns those that have gone."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return []
        over = [key for key, until in self._recovering.items() if until <= now]
        for key in over:
            del self._recovering[key]
            self._end(key, NOT_REATTACHED)
        return over

    def next_deadline(self) -> float | None:
        """When `expire` has something to do. The first key recovered is the first to expire."""
        return next(iter(self._recovering.values()), None)

    def _end(self, key: Destination, cause: str) -> bool:
        return self._table.drop(key, LOCAL, cause, self._node) is not None
