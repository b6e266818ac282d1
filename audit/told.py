"""What each node was told of each route, and because of whom: one sum, of which follows how many routes there
were (`capacity`) and what each consumer cost (`volume`).

Wrinkle: names are hashes here, 64 bits each; where their text is needed it is known from elsewhere.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.rollup import RESYNC

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


def of_routes() -> Column:
    return F.col("kind").isin(*CONSUMER_KINDS) & F.col("op").isin("add", "remove")


def step() -> Column:
    return F.when(F.col("op") == "add", 1).otherwise(-1)


def said() -> Column:
    """Twice its time, and one more if it was an add: of numbers the last is quickly found."""
    return 2 * F.unix_micros("at") + F.when(F.col("op") == "add", 1).otherwise(0)


def held() -> Column:
    """Of `said`: is the route there then?"""
    return F.pmod("said", F.lit(2))


def node_hash(name: str) -> Column:
    return F.xxhash64(name)


def route_hash() -> Column:
    """Of a node's routes."""
    return F.xxhash64("kind", "destination", "peer")


def consumer_hash(node: str) -> Column:
    return F.xxhash64("kind", "destination", node)
