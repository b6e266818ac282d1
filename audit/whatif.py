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
    connectors, TTL k   added: nodes within k hops of n; closed: twice that, and the nodes at exactly k + 1
    hops;
                        a consumer of the same destination at another node costs again
    leaf nodes          every other node, once a destination and line; isolated: the neighbours of n, no
    further federation          one way: the depth of n; both ways: the nodes within max-hops of n
    full mesh           every other node
    static bridges      none, but every message crosses every line

Those of others are as measured on real brokers (`measured.csv`). What was not measured, and is taken by
analogy: isolated leaf nodes with a consumer at the branch; several consumers of one destination on leaf
nodes.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.deployment import Tree

TTLS: Final = (1, 2, 3, 4)
TREE: Final = "tree"
CONNECTORS: Final = "connectors, TTL {}"
LEAF_NODES: Final = "leaf nodes"
ISOLATED: Final = "leaf nodes, isolated"
ONE_WAY: Final = "federation, one way"
BOTH_WAYS: Final = "federation, both ways, max-hops {}"
MESH: Final = "full mesh"
STATIC: Final = "static bridges"
BYTES: Final = {TREE: 40.0, "connectors": 564.0, LEAF_NODES: 39.0, MESH: 564.0, STATIC: 0.0}
"""Bytes of an advisory: measured; of this tree, where no log says better, what a short name takes."""
_TOLD: Final = ("up", "beside", "down", "onward")


def sights(tree: Tree) -> DataFrame:
    """(place, sight, size): `sight` is the place whose distances are those of `place`; its own, or a sibling
    leaf's. `size`: how many nodes the place has."""
    leaf = (F.col("below") == 0) & (F.col("size") == 1)
    places = tree.nodes.groupBy("place").agg(
        F.first("parent").alias("parent"), F.max("below").alias("below"), F.count(F.lit(1)).alias("size")
    )
    firsts = places.where(leaf).groupBy("parent").agg(F.min("place").alias("first"))
    joined = places.join(firsts, "parent", "left")
    sight = F.when(leaf, F.coalesce("first", "place")).otherwise(F.col("place"))
    return joined.select("place", sight.alias("sight"), "size")


def loads(tree: Tree) -> DataFrame:
    """What this tree's advisories cost at each place: (place, depth, below, size, up, beside, down, onward).

    Of a consumer at one of its nodes: `up` are told above, `beside` in its own mesh, `down` right below it,
    `onward` further below.
    """
    spots = tree.nodes.groupBy("place").agg(
        F.first("parent").alias("parent"),
        F.first("depth").alias("depth"),
        F.first("below").alias("below"),
        F.count(F.lit(1)).alias("size"),
    )
    if not tree.meshed:
        one, none = F.lit(1), F.lit(0)
        plain = {"up": F.col("depth"), "beside": none, "down": F.col("below"), "onward": none}
        return spots.withColumns({"size": one, **plain}).drop("parent")
    between = lines(tree, spots)
    far = tree.ancestors.join(between.withColumnRenamed("place", "ancestor"), "ancestor")
    above = F.when(F.col("hops") == 0, F.col("listeners")).otherwise(F.col("crossing"))
    up = far.groupBy(F.col("node").alias("place")).agg(F.sum(above).alias("up"))
    near = tree.ancestors.where(F.col("hops") > 0).join(between.withColumnRenamed("place", "node"), "node")
    right, further = F.col("hops") == 1, F.col("hops") > 1
    down = near.groupBy(F.col("ancestor").alias("place")).agg(
        F.sum(F.when(right, F.col("size"))).alias("down"),
        F.sum(F.when(further, F.col("crossing"))).alias("onward"),
    )
    joined = spots.join(up, "place", "left").join(down, "place", "left")
    sums = [F.coalesce(name, F.lit(0)).alias(name) for name in ("up", "down", "onward")]
    beside = (F.col("size") - 1).alias("beside")
    return joined.select("place", "depth", "below", "size", beside, *sums).localCheckpoint()


def lines(tree: Tree, spots: DataFrame) -> DataFrame:
    """(place, size, listeners, crossing): for each place but the root, how many nodes it and its parent have,
    and how many links are between them."""
    above = spots.select(F.col("place").alias("parent"), F.col("size").alias("listeners"))
    lower = spots.where(F.col("place") != tree.root).select("place", "parent", "size")
    joined = lower.join(above, "parent").withColumn("crossing", F.col("size") * F.col("listeners"))
    return joined.select("place", "size", "listeners", "crossing")


