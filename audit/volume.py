"""How many advisories and bytes there were: when, where, over which link, of what kind, and for which
consumer.

`cube` is a sum of `rollup`; every table by hour, level, region, node, link, direction or kind is a sum over
it. Rows whose clock cannot be true have no hour: they count in every sum, and in no series over time.

Wrinkle: `consumer_events` brings the rows of one cause together from all over the log, which would be most of
what an audit costs. So of a large log only every so-manyth cause is looked at, unless all are asked for; and
what travels is narrow: two hashes of the cause, 96 bits, for its text; a hash of the node; no text but the
consumers' own. What consumers cost is a sum over all.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.rollup import RESYNC, hour_of
from audit.told import CONSUMER_KINDS, consumer_hash

EVENTS_SHOWN: Final = 200_000
"""Comings and goings of consumers up to which each has its row, and so many about of a log with more."""
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
"""The tables that `sums` makes, with their keys."""


def cube(rolled: DataFrame) -> DataFrame:
    """(hour, node, peer, direction, kind, op, restored, advisories, bytes). `rolled`: by `rollup`."""
    advisories = rolled.where(F.col("event") == "advisory")
    timed = advisories.withColumn("hour", F.when(F.col("clock").isNull(), F.col("hour")))
    return timed.groupBy(*CUBE).agg(F.sum("rows").alias("advisories"), F.sum("bytes").alias("bytes"))


def placed(cube: DataFrame, nodes: DataFrame) -> DataFrame:
    """The cube with depth, region and role of the node; null for one that the deployment does not know."""
    return cube.join(F.broadcast(nodes.select("node", "depth", "region", "role")), "node", "left")


def sums(placed: DataFrame) -> DataFrame:
    """(table, every key of `DIMENSIONS`, advisories, bytes, …): the rows of all those tables, in one go."""
    keys = _dimensions()
    sets = [[F.col(key) for key in some] for some in DIMENSIONS.values()]
    advisories, consumer = F.col("advisories"), F.col("kind").isin(*CONSUMER_KINDS)
    parts = {
        "consumer_advisories": consumer,
        "domain_advisories": F.col("kind") == "domain",
        "restored": F.col("restored"),
    }
    return placed.groupingSets(sets, *keys).agg(
        F.grouping_id().alias("table"),
        F.sum("advisories").alias("advisories"),
        F.sum("bytes").alias("bytes"),
        *(F.sum(F.when(part, advisories).otherwise(0)).alias(name) for name, part in parts.items()),
    )


def by(sums: DataFrame, table: str) -> DataFrame:
    """The rows of `table` in `DIMENSIONS`; consumers' advisories and domain routes apart."""
    keys = DIMENSIONS[table]
    number = int("".join("01"[key not in keys] for key in _dimensions()), 2)
    rows = sums.where(F.col("table") == number)
    figures = ("advisories", "bytes", "consumer_advisories", "domain_advisories", "restored")
    return rows.select(*keys, *figures).orderBy(*keys)


def _dimensions() -> list[str]:
    return list(dict.fromkeys(key for keys in DIMENSIONS.values() for key in keys))


def one_in(events: int) -> int:
    """Of so many comings and goings of consumers one in this is looked at, unless all are wanted."""
    return -(-events // EVENTS_SHOWN) or 1


def consumer_events(events: DataFrame, roots: Sequence[str], one_in: int = 1) -> DataFrame:
    """What each coming and going of a consumer cost, one row an event; or of one event in so many.

    (cause, node, kind, destination, op, at, nodes, advisories, bytes, root_knew_after_s). `nodes`: how many
    heard of it. `roots`: the root, or the nodes of its mesh. `root_knew_after_s`: until the first of them
    knew, by the two nodes' clocks, so it may be negative; null where the root never heard.
    """
    if one_in > 1:
        events = _some(events, one_in)
    came = events.where(F.col("event") == "consumer").select(
        *_cause_keys(), *_EVENT, F.col("clock").isNull().alias("timed")
    )
    costs = _costs_by_cause(events, roots).hint("shuffle_hash")
    waited = (F.col("known") - F.unix_micros("at")) / 1e6
    return came.join(costs, [*_CAUSE], "left").select(
        *_EVENT,
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("nodes", "advisories", "bytes")),
        F.when(F.col("timed"), waited).alias("root_knew_after_s"),
    )


