"""Ancestry: who is above this node, as its parents say.

The *chain* has one name for each level, a mesh under the smallest of its names. All nodes of these meshes
are above as well, and all of them may administer this node: the further ones are told beside the chain.

Law: only parents are asked who is above, and each knows it from its own parents and its own mesh; what a
child says of that, or a node that is no parent, counts nowhere.
"""

from collections.abc import Iterable, Mapping

import msgspec

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.policy import Policy
from broker.core.rows import MetaRow
from broker.core.tree.open_links import OpenLinks
from broker.core.tree.root import ChainRoot
from sapwood.protocol.errors import Refusal
from treeconnector.frames import Hello, Member
from treeconnector.hellos import MAX_ABOVE, mesh_name
from treeconnector.link import Link
from treeconnector.link_events import ChainChanged, Event, LinkUp
from treeconnector.relations import Relation
from treeconnector.roles import role_of


class Ancestry(Policy):
    """Of one node. `chain`: from itself up. `names`: all above it, those of its parents' meshes included."""

    __slots__ = ("_context", "_links", "_root", "_speaker", "chain", "names")

    def __init__(self, context: Context, links: OpenLinks, root: ChainRoot) -> None:
        self._context = context
        self._links = links
        self._root = root
        self._speaker = ""
        self.chain = [context.name]
        self.names: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<Ancestry of {self._context.name} names={len(self.names)}>"

    def restore_chain(self, meta: Mapping[str, bytes]) -> None:
        """What was on disk, when the parents are known again."""
        context, kept = self._context, meta.get("chain")
        chain: list[str] = msgspec.msgpack.decode(kept, type=list[str]) if kept else []
        if context.role.has_parent and chain[:1] == [context.name]:
            self.chain = chain
            context.log.chain(self._root.known_way(chain))
        self.names = self._all_of(self.chain)

    def restore(self, meta: Mapping[str, bytes]) -> None:
        self._root.restore(meta.get("root"))

    @property
    def further(self) -> list[str]:
        """Those that the chain does not name, as children are told of them."""
        return sorted(self.names.difference(self.chain))[:MAX_ABOVE]

    @property
    def in_order(self) -> list[str]:
        """All above, those of the chain first, from the parent up."""
        return [*self.chain[1:], *self.further]

    def may_administer(self, name: str) -> bool:
        """Is this a node above this one, or this node itself?"""
        return name == self._context.name or name in self.names

    def link_up(self, neighbour: Neighbour, up: LinkUp) -> None:
        """Tell a child what has changed while its link came up: our hello was made before."""
        link, now = neighbour.link, (self.chain, self.further)
        if neighbour.relation is not Relation.CHILD or link is None:
            return
        if (up.ours.chain, up.ours.above) != now:
            link.say.chain(*now)

    def objection(self, parent: Hello) -> str:
        """Why this parent, with its way up, cannot be above this node; '' if it can."""
        return self._root.objection(parent.name, parent.role, parent.mesh, way_of(parent))

    def said(self, neighbour: Neighbour, event: Event) -> None:
        if isinstance(event, ChainChanged) and neighbour.relation is Relation.PARENT:
            assert neighbour.link is not None
            self._chain_changed(neighbour, neighbour.link, event.chain, event.above)

    def _chain_changed(self, parent: Neighbour, link: Link, chain: list[str], above: list[str]) -> None:
        me = self._context.name
        if me in chain or me in above:
            text = f"{me!r} is in its own chain of parents: {' > '.join(chain)}"
            self._links.refuse(link, Refusal.CYCLE, text)
            return
        detail, way = parent.detail, way_up(chain, parent.detail.mesh)
        objection = self._root.objection(parent.name, detail.role, detail.mesh, way)
        if objection:
            self._links.refuse(link, Refusal.SECOND_ROOT, objection)
            return
        self.heard(parent, chain, above)

    def heard(self, parent: Neighbour, chain: list[str], above: list[str]) -> None:
        """A parent says what is above it."""
        parent.detail.chain, parent.detail.above = chain, above or ()
        self._context.touch(parent)
        self.look(parent)

    def look(self, spoke: Neighbour | None = None) -> None:
        """A parent has spoken, or its mesh is another one; or, without `spoke`, one has gone."""
        parent = self._believed(spoke)
        chain = self.chain
        if parent is not None and parent.detail.chain:
            self._speaker = parent.name
            way = way_up(parent.detail.chain, parent.detail.mesh)
            self._root.learn(parent.name, parent.detail.role, way)
            chain = [self._context.name, *way]
        self._set(chain, self._all_of(chain))

    def _believed(self, spoke: Neighbour | None) -> Neighbour | None:
        """The parent whose chain counts: who spoke last, unless another one knows more; None if none does."""
        parents = list(self._context.parents.values())
        if spoke is None:
            known = [each for each in parents if each.detail.chain]
            before = (each for each in known if each.name == self._speaker)
            return next(before, None) or next((each for each in known if each.up), None)
        if _is_new_here(spoke):
            return next((each for each in parents if each.up and len(each.detail.chain) > 1), spoke)
        return spoke

    def _all_of(self, chain: Iterable[str]) -> frozenset[str]:
        """Those of the chain, and of the meshes on the way."""
        found = set(chain)
        for parent in self._context.parents.values():
            found.update((parent.name, *parent.detail.above), (each.name for each in parent.detail.mesh))
            found.update(parent.detail.chain if parent.up else ())
        return frozenset(found - {self._context.name})

    def _set(self, chain: list[str], names: frozenset[str]) -> None:
        """Keep what is above, and tell the children if it is not what it was."""
        context = self._context
        if (chain, names) == (self.chain, self.names):
            return
        if chain != self.chain:
            self.chain = chain
            context.custody.transaction.put(MetaRow("chain", msgspec.msgpack.encode(chain)))
            context.log.chain(self._root.known_way(chain))
        changed, self.names = names ^ self.names, names
        context.policies.tell(Policy.names_changed, tuple(changed))
        for child in context.children():
            if child.link is not None:
                child.link.say.chain(chain, self.further)


def _is_new_here(parent: Neighbour) -> bool:
    """Has it not met its own parent yet? Another node of its mesh knows more."""
    return len(parent.detail.chain) == 1 and role_of(parent.detail.role).has_parent


def way_up(chain: Iterable[str], mesh: Iterable[Member]) -> list[str]:
    """A parent's chain, in which its mesh has the same name whichever of its nodes speaks."""
    first, *rest = chain
    return [mesh_name(first, (member.name for member in mesh)), *rest]


def way_of(parent: Hello) -> list[str]:
    return way_up(parent.chain, parent.mesh)
