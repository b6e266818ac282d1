"""The tree, from a table of sites: who is above whom, how deep, how many are below.

Law: the nodes of a mesh are one *place*, named like the first of them; every other node is a place of its
own. Trees are made of places. A mesh are the rows with the same word in the column `mesh`, and those of role
`core` without a parent; `parent` may name several nodes of one mesh, with spaces between.
"""

import itertools
from typing import Any, Final, NamedTuple

import numpy
import pyarrow as arrow
from numpy.typing import NDArray
from pyarrow import Table, compute

from audit import sites
from audit.errors import UsageError
from audit.queries import query, rows

MOST_LEVELS: Final = 64
MOST_ROOTS: Final = 32
NAMED: Final = 10
Numbers = NDArray[numpy.int32]
"""A place is numbered by the row that the first of its nodes has in the table of sites."""
NODES: Final = ("node", "parent", "role", "depth", "region", "place", "below")
"""A row a node. `place`: the node itself, in a mesh the smallest of its names, which stands for all; `parent`
is a place, null at the root; `below`: places in its subtree, itself not counted."""


class Tree(NamedTuple):
    """`nodes` has `NODES`, and `number`, that of its place. `places` is a row a place: (number, place, up,
    depth, below, size), `up` the number of its parent, `size` how many nodes it has. `ancestors` is (number,
    ancestor, hops), every place 0 hops from itself. `root` is the name of the root's place, `roots` its
    nodes."""

    nodes: Table
    places: Table
    ancestors: Table
    root: str
    roots: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Tree {self.root} places={len(self.places)} nodes={len(self.nodes)}>"

    @property
    def members(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)

    @property
    def meshed(self) -> bool:
        """Is there any mesh?"""
        return len(self.nodes) > len(self.places)


def load_tree(path: str, far: sites.Far | None = None) -> Tree:
    """The tree of a table of sites. Raises `UsageError` that names the table and what is wrong with it."""
    tables = [sites.read(path, far)]
    try:
        return make_tree(tables.pop())  # nobody else keeps it: it is half of what a large tree takes
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def make_tree(table: Table) -> Tree:
    """Make the tree of sites (`sites.SITES`). Raises `UsageError` that names what is wrong with them."""
    roots = _roots(table)
    table = table.append_column("row", arrow.array(numpy.arange(len(table), dtype=numpy.int32)))
    names = table["name"].combine_chunks()
    roles = compute.utf8_lower(compute.fill_null(table["role"], "")).dictionary_encode()
    standing = _standing(table, roots[0])
    place = table["row"].to_numpy().copy()
    place[standing["row"].to_numpy()] = standing["number"].to_numpy()
    up = _up(table, standing)
    del table
    _refuse_broken_meshes(names, standing, up)
    numbers = numpy.unique(place)
    climbed = _climb(names, up, numbers, int(place[names.index(roots[0]).as_py()]))
    columns: dict[str, NDArray[Any]] = {"depth": climbed.depth, "below": climbed.below}
    meshed = len(numbers) < len(names)
    places = {
        "number": numbers,
        "place": names.take(arrow.array(numbers)) if meshed else names,
        "up": arrow.array(up[numbers], mask=up[numbers] < 0),
        **{name: cells[numbers] for name, cells in columns.items()},
        "size": numpy.bincount(place)[numbers].astype(numpy.int32),
    }
    nodes = {
        "node": names,
        "parent": _few(names, up[place]),
        "role": roles,
        "region": _few(names, climbed.region[place]),
        "place": names.take(arrow.array(place)) if meshed else names,
        **{name: cells[place] for name, cells in columns.items()},
        "number": place,
    }
    found = arrow.table(nodes).select([*NODES, "number"])
    return Tree(found, arrow.table(places), climbed.ancestors, roots[0], roots)


def _few(names: arrow.StringArray, numbers: Numbers) -> arrow.DictionaryArray:
    """The names in these rows, kept once each; null for a number below 0."""
    distinct, codes = numpy.unique(numbers, return_inverse=True)
    none = int(distinct[0] < 0)
    indices = arrow.array(codes.astype(numpy.int32) - none, mask=numbers < 0)
    return arrow.DictionaryArray.from_arrays(indices, names.take(arrow.array(distinct[none:])))


def _standing(table: Table, root: str) -> Table:
    """(row, member, number): the nodes of meshes, and of the root, each with the number of its place."""
    return query(
        """with firsts as (
            select mesh, min(name) as first from sites where mesh is not null group by mesh),
        stands as (
            select row, name as member, case when parent is null then $root else first end as first
            from sites left join firsts using (mesh) where parent is null or first is not null)
        select stands.row, member, sites.row as number from stands join sites on name = first""",
        sites=table,
        root=root,
    )