def _some(events: DataFrame, one_in: int) -> DataFrame:
    chosen = (F.pmod(F.xxhash64("cause"), F.lit(one_in)) == 0) & (F.col("cause") != RESYNC)
    return events.where(chosen).select("event", "clock", "bytes", *_EVENT).localCheckpoint()


_CAUSE: Final = ("cause_hash", "cause_check")
_EVENT: Final = ("cause", "node", "kind", "destination", "op", "at")


def _cause_keys() -> tuple[Column, Column]:
    """What stands for a cause and its operation while rows travel; null where there is no cause."""
    there = F.col("cause").isNotNull()
    return (
        F.when(there, F.xxhash64("cause", "op")).alias(_CAUSE[0]),
        F.when(there, F.hash("op", "cause")).alias(_CAUSE[1]),
    )


def _costs_by_cause(events: DataFrame, roots: Sequence[str]) -> DataFrame:
    """(`_CAUSE`, nodes, advisories, bytes, known): summed in two steps where one shuffle has put the rows."""
    caused = events.where((F.col("event") == "advisory") & F.col("cause").isNotNull())
    caused = caused.where(F.col("kind").isin(*CONSUMER_KINDS) & (F.col("cause") != RESYNC))
    at_root = F.col("node").isin(*roots) & F.col("clock").isNull()
    narrow = caused.select(
        *_cause_keys(),
        F.xxhash64("node").alias("node_hash"),
        "bytes",
        F.when(at_root, F.unix_micros("at")).alias("known"),
    ).repartition(*_CAUSE)
    by_node = narrow.groupBy(*_CAUSE, "node_hash").agg(
        F.count(F.lit(1)).alias("advisories"), F.sum("bytes").alias("bytes"), F.min("known").alias("known")
    )
    return by_node.groupBy(*_CAUSE).agg(
        F.count(F.lit(1)).alias("nodes"),
        F.sum("advisories").alias("advisories"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
        F.min("known").alias("known"),
    )


def consumer_hours(events: DataFrame) -> DataFrame:
    """(node, kind, destination, hour, came, went): each consumer, hour by hour."""
    here = events.where(F.col("event") == "consumer")
    return here.groupBy("node", "kind", "destination", hour_of("at").alias("hour")).agg(
        F.count_if(F.col("op") == "add").alias("came"), F.count_if(F.col("op") == "remove").alias("went")
    )


def consumers(hours: DataFrame, told: DataFrame) -> DataFrame:
    """What each consumer cost: (node, kind, destination, came, went, added, closed, bytes).

    `hours`: by `consumer_hours`. `told`: by `told.told`.
    """
    costs = told.groupBy("consumer").agg(*(F.sum(name).alias(name) for name in _COSTS))
    keyed = hours.groupBy("node", "kind", "destination").agg(
        *(F.sum(name).alias(name) for name in ("came", "went"))
    )
    joined = keyed.withColumn("consumer", consumer_hash("node")).join(costs, "consumer", "left")
    found = (F.coalesce(name, F.lit(0)).alias(name) for name in _COSTS)
    return joined.select("node", "kind", "destination", "came", "went", *found).orderBy(
        "node", "kind", "destination"
    )


_COSTS: Final = ("added", "closed", "bytes")


def knowing(consumer_events: DataFrame, nodes: DataFrame, one_in: int = 1) -> DataFrame:
    """By role of the consumer's node and operation: how many heard, and how long until the root knew.

    (role, depth, op, events, advisories, nodes_mean, nodes_most, root_p50_s, root_p99_s, clocks_differ,
    one_in). `clocks_differ`: events that the root seems to have known before they happened; left out of the
    times. `one_in`: of how many events these are one each.
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
            F.lit(one_in).alias("one_in"),
        )
        .orderBy("depth", "role", "op")
    )
