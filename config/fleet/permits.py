"""Permits of a whole chain, from its table and the columns `consume` and `send` in it.

Law: each parent names all its children. A child may do what is below its own name, and what its row grants;
a branch all that is granted below it as well, for it cannot give what it was not given, and have below it
the nodes that the table has there; and one of a mesh may speak of the others.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from config.fleet.tree import Meshes
from config.model import Child
from treeconnector.permits import OWN

if TYPE_CHECKING:
    from config.fleet.row import SiteRow


class Permitted:
    """What the rows of a table, which make one tree, grant."""

    def __init__(self, rows: Sequence["SiteRow"]) -> None:
        self._below: dict[str, list[SiteRow]] = {}
        self._meshes = Meshes(rows)
        for row in rows:
            for parent in self._meshes.above(row):
                self._below.setdefault(parent.name, []).append(row)

    def __repr__(self) -> str:
        return f"<Permitted below {len(self._below)} nodes>"

    def children(self, name: str) -> tuple[Child, ...]:
        """The children of a node, each with what it may do."""
        return tuple(map(self._child, self._below.get(name, ())))

    def _child(self, row: "SiteRow") -> Child:
        below = list(self._all_below(row.name))
        granted = (row, *below)
        return Child(
            name=row.name,
            role="leaf" if row.role == "leaf" else "branch",
            consume=_own_and(rule for each in granted for rule in each.consume.split()),
            send=_own_and(rule for each in granted for rule in each.send.split()),
            nodes=tuple(each.name for each in (*below, *self._meshes.beside(row))),
        )

    def _all_below(self, name: str) -> Iterable["SiteRow"]:
        to_do, seen = list(self._below.get(name, ())), set[str]()
        while to_do:
            row = to_do.pop(0)
            if row.name not in seen:
                seen.add(row.name)
                yield row
                to_do += self._below.get(row.name, ())


def _own_and(rules: Iterable[str]) -> tuple[str, ...]:
    """The rules, each once, beside what is a child's own; nothing where there are none, for that it has."""
    found = tuple(dict.fromkeys((*OWN, *rules)))
    return found if found != OWN else ()
