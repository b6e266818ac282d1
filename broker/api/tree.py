"""One node's place in the tree: the chain above it, its links, and what is known below each child."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from broker.api.context import RunningNode
from broker.api.operation import AWAY, NODE, PAGE, Answer, operation
from broker.api.pages import Cut, page_of
from broker.core.links.neighbour import Neighbour
from sapwood.protocol.destinations import Kind

_MOST_NAMES: Final = 10_000
_FIELDS: Final = {"in": "messages_in", "out": "messages_out"}


class TreeNode(Answer):
    name: str
    role: str
    tree: str
    depth: int
    ready: bool


class TreeLink(Answer):
    """A link, with figures as `/api/status` has them. `waiting`: messages for it; `outbox`: bundles on their
    way; `in`, `out`: messages. `heard_s` null: there is no link now. `refused`: routes and bundles of it that
    were refused here, `refused_us`: of ours by it."""

    name: str
    state: str
    since_s: float | None
    error: str
    waiting: int
    outbox: int = 0
    routes: int = 0
    spool_oldest_s: float = 0.0
    heard_s: float | None = None
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    messages_in: int = msgspec.field(name="in", default=0)
    messages_out: int = msgspec.field(name="out", default=0)
    bytes_in: int = 0
    bytes_out: int = 0
    refused: int = 0
    refused_us: int = 0


class Below(Answer):
    """A node that is known below a child."""

    name: str
    live: bool


class TreeChild(TreeLink, kw_only=True):
    """`below`: the nodes known below it, itself left out; `below_more`: how many of them are not
    listed; its routes of the kind domain list all, a page at a time."""

    role: str
    dormant: bool
    below: list[Below]
    below_more: int


class Tree(Answer):
    """One node's place: `chain` from itself up to the root, the link to its parent, a page of its children.

    `parents`: all nodes above that it is linked with, several where they are a mesh; `parent` is one of them.
    `mesh`: the other nodes of its own.
    """

    node: TreeNode
    chain: list[str]
    parent: TreeLink | None
    children: list[TreeChild]
    children_more: int
    next: str | None = None
    parents: list[TreeLink] = msgspec.field(default_factory=list)
    mesh: list[TreeLink] = msgspec.field(default_factory=list)


def by_name(neighbours: Iterable[Neighbour]) -> list[Neighbour]:
    return sorted(neighbours, key=lambda neighbour: neighbour.name)


async def here(node: RunningNode, cut: Cut) -> Tree:
    """This node's place, with a page of its children."""
    core = node.core
    page = await page_of(core.context.children(), lambda child: (child.name,), cut)
    room = _MOST_NAMES
    listed: list[TreeChild] = []
    for child in page.items:
        listed.append(await _child(node, child, room))
        room -= len(listed[-1].below)
    identity = core.identity
    return Tree(
        node=TreeNode(
            name=identity.name,
            role=identity.role,
            tree=identity.tree,
            depth=len(core.ancestry.chain) - 1,
            ready=node.driver.ready,
        ),
        chain=core.ancestry.chain,
        parent=_parent(node),
        children=listed,
        children_more=page.more,
        next=page.next,
        parents=[_dialled(node, parent) for parent in by_name(core.neighbourhood.parents())],
        mesh=_mesh(node),
    )


@operation("GET", "/api/tree", "This node's place in the tree.", "tree", PAGE)
async def own(node: RunningNode, cut: Cut) -> Tree:
    """This node's place."""
    return await here(node, cut)


@operation(
    "GET",
    "/api/tree/{node}",
    "Another node's place, as it sees it itself.",
    "tree",
    (NODE, *PAGE),
    remote="tree",
    errors=AWAY,
)
async def place(node: RunningNode, cut: Cut) -> Tree:
    """The place of the node that is asked."""
    return await here(node, cut)


def _parent(node: RunningNode) -> TreeLink | None:
    parent = node.core.parent
    if parent is not None:
        return _dialled(node, parent)
    return _unmet(node, "") if node.diallers.main is not None else None


def _mesh(node: RunningNode) -> list[TreeLink]:
    """The other nodes of its mesh, those last that it has never met."""
    core = node.core
    unmet = sorted(core.mesh.members.keys() - core.neighbours.keys())
    return [
        *(_dialled(node, each) for each in by_name(core.context.peers())),
        *(_unmet(node, each) for each in unmet),
    ]


def _dialled(node: RunningNode, neighbour: Neighbour) -> TreeLink:
    """A link that this node makes itself, or waits for: while it is down, with what dialling says."""
    link = TreeLink(**_link(node, neighbour))
    link.error = link.error or ("" if neighbour.up else _trouble(node, neighbour.name))
    return link


def _unmet(node: RunningNode, name: str) -> TreeLink:
    error = _trouble(node, name)
    return TreeLink(name=name, state="connecting", since_s=None, error=error, waiting=0)


def _trouble(node: RunningNode, name: str) -> str:
    """What is in the way of dialling a node: its own supervisor knows, or the connector's."""
    supervisor = node.diallers.of(name)
    return supervisor.error if supervisor is not None else ""


async def _child(node: RunningNode, child: Neighbour, room: int) -> TreeChild:
    below = await page_of(
        node.core.table.routes_of(child.name).values(),
        lambda route: (route.key.name,),
        Cut(max(room, 0)),
        lambda route: route.key.kind == Kind.DOMAIN and route.key.name != child.name,
    )
    listed = [Below(name=route.key.name, live=route.live) for route in below.items]
    return TreeChild(
        **_link(node, child),
        role=child.detail.role,
        dormant=child.dormant,
        below=listed,
        below_more=below.more,
    )


def _link(node: RunningNode, neighbour: Neighbour) -> dict[str, Any]:
    return link_fields(neighbour.figures(node.core.clock.now))


def link_fields(figures: dict[str, Any]) -> dict[str, Any]:
    """A link's figures by the names that they have as attributes: `in` is a word of Python's."""
    return {_FIELDS.get(name, name): value for name, value in figures.items()}
