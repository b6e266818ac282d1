"""The pass over the log by cause: what each coming and going of a consumer cost.

Wrinkle: this brings the rows of one cause together from all over the log, which would be most of what an
audit costs. So of a large log only every so-manyth cause is looked at (`chosen`), unless all are asked for;
and what travels is narrow: two hashes of the cause, 96 bits, for its text; a hash of the node; no text but
the consumers' own. The cost of a consumer is a sum over all.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as arrow
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.rollup import RESYNC
from audit.told import CONSUMER_KINDS

EVENTS_SHOWN: Final = 200_000
"""Comings and goings of consumers up to which each has its row, and so many about of a log with more."""


_DELAYS: Final = ("s", "_least", "_usual")
NO_DELAYS: Final = arrow.schema(
    [
        ("node", arrow.string()),
        *((f"{way}{what}", arrow.float64()) for way in ("up", "down") for what in _DELAYS),
    ]
).empty_table()


def one_in(events: int) -> int:
    """Of so many comings and goings of consumers one in this is looked at, unless all are wanted."""
    return -(-events // EVENTS_SHOWN) or 1


def chosen(events: DataFrame, one_in: int) -> DataFrame:
    """The rows of one cause in so many, kept for the passes that look at them: all of a cause, or none. If
    each is wanted, it is the log."""
    if one_in == 1:
        return events
    some = (F.pmod(F.xxhash64("cause"), F.lit(one_in)) == 0) & (F.col("cause") != RESYNC)
    return events.where(some).select("event", "direction", "clock", "bytes", *_EVENT).localCheckpoint()


def consumer_events(events: DataFrame, roots: Sequence[str]) -> DataFrame:
    """One row for each coming and going of a consumer, with its cost.

    (cause, node, kind, destination, op, at, nodes, advisories, bytes, root_knew_after_s). `nodes`: how many
    heard of it. `roots`: the root, or the nodes of its mesh. `root_knew_after_s`: until the first of them
    knew, by the two nodes' clocks, so it may be negative; null where the root never heard.
    """
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


def delays(events: DataFrame, root: str) -> DataFrame:
    """How long adds took between each node and the root, by their two clocks.

    (node, ups, up_least, up_usual, downs, down_least, down_usual), in microseconds. `up`: from the row of the
    consumer, or of the child that told of it, to the row of the root. `down`: from a consumer at the root to
    the row of the node. None of them took less than nothing, unless a clock is wrong.
    """
    some = events.where((F.col("op") == "add") & F.col("clock").isNull() & F.col("cause").isNotNull())
    some = some.where(F.col("kind").isin(*CONSUMER_KINDS) & (F.col("cause") != RESYNC))
    own = F.col("event") == "consumer"
    narrow = some.where(F.col("event").isin("consumer", "advisory")).select(
        *_cause_keys(), "node", F.unix_micros("at").alias("at"), own.alias("own"), "direction"
    )
    at_root = F.col("node") == root
    first, own_first = F.min("at").alias("known"), F.bool_or("own").alias("of_root")
    knew = narrow.where(at_root).groupBy(*_CAUSE).agg(first, own_first)
    rows = narrow.where(~at_root).join(knew, [*_CAUSE])
    below = ~F.col("of_root") & (F.col("own") | (F.col("direction") == "up"))
    up = F.when(below, F.col("known") - F.col("at"))
    down = F.when(F.col("of_root"), F.col("at") - F.col("known"))
    return rows.groupBy("node").agg(
        *(
            of(way).alias(f"{name}{what}")
            for name, way in (("up", up), ("down", down))
            for what, of in zip(_DELAYS, (F.count, F.min, F.median), strict=True)
        )
    )


_CAUSE: Final = ("cause_hash", "cause_check")
_EVENT: Final = ("cause", "node", "kind", "destination", "op", "at")


def _cause_keys() -> tuple[Column, Column]:
    """Two hashes stand for a cause and its operation while rows travel; null where there is no cause."""
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
