"""What the API answers about cells, links and ways, beside `answers`."""

from typing import Literal

import msgspec

from broker.administration.answers import Answer


class StaticRoute(Answer):
    """A route that was set or ended. `gateway`: a neighbour; an alias's address; the dumpster's queue."""

    node: str
    kind: str
    destination: str
    gateway: str


class RouteChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A static route. `node`: where, '' = the node that is asked. `destination`: of exact and alias only."""

    kind: Literal["", "exact", "alias", "default", "dumpster"] = ""
    destination: str = ""
    gateway: str = ""
    node: str = ""


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


class Link(Answer):
    """`since_s`: for how long it has been so. `routes`: that its neighbour told, `set`: by operators.

    `over`: the address of the other end, or of the broker between. `proof`: what proves the neighbour's name;
    both '' while there is no link.

    `refused`: routes and bundles of the neighbour that were refused here, `refused_us`: of ours by it.
    """

    name: str
    relation: str
    state: str
    since_s: float
    error: str
    zone: str
    addresses: list[str]
    routes: int
    set: int
    incarnation: str
    refused: int = 0
    refused_us: int = 0
    over: str = ""
    proof: str = ""


class Links(Answer):
    node: str
    chain: list[str]
    links: list[Link]
    more: int
    next: str | None = None


class Ping(Answer):
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


class Address(Answer):
    """A node that is known. `via`: the neighbour that said so; `told`: those that heard it from here.

    `left_s`: how long an answer is good for yet; null for neighbours and the nodes below.
    """

    name: str
    incarnation: str
    addresses: list[str]
    via: str
    left_s: float | None
    told: list[str]


class Addresses(Answer):
    """What a node knows of logical addresses. `incarnation`, `addresses`: its own.

    `size` entries of at most `most`; `evicted`: that had to go for others. `asking`: questions without an
    answer yet; `waiting`: messages for whose incarnation the node asks. `counters`: of what links said.
    """

    node: str
    incarnation: str
    addresses: list[str]
    known: list[Address]
    more: int
    size: int
    most: int
    evicted: int
    asking: int
    waiting: int
    counters: dict[str, int]
    next: str | None = None


class WhoHas(Answer):
    """The node that has a name or an incarnation. `via`: the neighbour that said so, 'local' = itself."""

    key: str
    name: str
    incarnation: str
    addresses: list[str]
    via: str
    ms: float


class Announce(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where this node can be dialled from now on."""

    addresses: list[str]


class Announced(Answer):
    node: str
    addresses: list[str]
