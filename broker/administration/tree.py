"""One node's place in the tree: the chain above it, its links, and what is known below each child."""

from typing import TYPE_CHECKING, Any, Final

from broker.administration import answers
from broker.administration.asking import asked
from broker.core.neighbours import Neighbour
from treeconnector.destinations import Kind

if TYPE_CHECKING:
    from broker.node import Node

_MOST_CHILDREN: Final = 5_000
_MOST_NAMES: Final = 10_000
_FIELDS: Final = {"in": "messages_in", "out": "messages_out"}


class TreeView:
    """Sees this node's place, and asks others for theirs."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def here(self) -> answers.Tree:
        """This node's place. Takes as long as it has routes: milliseconds for tens of thousands."""
        core = self._node.core
        children = sorted(core.children(), key=lambda child: child.name)
        room = _MOST_NAMES
        listed: list[answers.TreeChild] = []
        for child in children[:_MOST_CHILDREN]:
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
            children_more=max(len(children) - _MOST_CHILDREN, 0),
        )

    def _parent(self) -> answers.TreeLink | None:
        node, parent = self._node, self._node.core.parent
        dialling = node.supervisor.status() if node.supervisor is not None else {}
        error = str(dialling.get("error", ""))
        if parent is not None:
            link = answers.TreeLink(**self._link(parent))
            link.error = link.error or ("" if parent.up else error)
            return link
        if node.supervisor is None:
            return None
        return answers.TreeLink(name="", state="connecting", since_s=None, error=error, waiting=0)

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
            for name, value in neighbour.figures(self._node.core.moment.now).items()
        }

    async def of(self, name: str) -> answers.Tree:
        """Another node's place. Raises `NotFound`, `Unreachable`, or what that node refuses with."""
        if name == self._node.core.identity.name:
            return self.here()
        return await asked(self._node, name, "tree", {}, answers.Tree)
