"""Passes over the log by route and by consumer. One sum says of each route what its node was told of it, and
because of whom (`TOLD`). From it follows how many routes there were (`capacity`) and, with the comings of
each consumer (`HOURS`), what each cost (`volume`).

Wrinkle: names are hashes in `TOLD`, 64 bits each; where their text is needed it stands beside the hash in
another sum.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from audit.rollup import RESYNC, hour_of
from audit.sums import Sums
from audit.waste import AGAIN

CONSUMER_KINDS: Final = ("queue", "topic")


def reduced(told: DataFrame) -> DataFrame:
    """The sums of `TOLD` once more, where they are too many: by consumer, and the routes of which adds less
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
    rows = events.where(f"event = 'advisory' and {_OF_ROUTES} and {_CAUSED}")
    few = rows.join(F.broadcast(nodes), "node", "left_semi")
    sums = few.groupBy("node", "peer", "kind", "destination", "origin").agg(
        F.count_if(F.col("op") == "add").alias("added"),
        F.count_if(F.col("op") == "remove").alias("closed"),
        F.min("at").alias("first"),
        F.max("at").alias("last"),
    )
    return sums.where(F.col("added") - F.col("closed") > AGAIN)


def held_routes(events: DataFrame) -> DataFrame:
    """Routes that each node had at any time of its log: (node, kind, destination, peer, gone); no peer =
    local, `gone`: when it went, null = it stood at the log's end."""
    told, local = F.expr(f"event = 'advisory' and {_OF_ROUTES}"), F.col("event") == "consumer"
    peer, said = F.when(told, F.col("peer")).alias("peer"), F.expr(_SAID).alias("said")
    route = "node", "kind", "destination", "peer"
    rows = events.alias("log").where(told | local).select(*route[:3], peer, said)
    last = rows.groupBy(*route).agg(F.max("said").alias("said"))
    gone = F.when(F.pmod("said", F.lit(2)) == 0, F.timestamp_micros(F.floor(F.col("said") / 2)))
    return last.select(*route, gone.alias("gone"))


_OF_ROUTES: Final = f"kind in {CONSUMER_KINDS} and op in ('add', 'remove')"
_CAUSED: Final = f"cause is not null and cause != '{RESYNC}'"
_SAID: Final = "2 * unix_micros(log.at) + case when op = 'add' then 1 else 0 end"
"""Twice its time, and one more if it was an add: of numbers the last is quickly found."""
_ROUTE: Final = "xxhash64(kind, destination, peer)"
"""Of a node's routes."""

TOLD: Final = Sums(
    where=f"event = 'advisory' and {_OF_ROUTES}",
    columns={
        "at_node": "xxhash64(node)",
        "route": _ROUTE,
        "consumer": "xxhash64(kind, destination, origin)",
        "step": "case when clock is null then case when op = 'add' then 1 else -1 end end",
        "said": f"case when clock is null then {_SAID} end",
        "added": f"case when {_CAUSED} and op = 'add' then 1 end",
        "closed": f"case when {_CAUSED} and op != 'add' then 1 end",
        "bytes": f"case when {_CAUSED} then bytes end",
    },
    keys=("at_node", "route", "consumer"),
    sums={
        "step": "cast(sum(step) as bigint)",
        "said": "max(said)",
        "added": "count(added)",
        "closed": "count(closed)",
        "bytes": "cast(coalesce(sum(bytes), 0) as bigint)",
    },
)
"""(at_node, route, consumer, step, said, added, closed, bytes): adds and removes of consumers' routes.

`step`, `said`: adds less removes, and what was said last (`_SAID`), by clocks that are right. `added`,
`closed`, `bytes`: what the consumer's comings and goings cost; what a resync told again is not theirs.
"""
HOURS: Final = Sums(
    where="event = 'consumer'",
    columns={
        **{name: name for name in ("node", "kind", "destination", "op")},
        "hour": hour_of("unix_micros(log.at)"),
    },
    keys=("node", "kind", "destination", "hour"),
    sums={"came": "count_if(op = 'add')", "went": "count_if(op = 'remove')"},
    then={
        **{name: name for name in ("node", "kind", "destination")},
        "hour": "timestamp_micros(hour)",
        "came": "came",
        "went": "went",
        "consumer": "xxhash64(kind, destination, node)",
    },
)
"""(node, kind, destination, hour, came, went, consumer): each consumer, hour by hour; and its hash."""
SAID_BY_HOUR: Final = Sums(
    where=f"event = 'advisory' and clock is null and {_OF_ROUTES}",
    columns={"node": "node", "route": _ROUTE, "hour": hour_of("unix_micros(log.at)"), "said": _SAID},
    keys=("node", "route", "hour"),
    sums={"said": "max(said)"},
    then={"node": "node", "route": "route", "hour": "timestamp_micros(hour)", "said": "said"},
)
"""(node, route, hour, said): what was last said of each route in each hour."""
