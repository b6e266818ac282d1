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
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.deployment import Tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    lines = _lines(tree, spots)
    far = tree.ancestors.join(lines.withColumnRenamed("place", "ancestor"), "ancestor")
    above = F.when(F.col("hops") == 0, F.col("listeners")).otherwise(F.col("crossing"))
    up = far.groupBy(F.col("node").alias("place")).agg(F.sum(above).alias("up"))
    near = tree.ancestors.where(F.col("hops") > 0).join(lines.withColumnRenamed("place", "node"), "node")
    right, further = F.col("hops") == 1, F.col("hops") > 1
    down = near.groupBy(F.col("ancestor").alias("place")).agg(
        F.sum(F.when(right, F.col("size"))).alias("down"),
        F.sum(F.when(further, F.col("crossing"))).alias("onward"),
    )
    joined = spots.join(up, "place", "left").join(down, "place", "left")
    sums = [F.coalesce(name, F.lit(0)).alias(name) for name in ("up", "down", "onward")]
    beside = (F.col("size") - 1).alias("beside")
    return joined.select("place", "depth", "below", "size", beside, *sums).localCheckpoint()


def _lines(tree: Tree, spots: DataFrame) -> DataFrame:
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
    added = {TREE: _told()}
    added |= {CONNECTORS.format(ttl): within(ttl) for ttl in ttls}
    added |= {LEAF_NODES: others, ISOLATED: at(1), ONE_WAY: F.col("depth")}
    added |= {BOTH_WAYS.format(hops): within(hops) for hops in max_hops}
    added |= {MESH: others, STATIC: F.lit(0)}
    closed = dict(added)
    closed |= {CONNECTORS.format(ttl): 2 * within(ttl) + at(ttl + 1) for ttl in ttls}
    return added, closed


def _told() -> Column:
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


# --- a population of consumers


def interests(consumers: DataFrame) -> DataFrame:
    """(node, kind, destination) to (node, group, weight): what is alike is counted, not repeated.

    `group` is null for destinations that only one node reads; `weight` says how many of them. Any other
    group is one destination with all its readers.
    """
    distinct = consumers.select("node", "kind", "destination").distinct()
    readers = distinct.groupBy("kind", "destination").agg(F.count(F.lit(1)).alias("readers"))
    joined = distinct.join(readers, ["kind", "destination"])
    group = F.when(F.col("readers") > 1, F.concat_ws(":", "kind", "destination"))
    return joined.groupBy("node", group.alias("group")).agg(F.count(F.lit(1)).alias("weight"))


def interests_by_role(spark: "SparkSession", tree: Tree, rules: Sequence[tuple[str, str, int]]) -> DataFrame:
    """A population from rules (role, sharing, count): each node of `role` reads so many destinations.

    sharing 'own': destinations that nobody else reads; any other word names a group, whose destinations all
    its readers share. Returns the form of `interests`.
    """
    table = spark.createDataFrame(list(rules), "role string, sharing string, weight long")
    joined = tree.nodes.select("node", "role").join(F.broadcast(table), "role")
    group = F.when(F.col("sharing") != "own", F.col("sharing"))
    return joined.groupBy("node", group.alias("group")).agg(F.sum("weight").alias("weight"))


