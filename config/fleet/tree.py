"""Whether the rows of a table make one tree.

Law: exactly one root, or one mesh of them, every other row below a parent that is in the table, no way back
to itself, no name twice, no child below a leaf, and an address wherever others must dial.

Law: rows with the same word in the column `mesh` are one node to all others: they have one role and the same
parents, and are two at least. Who is below one of them is below all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from config.errors import Problem, did_you_mean
from config.fleet.row import ROLES, SiteRow
from config.kinds import Fault
from treeconnector.hellos import MAX_CHAIN

MAX_NAMED: Final = 10


def tree_problems(rows: Sequence[SiteRow], *, dialled: bool = True) -> list[Problem]:
    """Return everything that keeps `rows` from being one tree. `dialled`: their addresses are, so that none
    may be missing."""
    by_name: dict[str, SiteRow] = {}
    for row in rows:
        by_name.setdefault(row.name, row)
    checks = (
        _names(rows),
        _roots(rows),
        _parents(rows, by_name),
        _unreachable(rows, by_name) if dialled else (),
        _meshes(rows),
        _cycles(rows, by_name),
        _shared(rows),
    )
    return [problem for check in checks for problem in check]


class Meshes:
    """Which rows of a table are one node to all others."""

    def __init__(self, rows: Sequence[SiteRow]) -> None:
        self._by_name = {row.name: row for row in rows}
        self._members: dict[str, list[SiteRow]] = {}
        for row in rows:
            if row.mesh:
                self._members.setdefault(row.mesh, []).append(row)

    def __repr__(self) -> str:
        return f"<Meshes {', '.join(self._members) or 'none'}>"

    def __iter__(self) -> Iterator[list[SiteRow]]:
        return iter(self._members.values())

    def of(self, row: SiteRow) -> list[SiteRow]:
        """The row, and those that are one node with it, in the table's order."""
        return self._members.get(row.mesh, [row])

    def beside(self, row: SiteRow) -> list[SiteRow]:
        return [each for each in self.of(row) if each.name != row.name]

    def above(self, row: SiteRow) -> list[SiteRow]:
        """All nodes that the row's node is linked with as its parents: first those that the row names."""
        named = [self._by_name[name] for name in row.parents if name in self._by_name]
        every = {each.name: each for parent in named for each in self.of(parent)}
        return list({row.name: row for row in (*named, *every.values())}.values())


def _problem(row: SiteRow, column: str, message: str) -> Problem:
    return Problem(message, row.file, row.line or None, column)


def _where(row: SiteRow) -> str:
    return f"{row.name!r} in line {row.line}" if row.line else repr(row.name)


def _names(rows: Sequence[SiteRow]) -> Iterator[Problem]:
    """Names differing only by case would be one file on some file systems."""
    seen: dict[str, SiteRow] = {}
    for row in rows:
        first = seen.setdefault(row.name.lower(), row)
        if first is not row and row.name:
            twice = "stands twice, first as" if first.name == row.name else "differs only in case from"
            yield _problem(
                row, "name", f"{row.name!r} {twice} {_where(first)}: every node needs its own name"
            )


def _roots(rows: Sequence[SiteRow]) -> Iterator[Problem]:
    roots = [row for row in rows if row.role == "root"]
    for row in roots[1:]:
        if not row.mesh or row.mesh != roots[0].mesh:
            message = (
                f"{row.name!r} is a second root, the first is {_where(roots[0])}: a tree has one,"
                " or several with the same word in the column mesh"
            )
            yield _problem(row, "role", message)
    if not roots and all(row.role in ROLES for row in rows):
        file = rows[0].file if rows else ""
        yield Problem("there is no root: exactly one row needs the role root and no parent", file)


def _parents(rows: Sequence[SiteRow], by_name: Mapping[str, SiteRow]) -> Iterator[Problem]:
    for row in rows:
        if row.role == "root" and row.parent:
            yield _problem(row, "parent", f"{row.name!r} is the root and has no parent: empty this cell")
        elif row.role in ("leaf", "branch") and not row.parent:
            yield _problem(row, "parent", f"{row.name!r} is an orphan: a {row.role} needs a parent")
        else:
            yield from _named_parents(row, by_name)


