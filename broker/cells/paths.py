"""Ping and traceroute: does a node answer, who reads there, and which way does a message take?

Every node answers `ping` in all its cells, and `hop` in `System`: what its routing table says of an address
now. A traceroute asks this node, then the neighbour that it named, and so on; each with the address that the
one before said, since it may be an alias. Nothing is sent to the address itself.

Law: what is answered here tells names along one way and whether somebody reads a cell; no more, since every
node of the tree may ask.
"""

import asyncio
import time
from typing import Any, Final

import msgspec

from broker.cells.cells import CellCommand, NodeCells
from broker.cells.errors import NoAnswer
from broker.core.errors import BadRequest
from broker.core.messages.queue_names import LOCATION_MANAGER, ROUTING_MANAGER, SYSTEM
from broker.host import Host
from sapwood.protocol.destinations import Destination, queue
from sapwood.protocol.errors import InvalidName, RouteError, SapwoodError
from sapwood.protocol.names import is_incarnation
from treeconnector.addresses import Entry
from treeconnector.static_routes import address_of

ANSWER_WITHIN: Final = 5.0
_SOON: Final = 0.5
"""Seconds after which it is looked whether a link on the way is down."""
MOST_HOPS: Final = 64
MOST_GATEWAYS: Final = 20
"""How many of those that could take a message are named, those that are up first."""
_LONGEST_ADDRESS: Final = 400


class PathSaid(msgspec.Struct):
    """What a node says of an address. `at`: seconds of its wall clock. `down`: those whose link is down."""

    node: str
    at: float
    address: str
    how: str
    gateways: list[str] = []
    down: list[str] = []


class PathHop(msgspec.Struct):
    """One node of the way. `ms`: from question to answer; None, with `error`, where none came."""

    node: str
    ms: float | None = None
    said: PathSaid | None = None
    error: str = ""


class PathRoute(msgspec.Struct):
    """`complete`: the last hop is where the cell is; else `why` it ends there. `cut`: a link is down."""

    address: str
    hops: list[PathHop] = []
    complete: bool = False
    why: str = ""
    cut: bool = False


class CellPong(msgspec.Struct):
    """`here`: somebody reads the cell at that node. `at`: seconds of its wall clock."""

    node: str
    at: float
    cell: str
    here: bool
    incarnation: str = ""


