"""The tree, from a table of sites: who is above whom, how deep, how many are below.

Law: the nodes of a mesh are one *place*, named like the first of them; every other node is a place of its
own. Trees are made of places. A mesh are the rows with the same word in the column `mesh`, and those of role
`core` without a parent; `parent` may name several nodes of one mesh, with spaces between.
"""

from typing import Final, NamedTuple

import pyarrow as arrow
from pyarrow import Table

from audit import sites
from audit.errors import UsageError
from audit.queries import query, rows

MOST_LEVELS: Final = 64
MOST_ROOTS: Final = 32
NAMED: Final = 10
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
    standing = _standing(table, roots[0])
    placed = _short(_placed(table, standing), "parent", "role")
    _refuse_broken_meshes(table, standing, placed)
    del table
    links = _links(placed)
    ancestors = _ancestors(links)
    _refuse_orphans(links, ancestors, roots[0])
    places = query(
        """with depths as (
            select a.number, hops as depth from ancestors as a join links as top on a.ancestor = top.number
            where top.up is null),
        under as (
            select ancestor as number, count(*) as below from ancestors where hops > 0 group by ancestor)
        select number, place, up, depth, coalesce(below, 0)::int as below, size
        from links join depths using (number) left join under using (number)""",
        links=links,
        ancestors=ancestors,
    )
    del links
    nodes = query(
        """with regions as (
            select a.number, r.place as region from ancestors as a join places as r on r.number = a.ancestor
            where r.depth = 1)
        select node, parent, role, depth, region, place, below, number
        from placed join places using (place) left join regions using (number)""",
        placed=placed,
        places=places,
        ancestors=ancestors,
    )
    return Tree(_short(nodes, "parent", "role", "region"), places, ancestors, roots[0], roots)


def _short(table: Table, *names: str) -> Table:
    """The same, with the few words of these columns kept once each."""
    for name in names:
        place = table.column_names.index(name)
        table = table.set_column(place, name, table[name].dictionary_encode())
    return table


def _standing(table: Table, root: str) -> Table:
    """(member, stands): the nodes of meshes, with the place of each."""
    return query(
        """with firsts as (
            select mesh, min(name) as first from sites where mesh is not null group by mesh)
        select name as member, case when parent is null then $root else first end as stands
        from sites left join firsts using (mesh) where parent is null or first is not null""",
        sites=table,
        root=root,
    )


def _placed(table: Table, standing: Table) -> Table:
    """(node, parent, role, place): `parent` is the place of the first parent that a row names."""
    return query(
        """with named as (select *, string_split_regex(parent, '\\s+')[1] as first from sites)
        select name as node, coalesce(above.stands, first) as parent, lower(coalesce(role, '')) as role,
            coalesce(own.stands, name) as place
        from named left join standing as own on name = own.member
        left join standing as above on first = above.member""",
        sites=table,
        standing=standing,
    )


def _refuse_broken_meshes(table: Table, standing: Table, placed: Table) -> None:
    """All parents that a row names are one place, and the nodes of a mesh have the same."""
    split = query(
        """with several as (select * from sites where regexp_matches(parent, '\\s')),
        named as (select name, unnest(string_split_regex(parent, '\\s+')) as member from several)
        select name from named left join standing using (member)
        group by name having count(distinct coalesce(stands, member)) > 1 order by name limit $named""",
        sites=table,
        standing=standing,
        named=NAMED,
    )
    if len(split):
        raise UsageError(
            f"{_list(split)}: several parents that are not one mesh: give them one word in column mesh"
        )
    broken = query(
        """select place from placed where place in (select stands from standing) group by place
        having count(distinct coalesce(parent, '')) > 1 order by place limit $named""",
        placed=placed,
        standing=standing,
        named=NAMED,
    )
    if len(broken):
        raise UsageError(f"{_list(broken)}: a mesh whose nodes have different parents: they need the same")


def _roots(table: Table) -> tuple[str, ...]:
    """The nodes of the root, the first of which names its place."""
    twice = query(
        "select name from sites group by name having count(*) > 1 order by name limit $named",
        sites=table,
        named=NAMED,
    )
    if len(twice):
        raise UsageError(f"{_list(twice)}: named twice: every node needs its own name")
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
            f"{_list(tops.slice(0, NAMED))}: several rows without a parent: a tree has one root (or one mesh"
            " of them)"
        )
    return tuple(row["name"] for row in found)


def _list(names: Table) -> str:
    return ", ".join(repr(name) for name in names.column(0).to_pylist())


def _links(placed: Table) -> Table:
    """(number, place, up, size) of each place."""
    return query(
        """with numbered as (
            select (row_number() over ())::int as number, place, any_value(parent) as parent,
                count(*)::int as size from placed group by place)
        select n.number, n.place, above.number as up, n.size
        from numbered as n left join numbered as above on n.parent = above.place""",
        placed=placed,
    )


def _ancestors(links: Table) -> Table:
    """(number, ancestor, hops): one join a level, until all have arrived at the root."""
    level = query("select number, number as ancestor, 0::utinyint as hops from links", links=links)
    found = []
    while len(level):
        found.append(level)
        level = query(
            """select level.number, up as ancestor, (hops + 1)::utinyint as hops
            from level join links on ancestor = links.number where up is not null""",
            level=level,
            links=links,
        )
        circles = query(
            """select place from level join links using (number)
            where number = ancestor or hops > $most order by place limit $named""",
            level=level,
            links=links,
            most=MOST_LEVELS,
            named=NAMED,
        )
        if len(circles):
            raise UsageError(f"{_list(circles)}: a circle, or more than {MOST_LEVELS} levels from the root")
    return arrow.concat_tables(found)


def _refuse_orphans(links: Table, ancestors: Table, root: str) -> None:
    orphans = query(
        """select place from links where number not in (
            select a.number from ancestors as a join links as top on a.ancestor = top.number
            where top.place = $root) order by place limit $named""",
        links=links,
        ancestors=ancestors,
        root=root,
        named=NAMED,
    )
    if len(orphans):
        raise UsageError(
            f"{_list(orphans)}: no way up to the root {root!r}: a parent is missing from the table of sites"
        )


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
