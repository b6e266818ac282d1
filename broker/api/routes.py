"""The routing table is shown; routes are set and removed, here or at another node."""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import nlargest
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, PAGE, SEARCH, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, page_of
from broker.core.messages.queue_names import ROUTING_MANAGER
from sapwood.protocol.destinations import Kind
from sapwood.protocol.names import LOCAL
from treeconnector.routes import Route as LearnedRoute
from treeconnector.static_routes import FORMS, one_of
from treeconnector.static_routes import StaticRoute as SetRoute

KINDS: Final[tuple[str, ...]] = (*Kind, *FORMS)
if TYPE_CHECKING:
    RouteKind = str
    SetKind = str
else:
    RouteKind = Literal[tuple(map(str, KINDS))]
    SetKind = Literal[("", *map(str, FORMS))]
_KIND: Final = Parameter("kind", "Only of this kind.", choices=("", *KINDS))
_MOST_COUNTS: Final = 500
_GATEWAY: Final = Parameter("gateway", "Only those through 'local' or this neighbour.")
_THROUGH: Final = "Only through 'local' or this neighbour."


class Route(Answer):
    """`gateway`: 'local' or a neighbour's name; `via`: what that is. `origin`: node of the consumer.

    Of an alias `gateway` is the address that it stands for, of a dumpster the queue. `up`: the link is up.
    """

    kind: RouteKind
    destination: str
    gateway: str
    live: bool
    up: bool
    via: Literal["local", "parent", "child", "mesh"]
    origin: str


class Routes(Answer):
    """`counts`: of all routes here, as 'kind/gateway'; so many of the largest."""

    routes: list[Route]
    counts: dict[str, int]
    more: int
    next: str | None


class StaticRoute(Answer):
    """A route that was set or ended. `gateway`: a neighbour; an alias's address; the dumpster's queue."""

    node: str
    kind: str
    destination: str
    gateway: str


class RouteChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A static route. `node`: where, '' = the node that is asked. `destination`: of exact and alias only."""

    kind: SetKind = ""
    destination: str = ""
    gateway: str = ""
    node: str = ""


@operation(
    "GET",
    "/api/routes",
    "The routing table.",
    "tree",
    (AT, SEARCH, _KIND, _GATEWAY, *PAGE),
    remote=f"{ROUTING_MANAGER}:show",
    errors=AWAY,
    commands=(
        PlainCommand(
            "routes",
            "Show the routing table. `route show` asks other nodes, too.",
            ("routes",),
            texts={
                "kind": f"Only {one_of(KINDS)}.",
                "gateway": _THROUGH,
            },
            without=("node",),
        ),
        PlainCommand(
            "route show",
            "Show a node's routing table. What consumers and links made, and what operators set.",
            ("routes",),
            texts={
                "kind": f"Only {one_of(KINDS)}.",
                "gateway": _THROUGH,
            },
        ),
    ),
)
async def show(node: RunningNode, search: str, kind: str, gateway: str, cut: Cut) -> Routes:
    """Routes by kind, destination and gateway."""
    table, text = node.core.table, search.lower()
    routes: list[LearnedRoute | SetRoute] = [
        *(table.routes_of(gateway).values() if gateway else table.routes()),
        *(route for route in _static(node) if not gateway or route.to == gateway),
    ]

    def wanted(route: LearnedRoute | SetRoute) -> bool:
        found, destination, through = _key(route)
        named = destination or through
        return (not kind or found == kind) and text in named.lower()

    page = await page_of(routes, _key, cut, wanted)
    return Routes(
        routes=[_route(node, route) for route in page.items],
        counts=_counts(node),
        more=page.more,
        next=page.next,
    )


def _counts(node: RunningNode) -> dict[str, int]:
    found = Counter((str(route.kind), route.gateway or LOCAL) for route in _static(node))
    return most_routes([*node.core.table.counts().items(), *found.items()])


def most_routes(counts: Iterable[tuple[tuple[str, str], int]]) -> dict[str, int]:
    """Numbers of routes by kind and gateway, the largest of very many."""
    largest = nlargest(_MOST_COUNTS, counts, key=itemgetter(1))
    return {f"{kind}/{gateway}": count for (kind, gateway), count in largest}


def _static(node: RunningNode) -> Iterator[SetRoute]:
    """Each parent is a default route by its link."""
    core = node.core
    for name in core.context.parents:
        yield SetRoute("default", None, name)
    yield from core.table.static


def _route(node: RunningNode, route: LearnedRoute | SetRoute) -> Route:
    kind, destination, gateway = _key(route)
    core = node.core
    stays = isinstance(route, SetRoute) and not route.gateway
    neighbour = None if stays else core.neighbours.get(gateway)
    via: Literal["local", "parent", "child", "mesh"] = "local"
    if neighbour is not None:
        via = neighbour.relation.value
    return Route(
        kind=kind,
        destination=destination,
        gateway=gateway,
        live=route.live if isinstance(route, LearnedRoute) else True,
        up=neighbour is None or neighbour.up,
        via=via,
        origin=core.identity.name if isinstance(route, SetRoute) else route.origin,
    )


def _key(route: LearnedRoute | SetRoute) -> tuple[str, str, str]:
    if isinstance(route, LearnedRoute):
        return str(route.key.kind), route.key.name, route.gateway
    name = "" if route.destination is None else str(route.destination).removeprefix(f"{Kind.QUEUE}:")
    return str(route.kind), name, route.to.removeprefix(f"{Kind.QUEUE}:")


@operation(
    "POST",
    "/api/routes",
    f"Set an {one_of(FORMS)} route; it stays until it is removed.",
    "tree",
    body=RouteChange,
    remote=f"{ROUTING_MANAGER}:add",
    changes=True,
    errors={
        **AWAY,
        409: "REFUSED: it is there already, leads in a circle, or that node answers its ancestors only.",
    },
    role="administrator",
)
def add(node: RunningNode, body: RouteChange) -> StaticRoute:
    """Set a route; it is on disk when this is answered."""
    return _set(node, node.core.static_routing.add(body.kind, body.destination, body.gateway))


@operation(
    "DELETE",
    "/api/routes",
    "Remove a route that was set.",
    "tree",
    body=RouteChange,
    remote=f"{ROUTING_MANAGER}:remove",
    changes=True,
    errors=AWAY,
    role="administrator",
)
def remove(node: RunningNode, body: RouteChange) -> StaticRoute:
    """End a route."""
    return _set(node, node.core.static_routing.remove(body.kind, body.destination, body.gateway))


def _set(node: RunningNode, route: SetRoute) -> StaticRoute:
    node.wake()
    destination = "" if route.destination is None else str(route.destination)
    return StaticRoute(node=node.name, kind=str(route.kind), destination=destination, gateway=route.to)