def population(
    tree: Tree, interests: DataFrame, per_consumer: DataFrame, tree_bytes: float = BYTES[TREE]
) -> DataFrame:
    """What all consumers together cost under each scheme, when they come and when they have all gone.

    (scheme, added, closed, held, bytes_added, bytes_closed, root_knows): `held` = subscriptions on other
    nodes than the consumer's own while all are there. `root_knows`: whether interest travels from the lowest
    consumer to the root; a network where it does not costs little, and delivers nothing from there. Null for
    static bridges, which know nothing and send everything everywhere. `tree_bytes`: mean size of this tree's
    advisories.
    """
    here = tree.nodes.select("node", "place")
    weight = F.when(F.col("group").isNull(), F.sum("weight")).otherwise(F.max("weight"))
    readers = F.count(F.lit(1)).alias("nodes")
    wanted = interests.join(here, "node").groupBy("place", "group").agg(weight.alias("weight"), readers)
    wanted = wanted.localCheckpoint()
    spots = loads(tree)
    again = _each_again(tree, wanted, per_consumer)
    once = _tree_shared(tree, wanted, spots).unionByName(_leaf_nodes_shared(tree, wanted, spots))
    alone = again.where(~F.col("scheme").isin(TREE, LEAF_NODES, ONE_WAY))
    both = alone.unionByName(once).unionByName(_up_only(tree, wanted, spots))
    size = F.lit(None).cast("double")
    for scheme, value in (BYTES | {TREE: tree_bytes}).items():
        size = F.when(F.startswith("scheme", F.lit(scheme)), F.lit(value)).otherwise(size)
    return both.select(
        "scheme",
        "added",
        "closed",
        F.col("added").alias("held"),
        (F.col("added") * size).alias("bytes_added"),
        (F.col("closed") * size).alias("bytes_closed"),
        _root_knows(tree, wanted).alias("root_knows"),
    ).orderBy("scheme")


def _root_knows(tree: Tree, wanted: DataFrame) -> Column:
    lowest = (
        wanted.join(tree.nodes, "place")
        .agg(F.coalesce(F.max("depth"), F.lit(0)).alias("d"))
        .collect()[0]["d"]
    )
    hops = F.try_to_number(F.regexp_extract("scheme", r"(?:TTL|max-hops) (\d+)$", 1), F.lit("99"))
    return (
        F.when(F.col("scheme") == STATIC, F.lit(None).cast("boolean"))
        .when(F.col("scheme") == ISOLATED, F.lit(lowest <= 1))
        .otherwise(F.coalesce(hops >= lowest, F.lit(True)))
    )


def _each_again(tree: Tree, wanted: DataFrame, per_consumer: DataFrame) -> DataFrame:
    """Schemes in which every node that reads costs the whole, whoever else reads the same."""
    weights = wanted.join(sights(tree), "place").groupBy("sight").agg(F.sum("weight").alias("weight"))
    joined = per_consumer.join(weights, "sight")
    return joined.groupBy("scheme").agg(
        F.sum(F.col("added") * F.col("weight")).alias("added"),
        F.sum(F.col("closed") * F.col("weight")).alias("closed"),
    )


def _ups(tree: Tree, wanted: DataFrame) -> DataFrame:
    """(place, group, weight, readers): for each place but the root, what is read there or below, once a
    group."""
    above = tree.ancestors.where(F.col("ancestor") != tree.root).select(
        F.col("node").alias("place"), F.col("ancestor").alias("on")
    )
    shared = wanted.where(F.col("group").isNotNull()).join(above, "place")
    return shared.groupBy("on", "group").agg(
        F.max("weight").alias("weight"), F.count(F.lit(1)).alias("readers")
    )


def _alone(wanted: DataFrame, spots: DataFrame) -> DataFrame:
    """(the columns of `loads`, weight) of what only one node reads."""
    return wanted.where(F.col("group").isNull()).join(spots, "place")


def _total(frame: DataFrame, value: Column) -> DataFrame:
    return frame.agg(F.coalesce(F.sum(value), F.lit(0)).alias("n"))


def _sum(scheme: str, *parts: DataFrame) -> DataFrame:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.unionByName(part)
    n = F.sum("n").cast("long")
    return whole.agg(n.alias("added"), n.alias("closed")).select(
        F.lit(scheme).alias("scheme"), "added", "closed"
    )


def _up_only(tree: Tree, wanted: DataFrame, spots: DataFrame) -> DataFrame:
    alone = _total(_alone(wanted, spots), F.col("depth") * F.col("weight"))
    return _sum(ONE_WAY, alone, _total(_ups(tree, wanted), F.col("weight")))


