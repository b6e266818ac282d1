"""The routing table: for each destination, through which gateways it is reached.

A gateway is `LOCAL` (a consumer on this node) or the name of a neighbour. The table is the single source
of truth: links put in what their neighbours say, `interests` what local consumers want, and `advisories`
watches it and tells the neighbours.

Law: there is one route for each key and gateway. Links and interests use `put`, `set_live` and `drop`,
which may be repeated; operators use `add` and `remove`, which raise where that would be a mistake.

Kinds: queue, topic, domain, and the default gateways (parents). What an operator sets (exact, alias,
further defaults, dumpster) is in `static`, and costs nothing where there is none of it.

Wrinkle: most keys have one gateway, so a key's value is that one `Route`; only where there are several is
it a dictionary. Patterns with wildcards are put into a trie at the first topic that is looked up, not
before, since most nodes of a simulation never look one up.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Final, NamedTuple

from sapwood.protocol.destinations import Destination, Kind, domain
from sapwood.protocol.errors import RouteError
from sapwood.protocol.names import LOCAL
from treeconnector.patterns import has_wildcard
from treeconnector.relations import Relation
from treeconnector.static_routes import StaticRoute, StaticRoutes
from treeconnector.trie import PatternTrie

__all__ = ["LOCAL", "Matched", "Route", "RoutingTable", "Watcher"]

CACHED_TOPICS: Final = 4096
CACHED_KEYS: Final = 65_536
"""Keys that these match, of all of them: each may match all that there are."""


class Route(NamedTuple):
    """One row. `origin`: node of the consumer; `cause`: id of the consumer event that set it off.

    `live`: messages can flow now; a dormant one waits for its link. `reads`: for domain routes, the
    highest bundle version that everything behind the route reads.
    """

    key: Destination
    gateway: str
    live: bool = True
    origin: str = ""
    cause: str = ""
    reads: int = 0


class Matched(NamedTuple):
    """Where a topic goes. `gateways`: each once, live or not. `keys`: of the routes there. `local`: the
    patterns of local consumers.

    `LOCAL` is one of the gateways where `local` is not empty.
    """

    gateways: frozenset[str]
    keys: tuple[Destination, ...]
    local: tuple[str, ...]


Watcher = Callable[[Destination, str, str], None]


class _Several:
    """The routes of a key that has more than one gateway. `live`: how many of them are."""

    __slots__ = ("live", "routes")

    def __init__(self, routes: dict[str, Route]) -> None:
        self.routes = routes
        self.live = sum(route.live for route in routes.values())

    def __repr__(self) -> str:
        return f"<_Several {self.routes} live={self.live}>"


_NO_ROUTES: Final[Mapping[str, Route]] = {}
_NO_KEYS: Final[Mapping[Destination, Route]] = {}


class RoutingTable:
    """All routes of one node. `cached_topics`: how many topics at least are remembered with their matches, as
    long as these are few.

    `parents`: the gateways for what no route names; `mesh`: other nodes of the same mesh; by name. `apart`:
    both; what goes through any other gateway but `LOCAL` is below this node. `lines`: in a node of a mesh,
    the neighbours whose link is up. `version`: another one after each change of a route or relation.
    """

    __slots__ = (
        *("_cached_topics", "_counts", "_earlier", "_gateways", "_keys", "_recent", "_recent_keys"),
        *("_watchers", "_wildcards", "apart", "lines", "mesh", "parents", "static", "version"),
    )

    def __init__(self, cached_topics: int = CACHED_TOPICS) -> None:
        self._keys: dict[Destination, Route | _Several] = {}
        self._gateways: dict[str, dict[Destination, Route]] = {}
        self._counts: dict[tuple[Kind, str], int] = {}
        self.parents: tuple[str, ...] = ()
        self.mesh: tuple[str, ...] = ()
        self.apart: tuple[str, ...] = ()
        self.lines: dict[str, None] = {}
        self.static = StaticRoutes()
        self.version = 0
        self._watchers: list[Watcher] = []
        self._wildcards: PatternTrie[Destination] | None = None
        self._cached_topics = max(1, cached_topics)
        self._recent: dict[str, Matched] = {}
        self._earlier: dict[str, Matched] = {}
        self._recent_keys = 0

    def __repr__(self) -> str:
        return (
            f"<RoutingTable keys={len(self._keys)} routes={len(self)} gateways={len(self._gateways)}"
            f" parents={' '.join(self.parents) or 'none'}>"
        )

    def __len__(self) -> int:
        """Number of routes."""
        return sum(len(routes) for routes in self._gateways.values())

    def __iter__(self) -> Iterator[Destination]:
        """Every key that has a route, each once."""
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def routes(self) -> Iterator[Route]:
        """Every route."""
        return chain.from_iterable(routes.values() for routes in self._gateways.values())

    # Looking up

    def relate(self, gateway: str, relation: Relation) -> None:
        """Say what a gateway is to this node; a child unless said. Raises `RouteError` while it has routes.

        What came from above is advised down, all else up: so a name cannot change sides silently.
        """
        parents = {*self.parents} - {gateway} | ({gateway} if relation is Relation.PARENT else set())
        mesh = {*self.mesh} - {gateway} | ({gateway} if relation is Relation.MESH else set())
        if parents == {*self.parents} and mesh == {*self.mesh}:
            return
        if self._gateways.get(gateway):
            raise RouteError(
                f"{gateway!r} cannot become a {relation} while the table has {len(self._gateways[gateway])}"
                " routes of it: remove them first (remove_gateway)"
            )
        self.parents, self.mesh = tuple(sorted(parents)), tuple(sorted(mesh))
        self.apart = self.parents + self.mesh
        self.version += 1
        if gateway not in self.apart:
            self.lines.pop(gateway, None)
            self._tell(Destination(Kind.DOMAIN, gateway), "line", gateway)

    def set_line(self, gateway: str, up: bool) -> None:
        """The link to a neighbour came or went; in a node of a mesh the others hear of it."""
        if up != (gateway in self.lines):
            if up:
                self.lines[gateway] = None
            else:
                del self.lines[gateway]
            self._tell(Destination(Kind.DOMAIN, gateway), "line", gateway)

    def gateways(self, key: Destination) -> Mapping[str, Route]:
        """The routes of a key by gateway, without a copy where there are several; read it at once."""
        found = self._keys.get(key)
        if found is None:
            return _NO_ROUTES
        return {found.gateway: found} if isinstance(found, Route) else found.routes

    def route(self, key: Destination, gateway: str) -> Route | None:
        routes = self._gateways.get(gateway)
        return routes.get(key) if routes else None

    def spread(self, key: Destination) -> tuple[int, int]:
        """How many routes a key has, and how many of them are live. Takes the same time for any number."""
        found = self._keys.get(key)
        if found is None:
            return 0, 0
        return (1, int(found.live)) if isinstance(found, Route) else (len(found.routes), found.live)

    def routes_of(self, gateway: str) -> Mapping[Destination, Route]:
        """The routes through a gateway by key: a live view, to be copied before the table is changed."""
        return self._gateways.get(gateway, _NO_KEYS)

    def same_key(self, key: Destination) -> Destination:
        """`key`, as the object that the table has already if it has: thousands of routes then share it."""
        found = self._keys.get(key)
        if found is None:
            return key
        return found.key if isinstance(found, Route) else next(iter(found.routes.values())).key

    def counts(self) -> Mapping[tuple[Kind, str], int]:
        """Number of routes by kind and gateway: a live view."""
        return self._counts

    # Matching topics

    def match(self, topic: str) -> Matched:
        """Where a canonical topic name goes. One dictionary look-up where it was asked for lately."""
        found = self._recent.get(topic)
        return self._look_up(topic) if found is None else found

    def _look_up(self, topic: str) -> Matched:
        found = self._earlier.get(topic)
        if found is None:
            found = self._match(topic)
        self._recent_keys += len(found.keys)
        if len(self._recent) >= self._cached_topics or self._recent_keys > CACHED_KEYS:
            self._earlier, self._recent, self._recent_keys = self._recent, {}, len(found.keys)
        self._recent[topic] = found
        return found

    def matching(self, topic: str) -> set[Destination]:
        """The keys whose pattern a canonical topic name matches."""
        exact = Destination(Kind.TOPIC, topic)
        keys = self._trie().match(topic)
        if exact in self._keys:
            keys.add(exact)
        return keys

    def _match(self, topic: str) -> Matched:
        keys = self.matching(topic)
        gateways: set[str] = set()
        for key in keys:
            gateways.update(self.gateways(key))
        local = self.routes_of(LOCAL)
        here = sorted(key.name for key in keys if key in local)
        return Matched(frozenset(gateways), tuple(keys), tuple(here))

    def _trie(self) -> PatternTrie[Destination]:
        if self._wildcards is None:
            self._wildcards = PatternTrie()
            for key in self._keys:
                if key.kind == Kind.TOPIC and has_wildcard(key.name):
                    self._wildcards.add(key.name, key)
        return self._wildcards

    def below(self, node: str) -> set[str]:
        """The children that lead to a node."""
        return set(self.gateways(domain(node))).difference((LOCAL, *self.apart))

    # Changing

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher(key, cause, origin)` after each change of a route. It must not change the table."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)

    def add(self, route: Route) -> bool:
        """Put in a route; return whether it is new, else it was changed. Else raises `RouteError`."""
        new = self.route(route.key, route.gateway) is None
        if not self.put(route):
            raise RouteError(
                f"the route {route.key} through {route.gateway!r} is there already: expected a new one"
            )
        return new

    def remove(self, key: Destination, gateway: str) -> Route:
        """Take out a route and return it. Raises `RouteError` if it is not there."""
        route = self.drop(key, gateway)
        if route is None:
            known = ", ".join(sorted(self.gateways(key))) or "no gateway"
            raise RouteError(f"there is no route {key} through {gateway!r}: that key goes through {known}")
        return route

    def put(self, route: Route) -> bool:
        """Put in a route, or replace the one of its key and gateway; return whether that changed anything."""
        key, gateway = route.key, route.gateway
        routes = self._gateways.get(gateway)
        if routes is None:
            routes = self._gateways[gateway] = {}
        before = routes.get(key)
        if before == route:
            return False
        routes[key] = route
        self._index(route, before)
        if before is None:
            self._count(route, 1)
            if key.kind == Kind.TOPIC:
                self._topic_changed(key)
        self._tell(key, route.cause, route.origin)
        return True

    def set_live(self, key: Destination, gateway: str, live: bool, cause: str = "") -> bool:
        """Make a route live or dormant; return whether it was not. `cause`: of the change, not of the route.

        Raises `RouteError` if the route is not there.
        """
        before = self.route(key, gateway)
        if before is None:
            raise RouteError(
                f"there is no route {key} through {gateway!r}: expected one to make live or dormant"
            )
        if before.live == live:
            return False
        route = before._replace(live=live)
        self._gateways[gateway][key] = route
        self._index(route, before)
        self._tell(key, cause or route.cause, route.origin)
        return True

    def drop(self, key: Destination, gateway: str, cause: str = "", origin: str = "") -> Route | None:
        """Take out a route if it is there, and return it. `cause`, `origin`: of the event that ends it."""
        routes = self._gateways.get(gateway)
        route = routes.pop(key, None) if routes else None
        if routes is None or route is None:
            return None
        if not routes:
            del self._gateways[gateway]
        self._unindex(route)
        self._count(route, -1)
        if key.kind == Kind.TOPIC:
            self._topic_changed(key)
        self._tell(key, cause or route.cause, origin or route.origin)
        return route

    def remove_gateway(self, gateway: str, cause: str = "") -> list[Route | StaticRoute]:
        """Take out all routes through a gateway, and return them."""
        gone = list(self.routes_of(gateway).values())
        for route in gone:
            self.drop(route.key, gateway, cause)
        return [*gone, *self.static.remove_gateway(gateway)]

    def _tell(self, key: Destination, cause: str, origin: str) -> None:
        self.version += 1
        for watcher in self._watchers:
            watcher(key, cause, origin)

    def _count(self, route: Route, more: int) -> None:
        place = route.key.kind, route.gateway
        count = self._counts.get(place, 0) + more
        if count:
            self._counts[place] = count
        else:
            del self._counts[place]

    def _index(self, route: Route, before: Route | None) -> None:
        found = self._keys.get(route.key)
        if isinstance(found, _Several):
            found.routes[route.gateway] = route
            found.live += route.live - (before.live if before else 0)
        elif found is None or found.gateway == route.gateway:
            self._keys[route.key] = route
        else:
            self._keys[route.key] = _Several({found.gateway: found, route.gateway: route})

    def _unindex(self, route: Route) -> None:
        found = self._keys[route.key]
        if isinstance(found, Route):
            del self._keys[route.key]
            return
        del found.routes[route.gateway]
        found.live -= route.live
        if len(found.routes) == 1:
            (self._keys[route.key],) = found.routes.values()

    def _topic_changed(self, key: Destination) -> None:
        """A route to a topic came or went: forget what topics matched, and keep the trie in step."""
        self._recent.clear()
        self._earlier.clear()
        self._recent_keys = 0
        if self._wildcards is None or not has_wildcard(key.name):
            return
        if key in self._keys:
            self._wildcards.add(key.name, key)
        else:
            self._wildcards.remove(key.name, key)
