"""Whether the rows of a table make one tree.

Law: exactly one root, every other row below a parent that is in the table, no way back to itself, no name
twice, no child below a leaf, and an address wherever a child must dial.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from config.errors import Problem, did_you_mean
from config.kinds import Fault

if TYPE_CHECKING:
    from config.fleet.table import SiteRow

ROLES: Final = ("leaf", "branch", "root")
MAX_NAMED: Final = 10


def tree_problems(rows: Sequence[SiteRow]) -> list[Problem]:
    """Return everything that keeps `rows` from being one tree."""
    by_name: dict[str, SiteRow] = {}
    for row in rows:
        by_name.setdefault(row.name, row)
    checks = (_names(rows), _roots(rows), _parents(rows, by_name), _cycles(rows, by_name), _shared(rows))
    return [problem for check in checks for problem in check]


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
        message = f"{row.name!r} is a second root, the first is {_where(roots[0])}: a tree has one"
        yield _problem(row, "role", message)
    if not roots and all(row.role in ROLES for row in rows):
        file = rows[0].file if rows else ""
        yield Problem("there is no root: exactly one row needs the role root and no parent", file)


def _parents(rows: Sequence[SiteRow], by_name: dict[str, SiteRow]) -> Iterator[Problem]:
    children = Counter(row.parent for row in rows if row.parent)
    for row in rows:
        parent = by_name.get(row.parent)
        if row.role == "root" and row.parent:
            yield _problem(row, "parent", f"{row.name!r} is the root and has no parent: empty this cell")
        elif row.role in ("leaf", "branch") and not row.parent:
            yield _problem(row, "parent", f"{row.name!r} is an orphan: a {row.role} needs a parent")
        elif row.parent and parent is None:
            near = did_you_mean(row.parent, by_name)
            yield _problem(row, "parent", f"{row.name!r} is an orphan: no row is named {row.parent!r}{near}")
        elif parent is not None and parent.role == "leaf" and parent is not row:
            message = f"{_where(parent)} is a leaf and has no children: make it a branch"
            yield _problem(row, "parent", message)
        if by_name[row.name] is row and children[row.name] and not row.address:
            message = f"{row.name!r} has children ({children[row.name]}) and needs an address that they dial"
            yield _problem(row, "address", message)


def _cycles(rows: Sequence[SiteRow], by_name: dict[str, SiteRow]) -> Iterator[Problem]:
    done: set[str] = set()
    for row in rows:
        way: dict[str, SiteRow] = {}
        here: SiteRow | None = row
        while here is not None and here.name not in done and here.name not in way:
            way[here.name] = here
            here = by_name.get(here.parent)
        if here is not None and here.name in way:
            names = list(way)
            yield _problem(here, "parent", f"a cycle: {_route(names[names.index(here.name) :])}")
        done |= way.keys()


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
