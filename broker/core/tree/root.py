"""The root that this node's chain ends at: kept on disk, so that no other root takes its place unnoticed.

Law: a parent that is known may tell another chain, for the tree above it may change. Another parent is
believed where its chain leads to, or past, the root that is known; else the link is dropped with an error
that names both roots. A node forgets its root when it leaves its tree, and when it is told to.
"""

from collections.abc import Iterable

import msgspec

from broker.core.context import Context
from broker.core.rows import MetaRow
from treeconnector.frames import Member
from treeconnector.roles import role_of


class ChainRoot:
    """`name`: of the root, '' while none is known. `parent`: who told."""

    __slots__ = ("_context", "name", "parent")

    def __init__(self, context: Context) -> None:
        self._context = context
        self.name = ""
        self.parent = ""

    def __repr__(self) -> str:
        return f"<ChainRoot {self.name or 'unknown'} above {self._context.name}>"

    def restore(self, kept: bytes | None) -> None:
        """Put back what was on disk."""
        if not kept:
            return
        if self._context.role.has_parent:
            self.name, self.parent = msgspec.msgpack.decode(kept, type=tuple[str, str])
        else:
            self.forget()

    def objection(self, parent: str, role: str, mesh: Iterable[Member], chain: list[str]) -> str:
        """Why this chain, the parent's own, cannot be above this node; '' if it can. `mesh`: beside it."""
        me, known = self._context.name, self.name
        others = {each.name for each in mesh}
        if not known or known in chain or known in others or not _is_whole(role, chain):
            return ""
        if self.parent == parent or self.parent in others:
            return ""
        before = self._context.parents.get(parent)
        if before is not None and before.lists(self.parent):
            return ""  # who told has left their mesh since
        return (
            f"{me!r} belongs below the root {known!r}, but {parent!r} is below the root {chain[-1]!r}:"
            f" a tree has one root. Correct the parent in the file of {me!r}; or, if this is meant, run"
            f" 'sapwood node leave' at {me!r} while its old parent is there, or 'sapwood node forget {known}'"
        )

    def learn(self, parent: str, role: str, chain: list[str]) -> None:
        """A parent was believed."""
        if _is_whole(role, chain) and (self.name, self.parent) != (chain[-1], parent):
            self.name, self.parent = chain[-1], parent
            self._keep(msgspec.msgpack.encode((self.name, self.parent)))

    def known_way(self, chain: list[str]) -> list[str]:
        """Our chain if it ends at the root; ourselves alone while our parent has not met the root yet."""
        return chain if chain[-1] == self.name else chain[:1]

    def forget(self) -> None:
        """Whatever root is met next is the right one."""
        self.name = self.parent = ""
        self._keep(b"")

    def _keep(self, value: bytes) -> None:
        self._context.custody.transaction.put(MetaRow("root", value))


def _is_whole(role: str, chain: list[str]) -> bool:
    """A branch that has not met its own parent yet knows no root."""
    return len(chain) > 1 or not role_of(role).has_parent