def _up(table: Table, standing: Table) -> Numbers:
    """By row the number of its parent's place; -1 where there is none. Few are parents: only their names are
    looked up. Raises `UsageError` where a row names parents that are not one place."""
    parents = table["parent"].combine_chunks().dictionary_encode()
    found = query(
        """with named as (select code, unnest(string_split_regex(spelt, '\\s+')) as name from spelt)
        select min(coalesce(number, sites.row, -1)) as first, max(coalesce(number, sites.row, -1)) as last
        from named left join sites using (name) left join standing on member = name
        group by code order by code""",
        spelt=arrow.table({"code": numpy.arange(len(parents.dictionary)), "spelt": parents.dictionary}),
        sites=table.select(["name", "row"]),
        standing=standing,
    )
    codes = parents.indices.fill_null(-1).to_numpy()
    first: Numbers
    none = numpy.int32(-1)
    first, last = (numpy.append(found[name].to_numpy(), none)[codes] for name in ("first", "last"))
    if (first != last).any():
        split = _list(table["name"].filter(arrow.array(first != last)))
        raise UsageError(f"{split}: several parents that are not one mesh: give them one word in column mesh")
    return first


def _refuse_broken_meshes(names: arrow.StringArray, standing: Table, up: Numbers) -> None:
    """The nodes of a mesh have the same parent."""
    rows, numbers = (standing[name].to_numpy() for name in ("row", "number"))
    broken = numpy.unique(numbers[up[rows] != up[numbers]])
    if len(broken):
        raise UsageError(
            f"{_list(names.take(arrow.array(broken)))}: a mesh whose nodes have different parents: they need"
            " the same"
        )


def _roots(table: Table) -> tuple[str, ...]:
    """The nodes of the root, the first of which names its place."""
    twice = query(
        "select name from sites group by name having count(*) > 1 order by name limit $named",
        sites=table,
        named=NAMED,
    )
    if len(twice):
        raise UsageError(f"{_list(twice['name'])}: named twice: every node needs its own name")
    tops = query(
        "select name, lower(role) as role, mesh from sites where parent is null order by name limit $most",
        sites=table,
        most=MOST_ROOTS + 1,
    )
    found = rows(tops)
    if not found:
        raise UsageError("the table of sites has no root: exactly one row has no parent (or one mesh)")
    cores = all(row["role"] == "core" for row in found)
    one_mesh = found[0]["mesh"] is not None and len({row["mesh"] for row in found}) == 1
    if (len(found) > 1 and not (cores or one_mesh)) or len(found) > MOST_ROOTS:
        raise UsageError(
            f"{_list(tops['name'])}: several rows without a parent: a tree has one root (or one mesh of them)"
        )
    return tuple(row["name"] for row in found)


def _list(names: arrow.Array | arrow.ChunkedArray) -> str:
    return ", ".join(map(repr, sorted(names.to_pylist())[:NAMED]))


class _Climbed(NamedTuple):
    """By number: how `depth` it is, how many places are `below`, its `region` (-1 at the root)."""

    ancestors: Table
    depth: "NDArray[numpy.uint8]"
    below: Numbers
    region: Numbers


def _climb(names: arrow.StringArray, up: Numbers, numbers: Numbers, root: int) -> _Climbed:
    """Go up from all places at once, a level at a time, until all have arrived at the root."""
    depth, below = numpy.zeros(len(up), numpy.uint8), numpy.zeros(len(up), numpy.int32)
    region, arrived = numpy.full(len(up), -1, numpy.int32), numpy.zeros(len(up), numpy.bool_)
    here = above = numbers
    levels = []
    for hops in itertools.count():
        circle = (here == above) | (hops > MOST_LEVELS)
        if hops and circle.any():
            round_ = _list(names.take(arrow.array(here[circle])))
            raise UsageError(f"{round_}: a circle, or more than {MOST_LEVELS} levels from the root")
        levels.append(_level(here, above, hops))
        depth[here] = hops
        below += numpy.bincount(above, minlength=len(up)).astype(numpy.int32) if hops else 0
        top = up[above] == root
        region[here[top]] = above[top]
        arrived[here[above == root]] = True
        more = up[above] >= 0
        here, above = here[more], up[above[more]]
        if not len(here):
            break
    if not arrived[numbers].all():
        lost = _list(names.take(arrow.array(numbers[~arrived[numbers]])))
        raise UsageError(
            f"{lost}: no way up to the root {names[root].as_py()!r}: a parent is missing from the table of"
            " sites"
        )
    return _Climbed(arrow.concat_tables(levels), depth, below, region)


def _level(here: Numbers, above: Numbers, hops: int) -> Table:
    return arrow.table({"number": here, "ancestor": above, "hops": numpy.full(len(here), hops, numpy.uint8)})


def relations(tree: Tree) -> Table:
    """(node, other): names of places of which one is an ancestor of the other, or both are one place. Both
    ways round."""
    return query(
        """with names as (select number, place from places), related as (
            select number, ancestor as other from ancestors
            union all select ancestor, number from ancestors where hops > 0)
        select a.place as node, b.place as other from related as r
        join names as a on a.number = r.number join names as b on b.number = r.other""",
        places=tree.places,
        ancestors=tree.ancestors,
    )