class Paths:
    """Asks and answers for one node. Calls raise `BadRequest`, `CellError`s."""

    def __init__(self, host: Host, cells: NodeCells) -> None:
        self._host = host
        self._cells = cells
        self._me = host.core.identity.name
        cells.open(ROUTING_MANAGER)
        cells.open(LOCATION_MANAGER)
        for commands in cells.cells.values():
            commands["ping"] = CellCommand(self._pinged, open=True)
        cells.commands["hop"] = CellCommand(self._hop, open=True)

    def __repr__(self) -> str:
        return f"<Paths of {self._me}>"

    # --- answers

    def _pinged(self, _asker: str, arguments: dict[str, Any]) -> CellPong:
        cell = _address(str(arguments.get("cell", ""))).name
        core = self._host.core
        return CellPong(
            self._me, time.time(), cell, core.lookup.is_here(queue(cell)), core.logical_addresses.own
        )

    def _hop(self, _asker: str, arguments: dict[str, Any]) -> PathSaid:
        core = self._host.core
        way = core.lookup.way(_address(str(arguments.get("address", ""))))
        gateways = sorted(way.gateways, key=lambda name: not core.neighbours[name].up)[:MOST_GATEWAYS]
        down = [name for name in gateways if not core.neighbours[name].up]
        return PathSaid(self._me, time.time(), str(way.address), way.how, gateways, down)

    # --- questions

    async def ping(self, text: str) -> tuple[CellPong, float]:
        """The answer of the node where the cell is, and how long that took in milliseconds.

        `CELL@NODE`, or a well-known `CELL`: wherever a message for it would go now. `CELL@UUID` is answered
        by that incarnation only.
        """
        address = _address(text)
        node = address.node or await self._home_of(text)
        if is_incarnation(node):
            node = (await self.who_has(node)).found.name
        began = time.perf_counter()
        cell = address.name if address.name in self._cells.cells else SYSTEM
        asking = asyncio.ensure_future(
            self._cells.ask(node, "ping", {"cell": address.name}, ANSWER_WITHIN, cell)
        )
        told = await self._unless_cut_off(node, asking)
        pong: CellPong = _read(node, told, CellPong)
        if is_incarnation(address.node) and pong.incarnation != address.node:
            raise NoAnswer(node, f"unknown incarnation {address.node}: {node} is {pong.incarnation} now")
        return pong, _since(began)

    async def _unless_cut_off(self, node: str, asking: "asyncio.Future[Any]") -> Any:
        """An answer of a node. Raises `NoAnswer` before its time is over where a link on the way is down."""
        try:
            done, _ = await asyncio.wait((asking,), timeout=_SOON)
            if not done:
                looking = asyncio.ensure_future(self.traceroute(f"{SYSTEM}@{node}"))
                try:
                    await asyncio.wait((asking, looking), return_when=asyncio.FIRST_COMPLETED)
                    if not asking.done() and (route := looking.result()).cut:
                        raise NoAnswer(node, route.why)
                finally:
                    looking.cancel()
            return await asking
        finally:
            asking.cancel()

    async def who_has(self, key: str) -> Entry:
        """The node with this name or incarnation. Raises `NoAnswer`, with the reason that the tree gives."""
        future: asyncio.Future[tuple[Entry | None, str]] = asyncio.get_running_loop().create_future()

        def told(entry: Entry | None, why: str) -> None:
            if not future.done():
                future.set_result((entry, why))

        known = self._host.core.logical_addresses
        known.look_up(key, told)
        self._host.wake()
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                entry, why = await future
        except TimeoutError:
            known.questions.forget(key, told)
            raise NoAnswer(key, f"nobody answered within {ANSWER_WITHIN:g} s who has {key}") from None
        if entry is None:
            raise NoAnswer(key, why)
        return entry

    async def _home_of(self, text: str) -> str:
        route = await self.traceroute(text)
        if not route.complete:
            raise NoAnswer(route.hops[-1].node, route.why)
        return route.hops[-1].node

    async def traceroute(self, text: str) -> PathRoute:
        """The way of a message from this node, hop by hop."""
        asked = _address(text)
        route = PathRoute(str(asked))
        if is_incarnation(asked.node):
            await self.who_has(asked.node)
        address, node, seen = route.address, self._me, set[str]()
        while node not in seen and len(seen) < MOST_HOPS:
            seen.add(node)
            hop = await self._ask(node, address)
            route.hops.append(hop)
            if hop.said is None:
                route.why = hop.error
                return route
            address = hop.said.address
            ways = [*(name for name in hop.said.gateways if name not in hop.said.down), *hop.said.down]
            if not ways:
                route.complete = hop.said.how == "local"
                route.why = "" if route.complete else _why(hop.said)
                return route
            if node != self._me and len(hop.said.down) == len(ways):
                route.why = f"the link from {node} to {ways[0]} is down"
                route.cut = True
                route.hops.append(PathHop(ways[0], error=route.why))
                return route
            node = ways[0]
        route.why = f"it comes back to {node}: it goes in a circle until a route changes"
        return route

    async def _ask(self, node: str, address: str) -> PathHop:
        began = time.perf_counter()
        try:
            told = await self._cells.ask(node, "hop", {"address": address}, ANSWER_WITHIN)
            return PathHop(node, _since(began), _read(node, told, PathSaid))
        except SapwoodError as error:
            return PathHop(node, error=str(error))


def _why(said: PathSaid) -> str:
    if said.how == "dumpster":
        return f"{said.node} knows no way: it goes into the dumpster there"
    return f"{said.node} knows no way: it waits there"


def _since(began: float) -> float:
    return round((time.perf_counter() - began) * 1000, 3)


def _address(text: str) -> Destination:
    """Raises `BadRequest`."""
    try:
        return address_of(text[:_LONGEST_ADDRESS])
    except (InvalidName, RouteError) as error:
        raise BadRequest(str(error)) from None


def _read(node: str, told: Any, kind: Any) -> Any:
    """A node's words, or our own. Raises `NoAnswer` for what is none."""
    try:
        return told if isinstance(told, kind) else msgspec.convert(told, kind)
    except msgspec.ValidationError as error:
        raise NoAnswer(node, f"{node}: its answer is not understood: {error}") from None
