"""When a node reaches a limit, from the trend of its routes and links, and of whatever figures are given.

Law: the trend is the straight line of least squares through the most that stood on each day. Below three days
nothing is foretold, since a chain has its hours; nor where the line does not rise.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from audit.rollup import hour_of
from audit.volume import CONSUMER_KINDS

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


def routes(events: DataFrame, rolled: DataFrame) -> DataFrame:
    """(node, figure, at, step): how many routes more each node had at the end of an hour than before.

    Law: a route is there from an add to a remove, however often it is told again in between, by a resync say;
    so what counts is what was said of it last, not how often. Of a node of which each route's adds less
    removes come to just that, the sums by hour say the same, and cost nothing more.
    """
    told = events.where((F.col("event") == "advisory") & F.col("clock").isNull())
    told = told.where(_of_routes()).withColumn("route", F.xxhash64("kind", "destination", "peer"))
    ends = told.groupBy("node", "route").agg(F.sum(_step()).alias("sum"), F.max(_said()).alias("said"))
    drifting = ends.where(F.col("sum") != _held()).select("node").distinct().localCheckpoint()
    sums = rolled.where((F.col("event") == "advisory") & F.col("clock").isNull() & _of_routes())
    plain = sums.join(F.broadcast(drifting), "node", "left_anti").select(
        "node", F.col("hour").alias("at"), (_step() * F.col("rows")).alias("step")
    )
    steps = plain if drifting.isEmpty() else plain.unionByName(_transitions(told, drifting))
    return steps.groupBy("node", F.lit("routes").alias("figure"), "at").agg(F.sum("step").alias("step"))


def _of_routes() -> Column:
    return F.col("kind").isin(*CONSUMER_KINDS) & F.col("op").isin("add", "remove")


def _step() -> Column:
    return F.when(F.col("op") == "add", 1).otherwise(-1)


def _said() -> Column:
    """Twice its time, and one more if it was an add: of numbers the last is quickly found."""
    return 2 * F.unix_micros("at") + F.when(F.col("op") == "add", 1).otherwise(0)


def _held() -> Column:
    return F.pmod("said", F.lit(2))


def _transitions(told: DataFrame, nodes: DataFrame) -> DataFrame:
    """(node, at, step) of these nodes, route by route."""
    few = told.join(F.broadcast(nodes), "node", "left_semi")
    hours = few.groupBy("node", "route", hour_of("at").alias("at")).agg(F.max(_said()).alias("said"))
    in_time = Window.partitionBy("node", "route").orderBy("at")
    step = _held() - F.lag(_held(), 1, 0).over(in_time)
    return hours.select("node", "at", step.alias("step"))


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
