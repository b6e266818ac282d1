"""The routing table for people, and what was heard of consumers lately."""

from typing import TYPE_CHECKING, Literal

from broker.administration import answers
from broker.administration.pages import Cut, page_of
from broker.core.errors import BadRequest
from treeconnector.destinations import Kind
from treeconnector.names import LOCAL
from treeconnector.routes import Route

if TYPE_CHECKING:
    from broker.node import Node


class Routes:
    """Reads the table. Raises `SwitchError`s."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    async def page(self, search: str, kind: str, gateway: str, cut: Cut) -> answers.Routes:
        """Routes by kind, destination and gateway."""
        if kind and kind not in list(Kind):
            raise BadRequest(f"kind={kind[:40]!r}: expected one of {', '.join(Kind)}")
        table, wanted = self._node.core.table, search.lower()
        routes = list(table.routes_of(gateway).values()) if gateway else list(table.routes())

        def holds(route: Route) -> bool:
            return (not kind or route.key.kind == kind) and wanted in route.key.name.lower()

        page = await page_of(routes, _key, cut, holds)
        counts = {f"{each}/{through}": count for (each, through), count in table.counts().items()}
        return answers.Routes(
            routes=[self._route(route) for route in page.items],
            counts=dict(sorted(counts.items(), key=lambda item: -item[1])[:1000]),
            more=page.more,
            next=page.next,
        )

    def _route(self, route: Route) -> answers.Route:
        kind: Literal["queue", "topic", "domain"]
        match route.key.kind:
            case Kind.QUEUE:
                kind = "queue"
            case Kind.TOPIC:
                kind = "topic"
            case _:
                kind = "domain"
        parent = self._node.core.parent
        via: Literal["local", "parent", "child"] = "child"
        if route.gateway == LOCAL:
            via = "local"
        elif parent is not None and route.gateway == parent.name:
            via = "parent"
        return answers.Route(
            kind=kind,
            destination=route.key.name,
            gateway=route.gateway,
            live=route.live,
            via=via,
            origin=route.origin,
        )


def _key(route: Route) -> tuple[str, str, str]:
    return str(route.key.kind), route.key.name, route.gateway
