"""Cells: the named services of a node; whether one is there, and which way a message for it would take."""

from datetime import UTC, datetime
from typing import Final

from broker.api.context import RunningNode
from broker.api.errors import in_words
from broker.api.operation import AT, AWAY, PAGE, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, Key, page_of
from broker.cells.errors import CellError
from broker.cells.paths import MOST_GATEWAYS
from broker.cells.paths import PathHop as AskedHop
from broker.core.messages.queue import Queue
from sapwood.protocol.names import LOCAL

_ADDRESS: Final = Parameter(
    "address",
    "`CELL@NODE`, or a well-known `CELL`; `CELL@local` is this node first.",
    argument="CELL@NODE",
)
_OR: Final = {"address": "Or a well-known CELL by its name alone."}


class Cell(Answer):
    """Something with a name at a node. `own`: one of the node's own cells. `readers`: who reads it now.

    `also`: the neighbours behind which a cell of the same name is read; they share its messages.
    """

    name: str
    own: bool
    readers: int
    messages: int
    also: list[str]


class Cells(Answer):
    node: str
    cells: list[Cell]
    more: int
    next: str | None = None


class PingAnswer(Answer):
    """`here`: somebody reads the cell at that node. `at`: by its clock. `ms`: from question to answer."""

    address: str
    node: str
    cell: str
    here: bool
    at: str
    ms: float


class Hop(Answer):
    """A node on the way. `how` the look-up went there: local, exact, queue, domain, default, dumpster, none.

    `at`: by its clock; `ms`: from question to answer; both null, with `error`, where no answer came.
    """

    node: str
    at: str | None
    ms: float | None
    address: str
    how: str
    gateways: list[str]
    down: list[str]
    error: str


class Traceroute(Answer):
    """`complete`: the last hop is where the cell is; else `why` says why it ends there."""

    address: str
    hops: list[Hop]
    complete: bool
    why: str


@operation(
    "GET",
    "/api/cells",
    "The named services of a node: its own, and the queues that applications have there.",
    "tree",
    (AT, *PAGE),
    remote="cells",
    errors=AWAY,
    commands=(
        PlainCommand(
            "cells",
            "List the cells of a node. Its own, and the queues that applications have there.",
            ("cells",),
        ),
    ),
)
async def cells(node: RunningNode, cut: Cut) -> Cells:
    """The node's own cells, and the queues that applications have here."""
    own = list(node.cells.cells)
    listed: list[Queue | str] = [*own, *node.core.custody.queues.values()]

    def key(each: Queue | str) -> Key:
        return (0, own.index(each)) if isinstance(each, str) else (1, each.name)

    page = await page_of(listed, key, cut, lambda each: isinstance(each, str) or _is_cell(each))
    return Cells(
        node=node.name, cells=[_cell(node, each) for each in page.items], more=page.more, next=page.next
    )


def _cell(node: RunningNode, place: Queue | str) -> Cell:
    if isinstance(place, str):
        return Cell(name=place, own=True, readers=1, messages=0, also=[])
    assert place.destination is not None
    also = sorted(name for name in node.core.table.gateways(place.destination) if name != LOCAL)
    return Cell(
        name=place.destination.name,
        own=False,
        readers=len(place.consumers),
        messages=place.messages,
        also=also[:MOST_GATEWAYS],
    )


@operation(
    "GET",
    "/api/ping",
    "Ask the node where a cell is whether it is there.",
    "tree",
    (_ADDRESS,),
    errors=AWAY,
    commands=(
        PlainCommand(
            "ping",
            "Ask the node where a cell is whether it is there. Exit code 1 where nobody answers or reads it.",
            texts=_OR,
        ),
    ),
)
async def ping(node: RunningNode, address: str) -> PingAnswer:
    """Ask the node where a cell is whether it is there."""
    try:
        pong, took = await node.paths.ping(address)
    except CellError as error:
        raise in_words(error.node, error) from None
    return PingAnswer(
        address=address, node=pong.node, cell=pong.cell, here=pong.here, at=_utc(pong.at), ms=took
    )


@operation(
    "GET",
    "/api/traceroute",
    "The way that a message for an address would take now, each hop with its name and time.",
    "tree",
    (_ADDRESS,),
    errors={504: "UNREACHABLE: nobody has that incarnation."},
    commands=(
        PlainCommand(
            "traceroute",
            "Show the way that a message for a cell would take now. Each node with its time, and why it goes"
            " on.",
            texts=_OR,
        ),
    ),
)
async def traceroute(node: RunningNode, address: str) -> Traceroute:
    """The way that a message for this address would take now."""
    try:
        route = await node.paths.traceroute(address)
    except CellError as error:
        raise in_words(error.node, error) from None
    return Traceroute(
        address=route.address,
        hops=[_hop(hop) for hop in route.hops],
        complete=route.complete,
        why=route.why,
    )


def _is_cell(place: Queue) -> bool:
    """A queue that was made here or is read here, once for `x` and `x@this-node`."""
    named = place.destination is not None and not place.destination.node
    return named and not place.owner and bool(place.created or place.consumers)


def _hop(hop: AskedHop) -> Hop:
    said = hop.said
    return Hop(
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
