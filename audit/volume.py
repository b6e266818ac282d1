"""How many advisories and bytes there were: when, where, over which link, of what kind, and for which
consumer.

`cube` is the one pass over all advisories; every table by hour, level, region, node, link, direction or kind
is a sum over it. Rows whose clock cannot be true have no hour: they count in every sum, and in no series
over time.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

CONSUMER_KINDS: Final = ("queue", "topic")
RESYNC: Final = "resync"
CUBE: Final = ("hour", "node", "peer", "direction", "kind", "op", "restored")
DIMENSIONS: Final = {
    "hour": ("hour",),
    "level": ("depth",),
    "hour_level": ("hour", "depth"),
    "region": ("region",),
    "node": ("region", "node", "role", "depth"),
    "link": ("node", "peer", "direction"),
    "direction": ("direction",),
    "kind": ("kind", "op"),
}
"""The tables that `by` makes, with their keys."""


def cube(events: DataFrame) -> DataFrame:
    """(hour, node, peer, direction, kind, op, restored, advisories, bytes). `restored`: told by a resync."""
    advisories = events.where(F.col("event") == "advisory")
    keyed = advisories.select(
        F.when(F.col("clock").isNull(), F.date_trunc("hour", "at")).alias("hour"),
        "node",
        "peer",
        "direction",
        "kind",
        "op",
        F.coalesce(F.col("cause") == RESYNC, F.lit(False)).alias("restored"),
        "bytes",
    )
    return keyed.groupBy(*CUBE).agg(
        F.count(F.lit(1)).alias("advisories"), F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes")
    )


def placed(cube: DataFrame, nodes: DataFrame) -> DataFrame:
    """The cube with depth, region and role of the node; null for one that the deployment does not know."""
    return cube.join(F.broadcast(nodes.select("node", "depth", "region", "role")), "node", "left")


def by(placed: DataFrame, table: str) -> DataFrame:
    """Sums over the keys of `table` in `DIMENSIONS`; consumers' advisories and domain routes apart."""
    consumer = F.col("kind").isin(*CONSUMER_KINDS)
    keys = DIMENSIONS[table]
    return (
        placed.groupBy(*keys)
        .agg(
            F.sum("advisories").alias("advisories"),
            F.sum("bytes").alias("bytes"),
            F.sum(F.when(consumer, F.col("advisories")).otherwise(0)).alias("consumer_advisories"),
            F.sum(F.when(F.col("kind") == "domain", F.col("advisories")).otherwise(0)).alias(
                "domain_advisories"
            ),
            F.sum(F.when(F.col("restored"), F.col("advisories")).otherwise(0)).alias("restored"),
        )
        .orderBy(*keys)
    )


def consumer_events(events: DataFrame, tree_root: str) -> DataFrame:
    """What each coming and going of a consumer cost, one row an event.

    (cause, node, kind, destination, op, at, nodes, advisories, bytes, root_knew_after_s). `nodes`: how many
    heard of it. `root_knew_after_s`: by the two nodes' clocks, so it may be negative; null where the root
    never heard.
    """
    caused = events.where((F.col("event") == "advisory") & F.col("cause").isNotNull())
    caused = caused.where(F.col("kind").isin(*CONSUMER_KINDS) & (F.col("cause") != RESYNC))
    costs = caused.groupBy("cause", "op").agg(
        F.count_distinct("node").alias("nodes"),
        F.count(F.lit(1)).alias("advisories"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        F.min(F.when((F.col("node") == tree_root) & F.col("clock").isNull(), F.col("at"))).alias("known"),
    )
    came = events.where(F.col("event") == "consumer").select(
        "cause", "node", "kind", "destination", "op", "at", "clock"
    )
    waited = (F.unix_micros("known") - F.unix_micros("at")) / 1e6
    return came.join(costs, ["cause", "op"], "left").select(
        "cause",
        "node",
        "kind",
        "destination",
        "op",
        "at",
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("nodes", "advisories", "bytes")),
        F.when(F.col("clock").isNull(), waited).alias("root_knew_after_s"),
    )


def consumers(consumer_events: DataFrame) -> DataFrame:
    """What each consumer cost: (node, kind, destination, came, went, added, closed, bytes)."""
    coming, going = F.col("op") == "add", F.col("op") == "remove"
    return (
        consumer_events.groupBy("node", "kind", "destination")
        .agg(
            F.count_if(coming).alias("came"),
            F.count_if(going).alias("went"),
            F.sum(F.when(coming, F.col("advisories")).otherwise(0)).alias("added"),
            F.sum(F.when(going, F.col("advisories")).otherwise(0)).alias("closed"),
            F.sum("bytes").alias("bytes"),
        )
        .orderBy("node", "kind", "destination")
    )


def knowing(consumer_events: DataFrame, nodes: DataFrame) -> DataFrame:
    """By role of the consumer's node and operation: how many heard, and how long until the root knew.

    (role, depth, op, events, advisories, nodes_mean, nodes_most, root_p50_s, root_p99_s, clocks_differ).
    `clocks_differ`: events that the root seems to have known before they happened; left out of the times.
    """
    late = F.when(F.col("root_knew_after_s") >= 0, F.col("root_knew_after_s"))
    return (
        consumer_events.join(F.broadcast(nodes.select("node", "role", "depth")), "node", "left")
        .groupBy("role", "depth", "op")
        .agg(
            F.count(F.lit(1)).alias("events"),
            F.sum("advisories").alias("advisories"),
            F.avg("nodes").alias("nodes_mean"),
            F.max("nodes").alias("nodes_most"),
            F.percentile_approx(late, 0.5).alias("root_p50_s"),
            F.percentile_approx(late, 0.99).alias("root_p99_s"),
            F.count_if(F.col("root_knew_after_s") < 0).alias("clocks_differ"),
        )
        .orderBy("depth", "role", "op")
    )
