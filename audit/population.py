"""What a population of consumers costs under this tree and under each other scheme: the laws of `whatif`, for
all of them together.

A second consumer of a destination costs this tree and leaf nodes only where it is news, and others the whole
again. Where there are meshes, each node of one that reads, or is told from below, speaks for itself.

Law: all numbers that it takes come of one query (`_numbers`), however many schemes there are.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.deployment import Tree
from audit.whatif import BYTES, ISOLATED, LEAF_NODES, ONE_WAY, STATIC, TREE, lines, loads, sights, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


class _Numbers(NamedTuple):
    """What a population comes to. Of what one place alone reads: `alone` destinations, what all above know of
    it (`depth`), what this tree is told of it (`told`). Of what several may read: `shared` destinations;
    `ups` lines that have a reader below, once a destination; `behind` of these, those with all readers below;
    `told_up`, `told_beside`, `told_down` what this tree is told of it. `lowest`: the depth of the lowest
    reader."""

    alone: int
    depth: int
    told: int
    shared: int
    ups: int
    behind: int
    told_up: int
    told_beside: int
    told_down: int
    lowest: int

    @property
    def destinations(self) -> int:
        return self.alone + self.shared

    @property
    def lines(self) -> int:
        """Lines that one message to each destination crosses from the root to all readers."""
        return self.depth + self.ups


def cost(
    tree: Tree, interests: DataFrame, per_consumer: DataFrame, tree_bytes: float = BYTES[TREE]
) -> DataFrame:
    """What all consumers together cost under each scheme, when they come and when they have all gone.

    (scheme, added, closed, held, bytes_added, bytes_closed, crossed, root_knows): `held` = subscriptions on
    other nodes than the consumer's own while all are there. `crossed`: lines that data crosses if the root
    sends one message to each destination; null where the root does not know all of them. `root_knows`:
    whether interest travels from the lowest consumer to the root; a network where it does not costs little,
    and delivers nothing from there. Null for static bridges, which know nothing and send everything
    everywhere. `tree_bytes`: mean size of this tree's advisories.
    """
    here = tree.nodes.select("node", "place")
    weight = F.when(F.col("group").isNull(), F.sum("weight")).otherwise(F.max("weight"))
    readers = F.count(F.lit(1)).alias("nodes")
    wanted = interests.join(here, "node").groupBy("place", "group").agg(weight.alias("weight"), readers)
    wanted = wanted.localCheckpoint()
    numbers = _numbers(tree, wanted)
    again = _each_again(tree, wanted, per_consumer).where(~F.col("scheme").isin(TREE, LEAF_NODES, ONE_WAY))
    both = again.unionByName(_shared(tree, numbers)).withColumn("root_knows", _root_knows(numbers.lowest))
    size = F.lit(None).cast("double")
    for scheme, value in (BYTES | {TREE: tree_bytes}).items():
        size = F.when(F.startswith("scheme", F.lit(scheme)), F.lit(value)).otherwise(size)
    everywhere = F.lit(numbers.destinations * (tree.places - 1))
    crossed = F.when(F.col("scheme") == STATIC, everywhere).when(F.col("root_knows"), F.lit(numbers.lines))
    return both.select(
        "scheme",
        "added",
        "closed",
        F.col("added").alias("held"),
        (F.col("added") * size).alias("bytes_added"),
        (F.col("closed") * size).alias("bytes_closed"),
        crossed.cast("long").alias("crossed"),
        "root_knows",
    ).orderBy("scheme")


def _root_knows(lowest: int) -> Column:
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


def _shared(tree: Tree, numbers: _Numbers) -> DataFrame:
    """(scheme, added, closed) of those in which a second reader of a destination costs less than the first.

    This tree: up, once for each place with a reader at or below it; down, all below the topmost readers. Leaf
    nodes: once for each line and direction behind which somebody reads, on the other side than the one told.
    """
    costs = {
        ONE_WAY: numbers.depth + numbers.ups,
        TREE: numbers.told + numbers.told_up + numbers.told_beside + numbers.told_down,
        LEAF_NODES: (tree.places - 1) * numbers.destinations + numbers.ups - numbers.behind,
    }
    rows = [(scheme, cost, cost) for scheme, cost in costs.items()]
    return tree.nodes.sparkSession.createDataFrame(rows, "scheme string, added long, closed long")


def _numbers(tree: Tree, wanted: DataFrame) -> _Numbers:
    spots = loads(tree)
    placed, weight = wanted.join(spots, "place"), F.col("weight")
    alone = F.col("group").isNull()
    everyone = placed.agg(
        _sum(F.when(alone, weight)).alias("alone"),
        _sum(F.when(alone, weight * F.col("depth"))).alias("depth"),
        _sum(F.when(alone, weight * told())).alias("told"),
        _sum(F.when(~alone, weight * F.col("nodes") * F.col("beside"))).alias("told_beside"),
        F.coalesce(F.max("depth"), F.lit(0)).alias("lowest"),
    )
    shared = placed.where(~alone)
    groups = shared.groupBy("group").agg(F.max(weight).alias("weight"), F.count(F.lit(1)).alias("all"))
    wide = _ups(tree, shared).join(groups.select("group", "all"), "group")
    behind = F.when(F.col("readers") == F.col("all"), weight)
    ups = wide.agg(_sum(weight).alias("ups"), _sum(behind).alias("behind"))
    downs = (F.col("nodes") * F.col("down") + F.col("onward")) * weight
    parts = [
        groups.agg(_sum(weight).alias("shared")),
        ups,
        _topmost(tree, shared).agg(_sum(downs).alias("told_down")),
    ]
    if tree.meshed:
        parts.append(_told_up(tree, shared, spots))
    whole = everyone
    for part in parts:
        whole = whole.crossJoin(part)
    found = whole.collect()[0].asDict()
    return _Numbers(**{"told_up": found["ups"], **found})


def _sum(value: Column) -> Column:
    return F.coalesce(F.sum(value), F.lit(0)).cast("long")


def _ups(tree: Tree, shared: DataFrame) -> DataFrame:
    """(on, group, weight, readers): for each place but the root, what is read there or below."""
    above = tree.ancestors.where(F.col("ancestor") != tree.root).select(
        F.col("node").alias("place"), F.col("ancestor").alias("on")
    )
    joined = shared.select("place", "group", "weight").join(above, "place")
    return joined.groupBy("on", "group").agg(
        F.max("weight").alias("weight"), F.count(F.lit(1)).alias("readers")
    )


def _topmost(tree: Tree, shared: DataFrame) -> DataFrame:
    """Readers with nodes below them of which none above reads the same."""
    tellers = shared.where(F.col("below") > 0)
    above = tree.ancestors.where(F.col("hops") > 0).select(F.col("node").alias("place"), "ancestor")
    other = tellers.select(F.col("place").alias("ancestor"), "group")
    known = tellers.select("place", "group").join(above, "place").join(other, ["ancestor", "group"])
    return tellers.join(known.select("place", "group").distinct(), ["place", "group"], "left_anti")


def _told_up(tree: Tree, shared: DataFrame, spots: DataFrame) -> DataFrame:
    """(told_up): what shared destinations cost upward. Of a mesh the nodes that read tell the parents, or all
    of them, where there are readers below."""
    seen = tree.ancestors.withColumnRenamed("node", "place").join(
        shared.select("place", "group", "weight", "nodes"), "place"
    )
    once = seen.groupBy(F.col("ancestor").alias("place"), "group").agg(
        F.max("weight").alias("weight"),
        F.max(F.col("hops") > 0).alias("from_below"),
        F.sum(F.when(F.col("hops") == 0, F.col("nodes")).otherwise(0)).alias("here"),
    )
    between = lines(tree, tree.nodes.select("place", "parent").distinct().join(spots, "place"))
    speakers = F.when(F.col("from_below"), F.col("size")).otherwise(F.col("here"))
    cost = speakers * F.col("listeners") * F.col("weight")
    return once.join(between, "place").agg(_sum(cost).alias("told_up"))
