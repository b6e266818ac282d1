"""The nodes below a node: how many there are, and which of them are down, as they are told of upward."""

from collections import Counter
from typing import Final

from broker.api.context import RunningNode
from broker.api.operation import AT, AWAY, PAGE, Answer, Parameter, PlainCommand, operation
from broker.api.pages import Cut, chunks, page_of
from broker.core.node import NodeCore
from sapwood.protocol.destinations import Kind

_CHILDREN: Final = 100
DOWN: Final = Parameter("down", "Only those that are down.", "boolean", default=False)


class BelowNode(Answer):
    """A node below, and the child that leads to it. `since_s`: for how long it has been down, null = it is
    not; `at_least`: it was so before this node knew of it."""

    name: str
    via: str
    since_s: float | None
    at_least: bool


class BelowChild(Answer):
    """A child: how its link is, to how many nodes it leads, itself among them; how many of these are down."""

    name: str
    state: str
    since_s: float
    nodes: int
    down: int


class NodesBelowAnswer(Answer):
    """`nodes`, `down`: of all below; `down_since_s`: for how long the one that is down longest has been.

    `children`: at most 100, those with most nodes down first. `below`: a page of the nodes.
    """

    node: str
    nodes: int
    down: int
    down_since_s: float | None
    children: list[BelowChild]
    children_more: int
    below: list[BelowNode]
    more: int
    next: str | None = None


class BelowCount(Answer):
    """Nodes below, and how many of them are down; `down_since_s`: for how long the longest of them."""

    nodes: int
    down: int
    down_since_s: float | None


@operation(
    "GET",
    "/api/below",
    "The nodes below a node, and which of them are down.",
    "tree",
    (AT, DOWN, *PAGE),
    remote="below",
    errors=AWAY,
    commands=(
        PlainCommand("tree", "Show the nodes below a node. Of those that are down: since when.", ("below",)),
    ),
)
async def below(node: RunningNode, down: bool, cut: Cut) -> NodesBelowAnswer:
    core = node.core
    known = core.below
    page = await page_of(list(known.away if down else known), lambda name: (name,), cut)
    children, more = await _children(core)
    count = below_count(core)
    return NodesBelowAnswer(
        node=core.identity.name,
        nodes=count.nodes,
        down=count.down,
        down_since_s=count.down_since_s,
        children=children,
        children_more=more,
        below=[_node(core, name) for name in page.items],
        more=page.more,
        next=page.next,
    )


def below_count(core: NodeCore) -> BelowCount:
    longest = core.below.longest
    since = None if longest is None else round(core.clock.now - longest, 3)
    return BelowCount(nodes=len(core.below), down=len(core.below.away), down_since_s=since)


def _node(core: NodeCore, name: str) -> BelowNode:
    away, ways = core.below.away.get(name), core.below.ways(name)
    return BelowNode(
        name=name,
        via=ways[0] if ways else "",
        since_s=None if away is None else round(core.clock.now - away.since, 3),
        at_least=away is not None and not away.exact,
    )


async def _children(core: NodeCore) -> tuple[list[BelowChild], int]:
    """Those with most nodes down first, and how many more there are."""
    down: Counter[str] = Counter()
    async for names in chunks(list(core.below.away)):
        for name in names:
            down.update(core.below.ways(name))
    page = await page_of(
        core.context.children(), lambda child: (-down[child.name], child.name), Cut(_CHILDREN)
    )
    now, counts = core.clock.now, core.table.counts()
    listed = [
        BelowChild(
            name=child.name,
            state=child.state,
            since_s=round(now - child.since, 3),
            nodes=counts.get((Kind.DOMAIN, child.name), 0),
            down=down[child.name],
        )
        for child in page.items
    ]
    return listed, page.more