def _unreachable(rows: Sequence[SiteRow], by_name: Mapping[str, SiteRow]) -> Iterator[Problem]:
    meshes = Meshes(rows)
    children = Counter(parent.name for row in rows for parent in meshes.above(row))
    for row in rows:
        dialled_by = f"children ({children[row.name]})" if children[row.name] else "others in its mesh"
        if by_name[row.name] is row and not row.address and (children[row.name] or meshes.beside(row)):
            message = f"{row.name!r} has {dialled_by} and needs an address that they dial"
            yield _problem(row, "address", message)


def _named_parents(row: SiteRow, by_name: Mapping[str, SiteRow]) -> Iterator[Problem]:
    first = by_name.get(row.parents[0]) if row.parents else None
    for name in row.parents:
        parent = by_name.get(name)
        if parent is None:
            near = did_you_mean(name, by_name)
            yield _problem(row, "parent", f"{row.name!r} is an orphan: no row is named {name!r}{near}")
        elif parent.role == "leaf" and parent is not row:
            message = f"{_where(parent)} is a leaf and has no children: make it a branch"
            yield _problem(row, "parent", message)
        elif first is not None and parent is not first and not (parent.mesh and parent.mesh == first.mesh):
            message = (
                f"{first.name!r} and {name!r} are not one mesh: a node has one parent, or several with the"
                " same word in the column mesh"
            )
            yield _problem(row, "parent", message)


def _meshes(rows: Sequence[SiteRow]) -> Iterator[Problem]:
    meshes = Meshes(rows)
    for members in meshes:
        first, *others = members
        if first.role == "leaf":
            yield _problem(first, "mesh", f"{first.name!r} is a leaf, and in no mesh: empty this cell")
        elif not others:
            message = f"{first.name!r} is alone in the mesh {first.mesh!r}: the others need the same word"
            yield _problem(first, "mesh", message)
        above = {each.name for each in meshes.above(first)}
        for row in others:
            if (row.role, {each.name for each in meshes.above(row)}) != (first.role, above):
                message = (
                    f"{row.name!r} and {_where(first)} are one mesh: they need the same role and parents"
                )
                yield _problem(row, "mesh", message)


def _cycles(rows: Sequence[SiteRow], by_name: Mapping[str, SiteRow]) -> Iterator[Problem]:
    """And of what is none the first node that is too far from the root, for it could not say its way up."""
    done: dict[str, int] = {}
    deep = False
    for row in rows:
        way: dict[str, SiteRow] = {}
        here: SiteRow | None = row
        while here is not None and here.name not in done and here.name not in way:
            way[here.name] = here
            here = by_name.get(here.parents[0]) if here.parents else None
        if here is not None and here.name in way:
            names = list(way)
            yield _problem(here, "parent", f"a cycle: {_route(names[names.index(here.name) :])}")
            done |= dict.fromkeys(way, 0)
            continue
        names_up = done[here.name] if here is not None else 0
        for each in reversed(way.values()):
            names_up = done[each.name] = names_up + 1
            if names_up > MAX_CHAIN and not deep:
                deep = True
                message = (
                    f"{each.name!r} has more than {MAX_CHAIN - 1} links to the root: give it a nearer parent"
                )
                yield _problem(each, "parent", message)


def _route(names: list[str]) -> str:
    shown = names if len(names) <= MAX_NAMED else [*names[:MAX_NAMED], "…"]
    return " -> ".join([*shown, names[0]])


def _shared(rows: Sequence[SiteRow]) -> Iterator[Problem]:
    """One tree's name, and no address twice."""
    tree: SiteRow | None = None
    seen: dict[str, SiteRow] = {}
    for row in rows:
        if row.tree and tree and row.tree != tree.tree:
            message = (
                f"{row.tree!r} is another tree than {tree.tree!r} of {_where(tree)}: one table, one tree"
            )
            yield _problem(row, "tree", message)
        tree = tree or (row if row.tree else None)
        for uri in _readable_addresses(row):
            first = seen.setdefault(uri, row)
            if first is not row:
                yield _problem(row, "address", f"{uri} is already the address of {_where(first)}")


def _readable_addresses(row: SiteRow) -> tuple[str, ...]:
    try:
        return row.addresses
    except Fault:  # is reported with its cell
        return ()
