"""What a deployment and its consumers cost under this tree, and under what one could build instead.

Law: nothing is written out a row a delivery. All follows from how many nodes stand how many hops away, and
that from how many stand on each level below each node; so a million stores are a few joins.

    from n's ancestor a, i hops above it, with L(a, d) nodes exactly d levels below:
    nodes exactly h hops from n = sum over a of L(a, h - i), less, for each a but the root, L(a, h - i - 2)

Leaves below one parent see the same tree: one of them stands for all (`sights`).

In a mesh each node is told by each node of the mesh above and below, and of what is wanted at the others
themselves; so where there are meshes, a line of this tree counts as often as nodes at its ends speak and
listen (`loads`). The others have one broker where a mesh stands.

Schemes, and the law of each for one consumer at node n, of N nodes in all:

    tree                up: its depth; down: the nodes below n, none of which an ancestor of n has told
    already;
                        a second consumer of the same destination costs only where it is news
                        advise_down: topics: a queue is told up alone; none: a topic too
    connectors, TTL k   added: nodes within k hops of n; closed: twice that, and the nodes at exactly k + 1
    hops;
                        a consumer of the same destination at another node costs again
    filtered by hand    the same where each connector has the filters that let it tell the way up alone:
                        added: its depth; closed: twice that, however many nodes there are
    leaf nodes          every other node, once a destination and line; isolated: the neighbours of n, no
    further
    federation          one way: the depth of n; both ways: the nodes within max-hops of n
    full mesh           every other node
    static bridges      none, but every message crosses every line

Those of others are as measured on real brokers (`measured.csv`), one consumer after the other. They are lower
bounds: under load, such as 200 leaves that subscribe at once with TTL 2, brokers sent up to twice as much.
What was not measured, and is taken by analogy: isolated leaf nodes with a consumer at the branch; several
consumers of one destination on leaf nodes.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy
import pyarrow as arrow
from pyarrow import Table

from audit.deployment import Tree
from audit.queries import query

TTLS: Final = (1, 2, 3, 4)
TREE: Final = "tree"
TOPICS: Final = "tree, advise_down: topics"
UPWARD: Final = "tree, advise_down: none"
FILTERED: Final = "connectors, filtered by hand"
CONNECTORS: Final = "connectors, TTL {}"
LEAF_NODES: Final = "leaf nodes"
ISOLATED: Final = "leaf nodes, isolated"
ONE_WAY: Final = "federation, one way"
BOTH_WAYS: Final = "federation, both ways, max-hops {}"
MESH: Final = "full mesh"
STATIC: Final = "static bridges"


class BytesTaken(NamedTuple):
    """Bytes of an advisory, by what it tells: that a consumer of a `queue` or a `topic` comes, that a further
    one of a queue does (`again`), that a consumer goes (`gone`)."""

    queue: float
    topic: float
    again: float
    gone: float


_CONNECTOR: Final = BytesTaken(queue=564.0, topic=500.0, again=473.0, gone=285.0)
BYTES: Final = {
    "connectors": _CONNECTOR,
    LEAF_NODES: BytesTaken(queue=39.0, topic=39.0, again=39.0, gone=21.0),
    MESH: _CONNECTOR,
    STATIC: BytesTaken(0.0, 0.0, 0.0, 0.0),
}
"""As measured on real brokers, one consumer after the other (ActiveMQ Classic 5.17.2, NATS 2.9.10). A leaf
node tells of a topic as of a queue. Of a federation nobody has measured it."""
TREE_BYTES: Final = 40.0
"""Of an advisory of this tree, where no log says better: a short name takes that."""


def sights(tree: Tree) -> Table:
    """(number, seen): `seen` is the place whose distances are those of place `number`; its own, or a sibling
    leaf's."""
    return query(
        """with firsts as (
            select up, arg_min(number, place) as seen from places where below = 0 and size = 1 group by up)
        select number, case when below = 0 and size = 1 then coalesce(seen, number) else number end as seen
        from places left join firsts using (up)""",
        places=tree.places,
    )


def loads(tree: Tree) -> Table:
    """The places, and the cost of this tree's advisories at each: (…, above, beside, down, onward,
    listeners).

    Of a consumer at one of its nodes: so many are told `above`, `beside` in its own mesh, `down` right below
    it, `onward` further below. `listeners`: how many nodes its parent has.
    """
    places = tree.places
    if not tree.meshed:
        none = arrow.array(numpy.zeros(len(places), numpy.int32))
        told = {
            "above": places["depth"].cast(arrow.int32()),
            "beside": none,
            "down": places["below"],
            "onward": none,
            "listeners": places["up"].is_valid().cast(arrow.int32()),
        }
        return arrow.table({**dict(zip(places.column_names, places.columns, strict=True)), **told})
    return query(
        """with lines as (
            select p.number, p.size, above.size as listeners, p.size * above.size as crossing
            from places as p join places as above on p.up = above.number),
        far as (
            select a.number, sum(case when hops = 0 then listeners else crossing end) as above
            from ancestors as a join lines as l on a.ancestor = l.number group by a.number),
        near as (
            select ancestor as number, sum(size) filter (hops = 1) as down,
                sum(crossing) filter (hops > 1) as onward
            from ancestors join lines using (number) where hops > 0 group by ancestor)
        select p.*, coalesce(far.above, 0)::bigint as above, p.size - 1 as beside,
            coalesce(down, 0)::bigint as down, coalesce(onward, 0)::bigint as onward,
            coalesce(listeners, 0)::bigint as listeners
        from places as p left join far using (number) left join near using (number)
        left join lines using (number)""",
        places=tree.places,
        ancestors=tree.ancestors,
    )