def spheres(tree: Tree, sights: DataFrame, hops: int) -> DataFrame:
    """(sight, hops, nodes): how many places stand exactly so many hops away, for 1 to `hops`."""
    levels = tree.ancestors.groupBy("ancestor", F.col("hops").alias("down")).agg(
        F.count(F.lit(1)).alias("count")
    )
    watchers = sights.select(F.col("sight").alias("node")).distinct()
    above = tree.ancestors.join(watchers, "node", "left_semi").where(F.col("hops") <= hops)
    seen = above.join(levels, "ancestor")
    near = seen.select("node", (F.col("hops") + F.col("down")).alias("hops"), "count")
    again = seen.where(F.col("ancestor") != tree.root).select(
        "node", (F.col("hops") + F.col("down") + 2).alias("hops"), (-F.col("count")).alias("count")
    )
    within = near.unionByName(again).where(F.col("hops").between(1, hops))
    counted = within.groupBy("node", "hops").agg(F.sum("count").alias("nodes"))
    return counted.select(F.col("node").alias("sight"), "hops", "nodes")


def per_consumer(tree: Tree, ttls: Sequence[int] = TTLS, max_hops: Sequence[int] = (2,)) -> DataFrame:
    """What the first consumer of a fresh destination costs at each sight.

    (sight, depth, below, reached, scheme, added, closed): `reached` = how many nodes are seen alike.
    `added` and `closed` are advisories delivered when it comes and when it goes.
    """
    seen = sights(tree).localCheckpoint()
    reached = seen.groupBy("sight").agg(F.sum("size").alias("reached"))
    places = loads(tree).withColumnRenamed("place", "sight").join(reached, "sight")
    farthest = max([*ttls, *max_hops, 1]) + 1
    around = spheres(tree, seen, farthest)
    wide = around.groupBy("sight").pivot("hops", list(range(1, farthest + 1))).agg(F.first("nodes"))
    numbers = places.join(wide, "sight", "left")
    added, closed = _added_and_closed(tree.places, ttls, max_hops)
    schemes = F.array(
        *(
            F.struct(
                F.lit(name).alias("scheme"),
                added[name].cast("long").alias("added"),
                closed[name].cast("long").alias("closed"),
            )
            for name in added
        )
    )
    return numbers.select("sight", "depth", "below", "reached", F.inline(schemes))


def _added_and_closed(
    places: int, ttls: Sequence[int], max_hops: Sequence[int]
) -> tuple[dict[str, Column], dict[str, Column]]:
    """The laws, by scheme, over the columns depth, below and one column a hop."""

    def at(hop: int) -> Column:
        return F.coalesce(F.col(f"`{hop}`"), F.lit(0))

    def within(hops: int) -> Column:
        total = F.lit(0)
        for hop in range(1, hops + 1):
            total = total + at(hop)
        return total

    others = F.lit(places - 1)
    added = {TREE: told()}
    added |= {CONNECTORS.format(ttl): within(ttl) for ttl in ttls}
    added |= {LEAF_NODES: others, ISOLATED: at(1), ONE_WAY: F.col("depth")}
    added |= {BOTH_WAYS.format(hops): within(hops) for hops in max_hops}
    added |= {MESH: others, STATIC: F.lit(0)}
    closed = dict(added)
    closed |= {CONNECTORS.format(ttl): 2 * within(ttl) + at(ttl + 1) for ttl in ttls}
    return added, closed


def told() -> Column:
    """All that this tree is told of one consumer, of the columns of `loads`."""
    total = F.lit(0)
    for name in _TOLD:
        total = total + F.col(name)
    return total


def by_role(per_consumer: DataFrame, tree: Tree) -> DataFrame:
    """What one consumer costs by role and depth of its node: (role, depth, scheme, nodes, added_…,
    closed_…)."""
    roles = tree.nodes.select(F.col("place").alias("sight"), "role").distinct()
    total = F.sum("reached")
    return (
        per_consumer.join(roles, "sight")
        .groupBy("role", "depth", "scheme")
        .agg(
            total.alias("nodes"),
            F.min("added").alias("added_least"),
            (F.sum(F.col("added") * F.col("reached")) / total).alias("added_mean"),
            F.max("added").alias("added_most"),
            (F.sum(F.col("closed") * F.col("reached")) / total).alias("closed_mean"),
            F.max("closed").alias("closed_most"),
        )
        .orderBy("depth", "role", "scheme")
    )


def domain_routes(tree: Tree) -> DataFrame:
    """What the nodes' own names cost this tree, apart from all consumers: (nodes, advisories, held).

    In a mesh each node tells the others besides with whom above and below it has a link.
    """
    spots = loads(tree)
    size = F.col("size")
    names = size * (F.col("up") + F.col("beside"))
    more = size * F.col("beside") * F.col("down")
    if tree.meshed:
        listeners = lines(tree, tree.nodes.select("place", "parent").distinct().join(spots, "place"))
        spots = spots.join(listeners.select("place", "listeners"), "place", "left")
        more = more + size * F.col("beside") * F.coalesce("listeners", F.lit(0))
    total = F.coalesce(F.sum(names + more), F.lit(0)).alias("advisories")
    whole = spots.agg(F.coalesce(F.sum("size"), F.lit(0)).alias("nodes"), total)
    return whole.withColumn("held", F.col("advisories"))
