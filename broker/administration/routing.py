"""Cells, links and routes of this node and of any other, as that one tells through its cells.

`RoutingMgr` shows and changes a node's routes, `lm` its links, `System` its cells. What changes a node is
asked by itself or a node above it; ping and traceroute by everybody.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from broker.administration import answers
from broker.administration import routing_answers as told
from broker.administration.addresses import AddressBook
from broker.administration.asking import asked
from broker.administration.asking import told as in_words
from broker.administration.pages import Cut, Key, cut_of, page_at_once
from broker.administration.proofs import proof
from broker.administration.routing_answers import RouteChange
from broker.cells.cells import Arguments, Command
from broker.cells.errors import CellError
from broker.cells.paths import MOST_GATEWAYS, Hop, Paths
from broker.core.errors import BadRequest, NotFound
from broker.core.links.neighbour import Neighbour
from broker.core.messages.custody import Queue
from broker.core.policies.trace import LOCATION_MANAGER, ROUTING_MANAGER, SYSTEM
from treeconnector.names import LOCAL, incarnation_text
from treeconnector.relations import Relation
from treeconnector.static_routes import StaticRoute

if TYPE_CHECKING:
    from broker.node import Node


class Routing:
    """Asks and answers for one node. Calls raise `SwitchError`s."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._me = node.site.name
        self._paths = Paths(node, node.cells)
        self.addresses = AddressBook(node, self._paths)
        cells = node.cells.cells
        cells[SYSTEM]["cells"] = Command(lambda asker, arguments: self._cells(cut_of(arguments)))
        cells[LOCATION_MANAGER]["links"] = Command(lambda asker, arguments: self._links(cut_of(arguments)))
        cells[LOCATION_MANAGER]["holds"] = Command(lambda asker, arguments: self._holds(arguments))
        cells[ROUTING_MANAGER]["show"] = Command(lambda asker, arguments: self._show(arguments))
        cells[ROUTING_MANAGER]["add"] = Command(lambda asker, arguments: self._add(arguments), changes=True)
        cells[ROUTING_MANAGER]["remove"] = Command(
            lambda asker, arguments: self._remove(arguments), changes=True
        )

    def __repr__(self) -> str:
        return f"<Routing of {self._me}>"

    # --- what this node answers

    def _show(self, arguments: Arguments) -> answers.Routes:
        search, kind, gateway = (_text(arguments, name) for name in ("search", "kind", "gateway"))
        return self._node.administration.routes.page_now(search, kind, gateway, cut_of(arguments))

    def _add(self, arguments: Arguments) -> told.StaticRoute:
        return self._set(self._node.core.static_routing.add(*_words(arguments)))

    def _remove(self, arguments: Arguments) -> told.StaticRoute:
        return self._set(self._node.core.static_routing.remove(*_words(arguments)))

    def _set(self, route: StaticRoute) -> told.StaticRoute:
        self._node.wake()
        destination = "" if route.destination is None else str(route.destination)
        return told.StaticRoute(
            node=self._me, kind=str(route.kind), destination=destination, gateway=route.to
        )

    def _cells(self, cut: Cut) -> told.Cells:
        """The node's own cells, and the queues that applications have here."""
        own = list(self._node.cells.cells)
        places = [place for place in self._node.core.custody.queues.values() if _is_cell(place)]
        listed: list[Queue | str] = [*own, *places]

        def key(each: Queue | str) -> Key:
            return (0, own.index(each)) if isinstance(each, str) else (1, each.name)

        page = page_at_once(listed, key, cut)
        return told.Cells(
            node=self._me, cells=[self._cell(each) for each in page.items], more=page.more, next=page.next
        )

    def _cell(self, place: Queue | str) -> told.Cell:
        if isinstance(place, str):
            return told.Cell(name=place, own=True, readers=1, messages=0, also=[])
        assert place.destination is not None
        also = sorted(name for name in self._node.core.table.gateways(place.destination) if name != LOCAL)
        return told.Cell(
            name=place.destination.name,
            own=False,
            readers=len(place.consumers),
            messages=place.messages,
            also=also[:MOST_GATEWAYS],
        )

    def _links(self, cut: Cut) -> told.Links:
        core = self._node.core
        page = page_at_once(
            core.neighbours.values(),
            lambda each: (int(each.relation is not Relation.PARENT), each.name),
            cut,
        )
        return told.Links(
            node=self._me,
            chain=core.chain,
            links=[self._link(each) for each in page.items],
            more=page.more,
            next=page.next,
        )

    def _holds(self, arguments: Arguments) -> answers.Holds:
        """What a neighbour of this node has asked it to keep."""
        link = _text(arguments, "link")
        neighbour = self._node.core.neighbours.get(link)
        if neighbour is None:
            raise NotFound(f"{self._me} has no link with {link[:64]!r}")
        page = page_at_once(list(neighbour.peer_holds), lambda hold: (hold,), cut_of(arguments))
        return answers.Holds(holds=page.items, more=page.more, next=page.next)

    def _link(self, neighbour: Neighbour) -> told.Link:
        core, incarnation = self._node.core, neighbour.detail.incarnation
        return told.Link(
            name=neighbour.name,
            relation=neighbour.relation,
            state=neighbour.state,
            since_s=round(core.clock.now - neighbour.since, 3),
            error=neighbour.why,
            zone=neighbour.detail.zone,
            addresses=neighbour.detail.addresses,
            routes=neighbour.held.count,
            refused=neighbour.refusals.total,
            refused_us=neighbour.refused_us.total,
            set=sum(route.to == neighbour.name for route in core.table.static),
            incarnation=incarnation_text(incarnation) if incarnation else "",
            **self._ground(neighbour),
        )

    def _ground(self, neighbour: Neighbour) -> dict[str, str]:
        """What its link rides on, and what proves its name."""
        link = neighbour.link
        if link is None:
            return {}
        over = self._node.wires.over(link)
        shown = self._node.core.links.shown_on(link)
        return {"over": over, "proof": proof(link, neighbour.relation, shown, over)}

    # --- what an operator asks

    async def show(self, node: str, search: str, kind: str, gateway: str, cut: Cut) -> answers.Routes:
        """The routing table of a node, '' = this one."""
        if node in ("", self._me):
            return await self._node.administration.routes.page(search, kind, gateway, cut)
        arguments = {"search": search, "kind": kind, "gateway": gateway, **cut._asdict()}
        return await asked(self._node, node, "show", arguments, answers.Routes, ROUTING_MANAGER)

    async def add(self, change: RouteChange) -> told.StaticRoute:
        """Set a route at a node; it is on disk there when this returns."""
        return await self._change("add", change)

    async def remove(self, change: RouteChange) -> told.StaticRoute:
        """End a route at a node."""
        return await self._change("remove", change)

    async def _change(self, command: str, change: RouteChange) -> told.StaticRoute:
        node = change.node or self._me
        arguments = {"kind": change.kind, "destination": change.destination, "gateway": change.gateway}
        done = await asked(self._node, node, command, arguments, told.StaticRoute, ROUTING_MANAGER)
        if node == self._me:
            await self._node.administration.committed()
        return done

    async def cells(self, node: str, cut: Cut) -> told.Cells:
        """The cells of a node, '' = this one."""
        return await asked(self._node, node or self._me, "cells", cut._asdict(), told.Cells)

    async def links(self, node: str, cut: Cut) -> told.Links:
        """The links of a node, '' = this one."""
        return await asked(self._node, node or self._me, "links", cut._asdict(), told.Links, LOCATION_MANAGER)

    async def holds(self, node: str, link: str, cut: Cut) -> answers.Holds:
        """What a neighbour of a node has asked it to keep, '' = of this one. Raises `NotFound`."""
        arguments = {"link": link, **cut._asdict()}
        return await asked(self._node, node or self._me, "holds", arguments, answers.Holds, LOCATION_MANAGER)

    async def ping(self, address: str) -> told.Ping:
        """Ask the node where a cell is whether it is there."""
        try:
            pong, took = await self._paths.ping(address)
        except CellError as error:
            raise in_words(error.node, error) from None
        return told.Ping(
            address=address, node=pong.node, cell=pong.cell, here=pong.here, at=_utc(pong.at), ms=took
        )

    async def traceroute(self, address: str) -> told.Traceroute:
        """The way that a message for this address would take now."""
        try:
            route = await self._paths.traceroute(address)
        except CellError as error:
            raise in_words(error.node, error) from None
        return told.Traceroute(
            address=route.address,
            hops=[_hop(hop) for hop in route.hops],
            complete=route.complete,
            why=route.why,
        )


def _is_cell(place: Queue) -> bool:
    """A queue that was made here or is read here, once for `x` and `x@this-node`."""
    named = place.destination is not None and not place.destination.node
    return named and not place.owner and bool(place.created or place.consumers)


def _hop(hop: Hop) -> told.Hop:
    said = hop.said
    return told.Hop(
        node=hop.node,
        at=None if said is None else _utc(said.at),
        ms=hop.ms,
        address="" if said is None else said.address,
        how="" if said is None else said.how,
        gateways=[] if said is None else said.gateways,
        down=[] if said is None else said.down,
        error=hop.error,
    )


def _utc(at: float) -> str:
    """ISO 8601; '' for what no clock can show."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return ""


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name, "")
    if not isinstance(value, str):
        raise BadRequest(f"{name} is no text")
    return value


def _words(arguments: Arguments) -> tuple[str, str, str]:
    return _text(arguments, "kind"), _text(arguments, "destination"), _text(arguments, "gateway")