def spheres(tree: Tree, sights: Table, hops: int) -> Table:
    """(seen, hops, nodes): how many places stand exactly so many hops away, for 1 to `hops`."""
    return query(
        """with above as (
            select number, ancestor, hops from ancestors
            where hops <= $hops and number in (select distinct seen from sights)),
        levels as (
            select ancestor, hops as down, count(*) as count from ancestors
            where ancestor in (select ancestor from above) group by ancestor, hops),
        watched as (
            select number, ancestor, hops::int + down as hops, count from above join levels using (ancestor)),
        around as (
            select number, hops, count from watched
            union all select number, hops + 2, -count from watched
            where ancestor in (select number from places where up is not null))
        select number as seen, hops, sum(count)::bigint as nodes from around
        where hops between 1 and $hops group by number, hops""",
        places=tree.places,
        ancestors=tree.ancestors,
        sights=sights,
        hops=hops,
    )


def per_consumer(tree: Tree, ttls: Sequence[int] = TTLS, max_hops: Sequence[int] = (2,)) -> Table:
    """What the first consumer of a fresh destination costs at each sight.

    (sight, seen, scheme, added, closed): `added` and `closed` are advisories delivered when it comes and when
    it goes.
    """
    seen = sights(tree)
    around = spheres(tree, seen, max([*ttls, *max_hops, 1]) + 1)
    return query(
        """with spots as (
            select p.place as sight, number as seen, depth, above + beside + down + onward as told,
                above + beside as upward
            from loads as p where number in (select distinct seen from sights)),
        within as (
            select seen, reach, sum(nodes) filter (hops <= reach) as near,
                sum(nodes) filter (hops = reach + 1) as beyond
            from around cross join (select distinct reach from schemes where reach > 0) group by seen, reach)
        select sight, seen, scheme,
            case law when 'told' then told when 'upward' then upward when 'up' then depth
                when 'way' then depth when 'all' then $others when 'none' then 0
                else coalesce(near, 0) end::bigint as added,
            case law when 'echo' then 2 * coalesce(near, 0) + coalesce(beyond, 0)
                when 'way' then 2 * depth else added end::bigint as closed
        from spots cross join schemes left join within using (seen, reach)""",
        loads=loads(tree),
        sights=seen,
        around=around,
        schemes=_schemes(ttls, max_hops),
        others=len(tree.places) - 1,
    )


def _schemes(ttls: Sequence[int], max_hops: Sequence[int]) -> Table:
    """(scheme, law, reach): `law` says who is told of one consumer: 'told' the loads of this tree, 'upward'
    those of them above and beside, 'up' the depth of its node, 'way' the same, and twice that when it goes,
    'all' others, 'none', those 'near' it, within `reach` hops; or with an 'echo' when it goes: all within
    `reach` twice, and the nodes right beyond."""
    laws = [
        (TREE, "told", 0),
        (TOPICS, "upward", 0),
        (UPWARD, "upward", 0),
        (FILTERED, "way", 0),
        (LEAF_NODES, "all", 0),
        (ISOLATED, "near", 1),
        (ONE_WAY, "up", 0),
    ]
    laws += [(MESH, "all", 0), (STATIC, "none", 0)]
    laws += [(CONNECTORS.format(ttl), "echo", ttl) for ttl in ttls]
    laws += [(BOTH_WAYS.format(hops), "near", hops) for hops in max_hops]
    return Table.from_pylist([dict(zip(("scheme", "law", "reach"), law, strict=True)) for law in laws])


def by_role(per_consumer: Table, tree: Tree) -> Table:
    """What one consumer costs by role and depth of its node: (role, depth, scheme, nodes, added_…,
    closed_…). Siblings that are seen alike may have roles of their own."""
    return query(
        """with reached as (
            select seen, role, depth, count(*) as reached from nodes join sights using (number)
            group by seen, role, depth)
        select role, depth, scheme, sum(reached)::bigint as nodes,
            min(added) as added_least, sum(added * reached) / sum(reached) as added_mean,
            max(added) as added_most, sum(closed * reached) / sum(reached) as closed_mean,
            max(closed) as closed_most
        from per_consumer join reached using (seen) group by role, depth, scheme
        order by depth, role, scheme""",
        nodes=tree.nodes,
        sights=sights(tree),
        per_consumer=per_consumer,
    )


def domain_routes(tree: Tree) -> Table:
    """What the nodes' own names cost this tree, apart from all consumers: (nodes, advisories, held).

    In a mesh each node tells the others besides with whom above and below it has a link.
    """
    return query(
        """select sum(size)::bigint as nodes,
            sum(size * (above + beside + beside * down + beside * listeners))::bigint as advisories,
            advisories as held from loads""",
        loads=loads(tree),
    )
