"""Ancestry: who is above this node, as its parents say.

The *chain* has one name for each level, a mesh under the smallest of its names. All nodes of these meshes
are above as well, and all of them may administer this node: the further ones are told beside the chain.

Law: only parents are asked who is above, and each knows it from its own parents and its own mesh; what a
child says of that, or a node that is no parent, counts nowhere.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from broker.core.links.neighbour import Neighbour
from broker.core.rows import MetaRow
from treeconnector.frames import Hello, Member
from treeconnector.hellos import MAX_ABOVE, mesh_name
from treeconnector.roles import role_of

if TYPE_CHECKING:
    from broker.core.node import NodeCore


class Ancestry:
    """Of one node. `names`: all nodes above it, those of its parents' meshes included."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self._speaker = ""
        self.names: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<Ancestry of {self._core.identity.name} names={len(self.names)}>"

    def restore(self, kept: bytes | None) -> None:
        """What was on disk, when the parents are known again."""
        core = self._core
        chain: list[str] = msgspec.msgpack.decode(kept, type=list[str]) if kept else []
        if core.role.has_parent and chain[:1] == [core.identity.name]:
            core.chain = chain
            core.chronicle.chain(core.root.known_way(chain))
        self.names = self._all_of(core.chain)

    @property
    def further(self) -> list[str]:
        """Those that the chain does not name, as children are told of them."""
        return sorted(self.names.difference(self._core.chain))[:MAX_ABOVE]

    @property
    def in_order(self) -> list[str]:
        """All above, those of the chain first, from the parent up."""
        return [*self._core.chain[1:], *self.further]

    def may_administer(self, name: str) -> bool:
        """Is this a node above this one, or this node itself?"""
        return name == self._core.identity.name or name in self.names

    def heard(self, parent: Neighbour, chain: list[str], above: list[str]) -> None:
        """A parent says what is above it."""
        parent.detail.chain, parent.detail.above = chain, above
        self._core.touch(parent)
        self.look(parent)

    def look(self, spoke: Neighbour | None = None) -> None:
        """A parent has spoken, or its mesh is another one; or, without `spoke`, one has gone."""
        core, parent = self._core, self._believed(spoke)
        chain = core.chain
        if parent is not None and parent.detail.chain:
            self._speaker = parent.name
            way = way_up(parent.detail.chain, parent.detail.mesh)
            core.root.learn(parent.name, parent.detail.role, way)
            chain = [core.identity.name, *way]
        self._set(chain, self._all_of(chain))

    def _believed(self, spoke: Neighbour | None) -> Neighbour | None:
        """The parent whose chain counts: who spoke last, unless another one knows more; None if none does."""
        parents = self._core.neighbourhood.parents()
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
        for parent in self._core.neighbourhood.parents():
            found.update((parent.name, *parent.detail.above), (each.name for each in parent.detail.mesh))
            found.update(parent.detail.chain if parent.up else ())
        return frozenset(found - {self._core.identity.name})

    def _set(self, chain: list[str], names: frozenset[str]) -> None:
        """Keep what is above, and tell the children if it is not what it was."""
        core = self._core
        if (chain, names) == (core.chain, self.names):
            return
        if chain != core.chain:
            core.chain = chain
            core.custody.transaction.put(MetaRow("chain", msgspec.msgpack.encode(chain)))
            core.chronicle.chain(core.root.known_way(chain))
        changed, self.names = names ^ self.names, names
        core.permitting.names_changed(changed)
        for child in core.children():
            if child.link is not None:
                child.link.send_chain(chain, self.further)


def _is_new_here(parent: Neighbour) -> bool:
    """Has it not met its own parent yet? Another node of its mesh knows more."""
    return len(parent.detail.chain) == 1 and role_of(parent.detail.role).has_parent


def way_up(chain: list[str], mesh: Iterable[Member]) -> list[str]:
    """A parent's chain, in which its mesh has the same name whichever of its nodes speaks."""
    first, *rest = chain
    return [mesh_name(first, (member.name for member in mesh)), *rest]


def way_of(parent: Hello) -> list[str]:
    return way_up(parent.chain, parent.mesh)