def _tree_shared(tree: Tree, wanted: DataFrame, spots: DataFrame) -> DataFrame:
    """Up: once for each place with a reader at or below it. Down: all below the topmost readers."""
    alone = _total(_alone(wanted, spots), _told() * F.col("weight"))
    shared = wanted.where(F.col("group").isNotNull()).join(spots, "place")
    beside = _total(shared, F.col("nodes") * F.col("beside") * F.col("weight"))
    tellers = shared.where(F.col("below") > 0)
    above = tree.ancestors.where(F.col("hops") > 0).select(F.col("node").alias("place"), "ancestor")
    other = tellers.select(F.col("place").alias("ancestor"), "group")
    told = tellers.select("place", "group").join(above, "place").join(other, ["ancestor", "group"])
    topmost = tellers.join(told.select("place", "group").distinct(), ["place", "group"], "left_anti")
    downs = (F.col("nodes") * F.col("down") + F.col("onward")) * F.col("weight")
    return _sum(TREE, alone, _told_up(tree, wanted, spots), beside, _total(topmost, downs))


def _told_up(tree: Tree, wanted: DataFrame, spots: DataFrame) -> DataFrame:
    """What shared destinations cost upward. Of a mesh the nodes that read tell the parents, or all of them,
    where there are readers below."""
    if not tree.meshed:
        return _total(_ups(tree, wanted), F.col("weight"))
    shared = wanted.where(F.col("group").isNotNull()).select("place", "group", "weight", "nodes")
    seen = tree.ancestors.withColumnRenamed("node", "place").join(shared, "place")
    once = seen.groupBy(F.col("ancestor").alias("place"), "group").agg(
        F.max("weight").alias("weight"),
        F.max(F.col("hops") > 0).alias("from_below"),
        F.sum(F.when(F.col("hops") == 0, F.col("nodes")).otherwise(0)).alias("here"),
    )
    lines = _lines(tree, tree.nodes.select("place", "parent").distinct().join(spots, "place"))
    speakers = F.when(F.col("from_below"), F.col("size")).otherwise(F.col("here"))
    return _total(once.join(lines, "place"), speakers * F.col("listeners") * F.col("weight"))


def _leaf_nodes_shared(tree: Tree, wanted: DataFrame, spots: DataFrame) -> DataFrame:
    """Once for each line and direction behind which somebody reads, on the other side than the one told."""
    alone = _total(_alone(wanted, spots), F.lit(tree.places - 1) * F.col("weight"))
    ups = _ups(tree, wanted)
    all_readers = (
        wanted.where(F.col("group").isNotNull())
        .groupBy("group")
        .agg(F.max("weight").alias("weight"), F.count(F.lit(1)).alias("all"))
    )
    downs = _total(all_readers, F.lit(tree.places - 1) * F.col("weight"))
    behind = ups.join(all_readers.select("group", "all"), "group").where(F.col("readers") == F.col("all"))
    return _sum(LEAF_NODES, alone, _total(ups, F.col("weight")), downs, _total(behind, -F.col("weight")))


def domain_routes(tree: Tree) -> DataFrame:
    """What the nodes' own names cost this tree, apart from all consumers: (nodes, advisories, held).

    In a mesh each node tells the others besides with whom above and below it has a link.
    """
    spots = loads(tree)
    size = F.col("size")
    names = size * (F.col("up") + F.col("beside"))
    lines = size * F.col("beside") * F.col("down")
    if tree.meshed:
        listeners = _lines(tree, tree.nodes.select("place", "parent").distinct().join(spots, "place"))
        spots = spots.join(listeners.select("place", "listeners"), "place", "left")
        lines = lines + size * F.col("beside") * F.coalesce("listeners", F.lit(0))
    total = F.coalesce(F.sum(names + lines), F.lit(0)).alias("advisories")
    told = spots.agg(F.coalesce(F.sum("size"), F.lit(0)).alias("nodes"), total)
    return told.withColumn("held", F.col("advisories"))
