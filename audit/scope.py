"""What scope `tree` costs a topic: messages over lines behind which nobody reads it.

Law: with scope `tree` a message always goes up to the root. On the way from its node that is in vain on each
line that has all readers below it: the lines above the lowest node that has all of them at or below it. With
scope `vertical` a line is crossed only when an ancestor reads the topic. Down there is no vain line in
either.

Patterns are taken as they are written: `a/#` and `a/b` are two.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit.deployment import Tree


def scope_cost(tree: Tree, consumers: DataFrame) -> DataFrame:
    """What one message from each leaf would cost, for each topic that somebody reads.

    `consumers`: (node, kind, destination). Returns (destination, readers, publishers, crossed, vain, share),
    most in vain first: `crossed` counts lines upward under scope `tree`, `vain` those with no reader beyond
    them. `share` is null where no line is crossed, as in a chain of one place.
    """
    topics = consumers.where(F.col("kind") == "topic").select("node", "destination").distinct()
    places = topics.join(tree.nodes.select("node", "place"), "node").select("place", "destination").distinct()
    readers = places.groupBy("destination").agg(F.count(F.lit(1)).alias("readers"))
    above = tree.ancestors.where(F.col("ancestor") != tree.root).select(
        F.col("node").alias("place"), "ancestor"
    )
    below = (
        places.join(above, "place").groupBy("destination", "ancestor").agg(F.count(F.lit(1)).alias("here"))
    )
    leaves = _publishers(tree)
    vain = (
        below.join(readers, "destination")
        .where(F.col("here") == F.col("readers"))
        .join(leaves, "ancestor")
        .groupBy("destination")
        .agg(F.sum("leaves").alias("vain"))
    )
    all_leaves = tree.nodes.where(F.col("below") == 0).agg(
        F.count(F.lit(1)).alias("publishers"), F.coalesce(F.sum("depth"), F.lit(0)).alias("crossed")
    )
    return (
        readers.join(vain, "destination", "left")
        .join(F.broadcast(all_leaves))
        .withColumn("vain", F.coalesce("vain", F.lit(0)))
        .withColumn("share", F.round(F.try_divide("vain", "crossed"), 3))
        .select("destination", "readers", "publishers", "crossed", "vain", "share")
        .orderBy(F.desc("vain"), "destination")
    )


def _publishers(tree: Tree) -> DataFrame:
    """(ancestor, leaves): how many leaves stand at or below each place."""
    leaves = tree.nodes.where(F.col("below") == 0).select(F.col("place").alias("node"))
    return tree.ancestors.join(leaves, "node").groupBy("ancestor").agg(F.count(F.lit(1)).alias("leaves"))
