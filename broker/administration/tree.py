"""One node's place in the tree: the chain above it, its links, and what is known below each child."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from broker.administration import answers
from broker.administration.asking import asked
from broker.administration.pages import MOST, Cut, page_at_once
from broker.core.links.neighbour import Neighbour
from treeconnector.destinations import Kind

if TYPE_CHECKING:
    from broker.node import Node

_MOST_NAMES: Final = 10_000
_ALL: Final = Cut(5 * MOST)
_FIELDS: Final = {"in": "messages_in", "out": "messages_out"}


def by_name(neighbours: Iterable[Neighbour]) -> list[Neighbour]:
    return sorted(neighbours, key=lambda neighbour: neighbour.name)


class TreeView:
    """Sees this node's place, and asks others for theirs."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def here(self, cut: Cut = _ALL) -> answers.Tree:
        """This node's place, with a page of its children.

        Takes as long as it has routes: milliseconds for tens of thousands.
        """
        core = self._node.core
        page = page_at_once(core.children(), lambda child: (child.name,), cut)
        room = _MOST_NAMES
        listed: list[answers.TreeChild] = []
        for child in page.items:
            listed.append(self._child(child, room))
            room -= len(listed[-1].below)
        identity = core.identity
        return answers.Tree(
            node=answers.TreeNode(
                name=identity.name,
                role=identity.role,
                tree=identity.tree,
                depth=len(core.chain) - 1,
                ready=self._node.ready,
            ),
            chain=core.chain,
            parent=self._parent(),
            children=listed,
            children_more=page.more,
            next=page.next,
            parents=[self._dialled(parent) for parent in by_name(core.neighbourhood.parents())],
            mesh=self._mesh(),
        )

    def _parent(self) -> answers.TreeLink | None:
        parent = self._node.core.parent
        if parent is not None:
            return self._dialled(parent)
        return self._unmet("") if self._node.supervisor is not None else None

    def _mesh(self) -> list[answers.TreeLink]:
        """The other nodes of its mesh, those last that it has never met."""
        core = self._node.core
        unmet = sorted(core.mesh.members.keys() - core.neighbours.keys())
        return [*map(self._dialled, by_name(core.mesh.peers())), *map(self._unmet, unmet)]

    def _dialled(self, neighbour: Neighbour) -> answers.TreeLink:
        """A link that this node makes itself, or waits for: while it is down, with what dialling says."""
        link = answers.TreeLink(**self._link(neighbour))
        link.error = link.error or ("" if neighbour.up else self._trouble(neighbour.name))
        return link

    def _unmet(self, name: str) -> answers.TreeLink:
        error = self._trouble(name)
        return answers.TreeLink(name=name, state="connecting", since_s=None, error=error, waiting=0)

    def _trouble(self, name: str) -> str:
        """What is in the way of dialling a node: its own supervisor knows, or the connector's."""
        node = self._node
        supervisor = node.diallers.supervisors.get(name, node.supervisor)
        return supervisor.error if supervisor is not None else ""

    def _child(self, child: Neighbour, room: int) -> answers.TreeChild:
        below = sorted(
            (key.name, route.live)
            for key, route in self._node.core.table.routes_of(child.name).items()
            if key.kind == Kind.DOMAIN and key.name != child.name
        )
        listed = [answers.Below(name=name, live=live) for name, live in below[: max(room, 0)]]
        return answers.TreeChild(
            **self._link(child),
            role=child.detail.role,
            dormant=child.dormant,
            below=listed,
            below_more=len(below) - len(listed),
        )

    def _link(self, neighbour: Neighbour) -> dict[str, Any]:
        return {
            _FIELDS.get(name, name): value
            for name, value in neighbour.figures(self._node.core.clock.now).items()
        }

    async def of(self, name: str, cut: Cut) -> answers.Tree:
        """Another node's place. Raises `NotFound`, `Unreachable`, or what that node refuses with."""
        if name == self._node.core.identity.name:
            return self.here(cut)
        return await asked(self._node, name, "tree", cut._asdict(), answers.Tree)
