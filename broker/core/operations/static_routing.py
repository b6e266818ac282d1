"""Static routes of a node: set and removed at run time, kept on disk, gone with the neighbour they lead to.

Law: they are one row on disk, which an older version leaves alone. Whenever one comes or goes, or the link
that it leads over does, what waits is looked at again.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from broker.core.context import Context
from broker.core.errors import BadRequest, NotFound, SwitchError
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue_names import is_internal
from broker.core.policy import Policy
from broker.core.routing.forwarding import Forwarder
from broker.core.rows import MetaRow, QueueRow
from sapwood.protocol import destinations
from sapwood.protocol.errors import InvalidName, RouteError
from treeconnector.relations import Relation
from treeconnector.static_routes import FORMS, StaticKind, StaticRoute, address_of, static_route

_ROW: Final = "static routes"


class StaticRouting(Policy):
    """Changes `table.static`. Calls raise `SwitchError`s."""

    __slots__ = ("_context", "_forwarder", "_lookup", "_routes")

    def __init__(self, context: Context, forwarder: Forwarder, lookup: Lookup) -> None:
        self._context = context
        self._forwarder = forwarder
        self._lookup = lookup
        self._routes = context.table.static

    def __repr__(self) -> str:
        return f"<StaticRouting of {self._context.name} {self._routes!r}>"

    def restore_routes(self, meta: Mapping[str, bytes]) -> None:
        """What was on disk, but for neighbours that are none any more."""
        kept = meta.get(_ROW)
        if not kept:
            return
        for words in msgspec.msgpack.decode(kept, type=list[tuple[str, str, str]]):
            route = static_route(*words)
            if not route.gateway or route.to in self._context.neighbours:
                self._routes.add(route, known=True)

    def add(self, kind: str, destination: str, to: str) -> StaticRoute:
        """Set a route; it is on disk with the next commit."""
        route = self.read(kind, destination, to)
        self.add_all((route,))
        return route

    def add_all(self, routes: Iterable[StaticRoute]) -> None:
        """Set routes that `read` has made. Waiting messages are looked at again once, for all of them."""
        for route in routes:
            try:
                self._routes.add(route)
            except RouteError as error:
                raise SwitchError(str(error)) from None
            if FORMS[route.kind].to == "queue":
                self._make_dumpster(route.to)
        self._changed()

    def read(self, kind: str, destination: str, to: str) -> StaticRoute:
        """A route from its words, if it could be one of this node; whether it can stand beside those that
        there are is another matter.
        """
        route = self._read(kind, destination, to)
        self._check(route)
        return route

    def remove(self, kind: str, destination: str, to: str) -> StaticRoute:
        """End a route."""
        route = self._read(kind, destination, to)
        try:
            self._routes.remove(route)
        except RouteError as error:
            raise NotFound(str(error)) from None
        self._changed()
        return route

    def neighbour_gone(self, neighbour: Neighbour, cause: str) -> None:
        """The routes that lead to it go, too."""
        if self._routes.remove_gateway(neighbour.name):
            self._changed()

    def link_changed(self, neighbour: Neighbour) -> None:
        """A link came or went: who has several ways prefers those that are up."""
        context = self._context
        routes, is_parent = self._routes, neighbour.relation is Relation.PARENT
        if (is_parent and (routes.defaults or routes.reserves)) or routes.uses(neighbour.name):
            self._look_again()
        elif self._lookup.zone and not is_parent:
            self._forwarder.routes_changed(context.table.routes_of(neighbour.name))

    def _read(self, kind: str, destination: str, to: str) -> StaticRoute:
        if kind in FORMS and FORMS[kind].to == "queue":
            to = to.removesuffix(f"@{self._context.name}")
        try:
            return static_route(kind, destination, to)
        except (InvalidName, RouteError) as error:
            raise BadRequest(str(error)) from None

    def _check(self, route: StaticRoute) -> None:
        context = self._context
        named = [route.destination] if route.destination is not None else []
        if not route.gateway:
            named.append(address_of(route.to))
        for each in named:
            if is_internal(each):
                raise SwitchError(f"{each} is the nodes' own: no route leads there or away from it")
            # A queue may be called so, but whoever writes a route with it means every cell, as in dCache.
            if each.name == "*":
                raise BadRequest(
                    f"{each} means every cell: expected the name of one. Routes to nodes follow links by"
                    " themselves; what no route names takes a default route"
                )
        if route.gateway and route.to not in context.neighbours:
            known = ", ".join(sorted(context.neighbours)) or "none"
            raise NotFound(f"{context.name} has no neighbour {route.to!r}: it has {known}")
        if route.gateway and named and named[0].node == context.name:
            raise SwitchError(f"{named[0]} is here: what is for this node never leaves it")
        if route.kind == StaticKind.DEFAULT and route.to in context.parents:
            raise SwitchError(f"the parent {route.to!r} is a default route already, by its link")

    def _make_dumpster(self, name: str) -> None:
        """A queue of this node, which stays here whoever reads one of that name elsewhere."""
        queue = self._context.custody.queue_for(destinations.queue(name))
        queue.created = queue.home = True
        self._context.custody.transaction.put(QueueRow(name, 1))

    def _changed(self) -> None:
        words = [
            (str(route.kind), "" if route.destination is None else str(route.destination), route.to)
            for route in self._routes
        ]
        self._context.custody.transaction.put(MetaRow(_ROW, msgspec.msgpack.encode(words)))
        self._look_again()

    def _look_again(self) -> None:
        self._context.policies.tell(Policy.static_routes_changed)
        self._forwarder.look_again(self._context.custody.queues.values())
