"""When a node reaches a limit, from the trend of its routes and links, and of whatever figures are given.

Law: the trend is the straight line of least squares through the most that stood on each day. Below three days
nothing is foretold, since a chain has its hours; nor where the line does not rise.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from audit.rollup import hour_of
from audit.told import held, node_hash, of_routes, route_hash, said, step

LIMITS: Final = {"routes": 50_000.0, "links": 2_000.0, "spool_bytes": 8.0 * 2**30}
"""What is taken as full unless the caller says otherwise: a link's routes, a branch's links, a spool."""
LEAST_POINTS: Final = 3
A_DAY: Final = 86_400e6
"""Microseconds."""


def figures(rolled: DataFrame, routes: DataFrame) -> DataFrame:
    """(node, figure, at, value): routes and links of each node at the end of each hour in which they changed.

    `rolled`: by `rollup`. `routes`: by `routes`.
    """
    told = rolled.where(F.col("clock").isNull())
    changes = routes.unionByName(_links(told))
    hourly = changes.groupBy("node", "figure", "at").agg(F.sum("step").alias("step"))
    so_far = Window.partitionBy("node", "figure").orderBy("at").rowsBetween(Window.unboundedPreceding, 0)
    return hourly.select("node", "figure", "at", F.sum("step").over(so_far).cast("double").alias("value"))


def routes(told: DataFrame, events: DataFrame, rolled: DataFrame) -> DataFrame:
    """(node, figure, at, step): how many routes more each node had at the end of an hour than before.

    `told`: the sums of `told.told` over the events. Law: a route is there from an add to a remove, however
    often it is told again in between, by a resync say; so what counts is what was said of it last, not how
    often. Of a node of which each route's adds less removes come to just that, the sums by hour say the same,
    and cost nothing more.
    """
    ends = told.groupBy("at_node", "route").agg(F.sum("step").alias("sum"), F.max("said").alias("said"))
    adrift = ends.where(F.col("sum") != held()).select("at_node").distinct()
    names = rolled.select("node").distinct().withColumn("at_node", node_hash("node"))
    drifting = names.join(adrift, "at_node", "left_semi").select("node").localCheckpoint()
    sums = rolled.where((F.col("event") == "advisory") & F.col("clock").isNull() & of_routes())
    plain = sums.join(F.broadcast(drifting), "node", "left_anti").select(
        "node", F.col("hour").alias("at"), (step() * F.col("rows")).alias("step")
    )
    steps = plain if drifting.isEmpty() else plain.unionByName(_transitions(events, drifting))
    return steps.groupBy("node", F.lit("routes").alias("figure"), "at").agg(F.sum("step").alias("step"))


def _transitions(events: DataFrame, nodes: DataFrame) -> DataFrame:
    """(node, at, step) of these nodes, route by route."""
    timed = events.where((F.col("event") == "advisory") & F.col("clock").isNull() & of_routes())
    few = timed.join(F.broadcast(nodes), "node", "left_semi").withColumn("route", route_hash())
    hours = few.groupBy("node", "route", hour_of("at").alias("at")).agg(F.max(said()).alias("said"))
    in_time = Window.partitionBy("node", "route").orderBy("at")
    change = held() - F.lag(held(), 1, 0).over(in_time)
    return hours.select("node", "at", change.alias("step"))


def _links(told: DataFrame) -> DataFrame:
    """(node, figure, at, step). A node that was killed wrote no `down`: a link that comes up twice is one."""
    links = told.where((F.col("event") == "link") & F.col("op").isin("up", "down"))
    way = F.when(F.col("op") == "up", F.col("rows")).otherwise(-F.col("rows"))
    hours = links.groupBy("node", "peer", F.col("hour").alias("at")).agg(F.sum(way).alias("way"))
    line = Window.partitionBy("node", "peer").orderBy("at")
    came = F.when(F.col("way") > 0, 1).when(F.col("way") < 0, 0)
    up = hours.withColumn("up", F.coalesce(F.last(came, ignorenulls=True).over(line), F.lit(0)))
    step = F.col("up") - F.lag("up", 1, 0).over(line)
    return up.select("node", F.lit("links").alias("figure"), "at", step.alias("step"))


def forecast(figures: DataFrame, limits: dict[str, float] | None = None) -> DataFrame:
    """(node, figure, points, now, a_day, limit, days_left, full_at): soonest first; null where it never
    fills.

    `figures`: (node, figure, at, value) from `figures`, or of the same form from elsewhere, such as spools.
    """
    days = figures.groupBy("node", "figure", F.date_trunc("day", "at").alias("at")).agg(
        F.max("value").alias("value")
    )
    lines = days.groupBy("node", "figure").agg(
        F.count(F.lit(1)).alias("points"),
        F.max_by("value", "at").alias("now"),
        F.max("at").alias("last"),
        F.regr_slope("value", F.unix_micros("at") / A_DAY).alias("a_day"),
    )
    limit = F.lit(None).cast("double")
    for figure, value in (LIMITS | (limits or {})).items():
        limit = F.when(F.col("figure") == figure, F.lit(float(value))).otherwise(limit)
    rising = (F.col("points") >= LEAST_POINTS) & (F.col("a_day") > 0)
    left = F.when(rising, F.greatest(F.lit(0.0), (F.col("limit") - F.col("now")) / F.col("a_day")))
    micros = F.unix_micros("last") + F.least("days_left", F.lit(36500.0)) * F.lit(A_DAY)
    return (
        lines.withColumn("limit", limit)
        .withColumn("days_left", left)
        .withColumn(
            "full_at", F.when(F.col("days_left").isNotNull(), F.timestamp_micros(micros.cast("long")))
        )
        .select("node", "figure", "points", "now", "a_day", "limit", "days_left", "full_at")
        .orderBy(F.asc_nulls_last("days_left"), F.desc("now"), "node", "figure")
    )
