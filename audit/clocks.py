"""Whose clock is wrong: never set, ahead of the file that it wrote into, or set back.

Wrinkle: the simulation writes the log of a day that it was asked for, which may be one to come. Where most
nodes are ahead of their file, the log is of such a day: then a clock is ahead that is so of most others.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from audit.rollup import HOUR

JUMP: Final = "INTERVAL 1 SECOND"
"""How far a clock may be set back before that is counted."""
_DAY: Final = 24 * HOUR
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def clock(written: Column, since: datetime | None = None) -> Column:
    """What is wrong with the clock of a row: null, 'unset' or 'ahead'. `written`: when its file was last
    written. `since`: from `planned`; nothing before it is ahead.

    Wrinkle: a time and an interval are added in time zones, row by row; these are only numbers.
    """
    ahead = F.unix_micros("at") > F.unix_micros(written) + _DAY
    if since is not None:
        ahead = ahead & (F.col("at") >= F.lit(since))
    unset = F.col("at") < F.lit("2000-01-01").cast("timestamp")
    return F.when(unset, "unset").when(ahead, "ahead")


def planned(rolled: DataFrame) -> datetime | None:
    """If most nodes are ahead of their files: the full hour a day after half of the nodes had ended."""
    last = F.unix_micros(F.max(F.when(F.col("clock").isNull() | (F.col("clock") == "ahead"), F.col("last"))))
    nodes = rolled.groupBy("node").agg(
        F.max(F.coalesce(F.col("clock") == "ahead", F.lit(False))).alias("ahead"), last.alias("last")
    )
    found = nodes.agg(
        F.count(F.lit(1)).alias("nodes"),
        F.count_if("ahead").alias("ahead"),
        F.percentile_approx("last", 0.5).alias("usual"),
    ).collect()[0]
    if 2 * found["ahead"] <= found["nodes"]:
        return None
    hours = -(-(found["usual"] + _DAY) // HOUR)
    return _EPOCH + timedelta(hours=hours)


def replanned(rolled: DataFrame, since: datetime) -> DataFrame:
    """The sums with the clocks that `clock` gives once `since` is known: it is a full hour, as they are."""
    early = (F.col("clock") == "ahead") & (F.col("hour") < F.lit(since))
    return rolled.withColumn("clock", F.when(~F.coalesce(early, F.lit(False)), F.col("clock")))


def clocks(rolled: DataFrame, ordered: DataFrame | None) -> DataFrame:
    """(node, unset, ahead, backwards, largest_step_back_s), only nodes with any.

    `ordered`: rows of which the order in their files is known by `block` and `place`.
    """
    names = ("unset", "ahead")
    counts = (F.sum(F.when(F.col("clock") == name, F.col("rows")).otherwise(0)).alias(name) for name in names)
    wrong = rolled.where(F.col("clock").isNotNull()).groupBy("node").agg(*counts)
    if ordered is None:
        return wrong.select(
            "node",
            "unset",
            "ahead",
            F.lit(0).cast("long").alias("backwards"),
            F.lit(None).cast("double").alias("largest_step_back_s"),
        )
    in_file = Window.partitionBy("file", "node").orderBy("block", "place")
    steps = ordered.withColumn("before", F.lag("at").over(in_file))
    back = (
        steps.where(F.col("at") + F.expr(JUMP) < F.col("before"))
        .groupBy("node")
        .agg(
            F.count(F.lit(1)).alias("backwards"),
            F.max(F.unix_micros("before") - F.unix_micros("at")).alias("step"),
        )
    )
    return wrong.join(back, "node", "full").select(
        "node",
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("unset", "ahead", "backwards")),
        (F.col("step") / 1e6).alias("largest_step_back_s"),
    )
