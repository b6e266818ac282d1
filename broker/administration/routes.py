"""The routing table for people: what consumers and links made, and what operators set."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

from broker.administration import answers
from broker.administration.pages import Cut, Page, page_at_once, page_of
from broker.core.errors import BadRequest
from treeconnector.destinations import Kind
from treeconnector.names import LOCAL
from treeconnector.routes import Route
from treeconnector.static_routes import StaticKind, StaticRoute

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.node import Node

RouteKind = Literal["queue", "topic", "domain", "exact", "alias", "default", "dumpster"]
KINDS: Final[tuple[str, ...]] = get_args(RouteKind)
_HERE: Final = frozenset((StaticKind.ALIAS, StaticKind.DUMPSTER))


class Routes:
    """Reads the table. Raises `SwitchError`s."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    async def page(self, search: str, kind: str, gateway: str, cut: Cut) -> answers.Routes:
        """Routes by kind, destination and gateway."""
        routes, wanted = self._wanted(search, kind, gateway)
        return self._answer(await page_of(routes, _key, cut, wanted))

    def page_now(self, search: str, kind: str, gateway: str, cut: Cut) -> answers.Routes:
        """The same for another node, at once."""
        routes, wanted = self._wanted(search, kind, gateway)
        return self._answer(page_at_once(routes, _key, cut, wanted))

    def _wanted(
        self, search: str, kind: str, gateway: str
    ) -> "tuple[list[Route | StaticRoute], Callable[[Route | StaticRoute], bool]]":
        if kind and kind not in KINDS:
            raise BadRequest(f"kind={kind[:40]!r}: expected one of {', '.join(KINDS)}")
        table, text = self._node.core.table, search.lower()
        routes: list[Route | StaticRoute] = [
            *(table.routes_of(gateway).values() if gateway else table.routes()),
            *(route for route in self._static() if not gateway or route.to == gateway),
        ]

        def wanted(route: Route | StaticRoute) -> bool:
            found, destination, through = _key(route)
            named = destination or through
            return (not kind or found == kind) and text in named.lower()

        return routes, wanted

    def _static(self) -> Iterator[StaticRoute]:
        """Each parent is a default route by its link."""
        core = self._node.core
        for name in core.forwarder.parents:
            yield StaticRoute(StaticKind.DEFAULT, None, name)
        yield from core.table.static

    def _answer(self, page: Page[Route | StaticRoute]) -> answers.Routes:
        table = self._node.core.table
        counts = {f"{kind}/{through}": count for (kind, through), count in table.counts().items()}
        for route in self._static():
            name = f"{route.kind}/{LOCAL if route.kind in _HERE else route.to}"
            counts[name] = counts.get(name, 0) + 1
        return answers.Routes(
            routes=[self._route(route) for route in page.items],
            counts=dict(sorted(counts.items(), key=lambda item: -item[1])[:1000]),
            more=page.more,
            next=page.next,
        )

    def _route(self, route: Route | StaticRoute) -> answers.Route:
        kind, destination, gateway = _key(route)
        core = self._node.core
        neighbour = None if kind in _HERE else core.neighbours.get(gateway)
        via: Literal["local", "parent", "child", "mesh"] = "local"
        if neighbour is not None:
            via = neighbour.relation.value
        return answers.Route(
            kind=cast("RouteKind", kind),
            destination=destination,
            gateway=gateway,
            live=route.live if isinstance(route, Route) else True,
            up=neighbour is None or neighbour.up,
            via=via,
            origin=core.identity.name if isinstance(route, StaticRoute) else route.origin,
        )


def _key(route: Route | StaticRoute) -> tuple[str, str, str]:
    if isinstance(route, Route):
        return str(route.key.kind), route.key.name, route.gateway
    name = "" if route.destination is None else str(route.destination).removeprefix(f"{Kind.QUEUE}:")
    return str(route.kind), name, route.to.removeprefix(f"{Kind.QUEUE}:")
