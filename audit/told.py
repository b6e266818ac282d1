"""Passes over the log by route and by consumer. One sum says of each route what its node was told of it, and
because of whom (`told`). From it follows how many routes there were (`capacity`) and, with the comings of
each consumer (`consumer_hours`), what each cost (`volume`).

Wrinkle: names are hashes in `told`, 64 bits each; where their text is needed it stands beside the hash in
another sum.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.rollup import RESYNC, hour_of
from audit.waste import AGAIN

CONSUMER_KINDS: Final = ("queue", "topic")


def told(events: DataFrame) -> DataFrame:
    """(at_node, route, consumer, step, said, added, closed, bytes): adds and removes of consumers' routes.

    `step`, `said`: adds less removes, and what was said last (`said`), by clocks that are right. `added`,
    `closed`, `bytes`: what the consumer's comings and goings cost; what a resync told again is not theirs.
    """
    add, timed = F.col("op") == "add", F.col("clock").isNull()
    caused = F.col("cause").isNotNull() & (F.col("cause") != RESYNC)
    rows = events.where((F.col("event") == "advisory") & of_routes())
    keyed = rows.select(
        node_hash("node").alias("at_node"),
        route_hash().alias("route"),
        consumer_hash("origin").alias("consumer"),
        F.when(timed, step()).alias("step"),
        F.when(timed, said()).alias("said"),
        F.when(caused & add, 1).alias("added"),
        F.when(caused & ~add, 1).alias("closed"),
        F.when(caused, F.col("bytes")).alias("bytes"),
    )
    return keyed.groupBy("at_node", "route", "consumer").agg(
        F.sum("step").alias("step"),
        F.max("said").alias("said"),
        F.count("added").alias("added"),
        F.count("closed").alias("closed"),
        F.coalesce(F.sum("bytes"), F.lit(0)).alias("bytes"),
    )


def reduced(told: DataFrame) -> DataFrame:
    """The sums of `told` once more, where they are too many: by consumer, and the routes of which adds less
    removes do not come to what was said last, and those that were told `AGAIN`. The same follows of these as
    of all."""
    costs = told.groupBy("consumer").agg(*(F.sum(name).alias(name) for name in ("added", "closed", "bytes")))
    ends = told.groupBy("at_node", "route").agg(F.sum("step").alias("step"), F.max("said").alias("said"))
    drifting = ends.where(F.col("step") != F.pmod("said", F.lit(2))).dropDuplicates(["at_node"])
    again = told.where(F.col("added") - F.col("closed") > AGAIN).dropDuplicates(["at_node"])
    again = again.select("at_node", "added", "closed")
    some = costs.unionByName(drifting, allowMissingColumns=True)
    return some.unionByName(again, allowMissingColumns=True).select(*told.columns)


def again(events: DataFrame, nodes: DataFrame) -> DataFrame:
    """(node, peer, kind, destination, origin, added, closed, first, last): consumers that a peer of some
    nodes told again and again."""
    caused = F.col("cause").isNotNull() & (F.col("cause") != RESYNC)
    rows = events.where((F.col("event") == "advisory") & of_routes() & caused)
    few = rows.join(F.broadcast(nodes), "node", "left_semi")
    sums = few.groupBy("node", "peer", "kind", "destination", "origin").agg(
        F.count_if(F.col("op") == "add").alias("added"),
        F.count_if(F.col("op") == "remove").alias("closed"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
    )
    return sums.where(F.col("added") - F.col("closed") > AGAIN)


def consumer_hours(events: DataFrame) -> DataFrame:
    """(node, kind, destination, hour, came, went, consumer): each consumer, hour by hour; and its hash."""
    here = events.where(F.col("event") == "consumer")
    sums = here.groupBy("node", "kind", "destination", hour_of("at").alias("hour")).agg(
        F.count_if(F.col("op") == "add").alias("came"), F.count_if(F.col("op") == "remove").alias("went")
    )
    return sums.withColumn("consumer", consumer_hash("node"))


def said_by_hour(events: DataFrame, nodes: DataFrame) -> DataFrame:
    """(node, route, at, said): what was last said of each route in each hour, of these nodes."""
    timed = events.where((F.col("event") == "advisory") & F.col("clock").isNull() & of_routes())
    few = timed.join(F.broadcast(nodes), "node", "left_semi").withColumn("route", route_hash())
    return few.groupBy("node", "route", hour_of("at").alias("at")).agg(F.max(said()).alias("said"))


def held_routes(events: DataFrame) -> DataFrame:
    """Routes that each node had at any time of its log: (node, kind, destination, peer, gone); no peer =
    local, `gone`: when it went, null = it stood at the log's end."""
    told, local = (F.col("event") == "advisory") & of_routes(), F.col("event") == "consumer"
    peer = F.when(told, F.col("peer")).alias("peer")
    rows = events.where(told | local).select("node", "kind", "destination", peer, said().alias("said"))
    route = "node", "kind", "destination", "peer"
    last = rows.groupBy(*route).agg(F.max("said").alias("said"))
    gone = F.when(F.pmod("said", F.lit(2)) == 0, F.timestamp_micros(F.floor(F.col("said") / 2)))
    return last.select(*route, gone.alias("gone"))


def of_routes() -> Column:
    return F.col("kind").isin(*CONSUMER_KINDS) & F.col("op").isin("add", "remove")


def step() -> Column:
    return F.when(F.col("op") == "add", 1).otherwise(-1)


def said() -> Column:
    """Twice its time, and one more if it was an add: of numbers the last is quickly found."""
    return 2 * F.unix_micros("at") + F.when(F.col("op") == "add", 1).otherwise(0)


def node_hash(name: str) -> Column:
    return F.xxhash64(name)


def route_hash() -> Column:
    """Of a node's routes."""
    return F.xxhash64("kind", "destination", "peer")


def consumer_hash(node: str) -> Column:
    return F.xxhash64("kind", "destination", node)
