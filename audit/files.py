"""What became of each file, and of rows that several files have.

Law: every line is in one count of `schema.FILES`; what another file has too is in `repeated`, and used once.
So the sum of `rows` is how many events there are.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from audit.listing import TWIN, LogFile
from audit.rollup import hour_of
from audit.schema import FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS: Final = tuple(FILES.names[3:-1])
MOST_TIMES: Final = 32
"""Times that rows are compared with one by one."""


def spelt(path: str = "_metadata.file_path") -> Column:
    """The file of a row, spelt as `LogFile.uri` does."""
    return F.regexp_replace(path, "^file:/+", "file:/")


def listed(spark: "SparkSession", files: Sequence[LogFile]) -> DataFrame:
    """(file, format, bytes, told), one row a file."""
    rows = [(file.uri, file.format, file.bytes, file.told_bytes) for file in files]
    return spark.createDataFrame(rows, "file string, format string, bytes long, told long")


def left_out(spark: "SparkSession", files: Sequence[LogFile], why: str) -> DataFrame:
    """`schema.FILES` of files that nobody looked into."""
    rows = [(file.uri, file.format, file.bytes, *([0] * len(COUNTS)), why) for file in files]
    return spark.createDataFrame(rows, FILES)


def report(counted: DataFrame, repeats: DataFrame | None) -> DataFrame:
    """`schema.FILES` of (file, format, bytes, the counts, fault, twin); a count that is not there is 0.

    `twin`: the file that is used in its place. `repeats`: (file, again), rows that are used from another.
    """
    there = set(counted.columns)
    whole = counted.select(
        *there,
        *(F.lit(0).cast("long").alias(name) for name in COUNTS if name not in there),
    )
    if repeats is not None:
        whole = whole.join(repeats, "file", "left")
    again = F.coalesce("again", F.lit(0)) if repeats is not None else F.lit(0)
    rows = F.coalesce("rows", F.lit(0))
    repeated = F.when(F.col("twin").isNotNull(), rows).otherwise(again).cast("long")
    special = {"rows": rows - repeated, "repeated": repeated}
    counts = [special.get(name, F.coalesce(name, F.lit(0))).alias(name) for name in COUNTS]
    fault = F.coalesce(F.concat(F.lit(TWIN), "twin"), "fault").alias("fault")
    return whole.select("file", "format", "bytes", *counts, fault)


def less(told: DataFrame, again: DataFrame) -> DataFrame:
    """`schema.FILES` once more rows are used from elsewhere. `again`: (file, again)."""
    more = F.coalesce("again", F.lit(0))
    joined = told.join(F.broadcast(again), "file", "left")
    counts = {"rows": F.col("rows") - more, "repeated": F.col("repeated") + more}
    return joined.withColumns(counts).select(*FILES.names)


def overlapping(spans: DataFrame) -> DataFrame:
    """(node, since, until): the times of which two files of a node tell. `spans`: (node, file, since, until).

    Wrinkle: each row of a node is compared with each of its times, and all of these are held in memory. So
    those that touch are one; of more than `MOST_TIMES` some are put together.
    """
    of_node = Window.partitionBy("node")
    in_order = of_node.orderBy("since", "file")
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    reached = spans.withColumn("reached", F.max("until").over(before)).where(
        F.col("reached") >= F.col("since")
    )
    both = reached.withColumn("until", F.least("until", "reached")).drop("reached")
    begins = F.when(F.col("since") <= F.max("until").over(before), 0).otherwise(1)
    ends = F.min("since").alias("since"), F.max("until").alias("until")
    apart = both.withColumn("begins", begins).withColumn("part", F.sum("begins").over(in_order))
    joined = apart.groupBy("node", "part").agg(*ends)
    count = F.count(F.lit(1)).over(of_node)
    share = F.floor((F.col("part") - 1) * F.least(F.lit(1.0), MOST_TIMES / count))
    return joined.withColumn("share", share).groupBy("node", "share").agg(*ends).drop("share")


def of_times(rows: DataFrame, times: DataFrame) -> DataFrame:
    """The rows that are of `times` (node, since, until)."""
    named = times.withColumnRenamed("node", "of")
    same = (F.col("node") == F.col("of")) & F.col("at").between(F.col("since"), F.col("until"))
    return rows.join(F.broadcast(named), same, "left_semi")


def skipping(rows: DataFrame, times: DataFrame) -> DataFrame:
    """The rows but those far from all `times`, which are not even read where files are in the order of
    time."""
    ends = F.min(F.unix_micros("since")).alias("since"), F.max(F.unix_micros("until")).alias("until")
    spans = times.groupBy(hour_of("since")).agg(*ends).collect()
    near = F.lit(False)
    for since, until in _joined([(row.since, row.until) for row in spans]):
        near = near | F.col("at").between(F.timestamp_micros(F.lit(since)), F.timestamp_micros(F.lit(until)))
    return rows.where(near)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans that these cover, in order; of more than `MOST_TIMES` the one that covers all."""
    joined: list[tuple[int, int]] = []
    for since, until in sorted(spans):
        if joined and since <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], until)
        else:
            joined.append((since, until))
    return joined if len(joined) <= MOST_TIMES else [(joined[0][0], joined[-1][1])]


def repetitions(marked: DataFrame) -> DataFrame:
    """(node, mark, first): the rows that several files have, and the first of these by name.

    `marked`: (node, mark, file); `mark` is a hash of all that a row says.
    """
    ends = marked.groupBy("node", "mark").agg(F.min("file").alias("first"), F.max("file").alias("last"))
    return ends.where(F.col("first") != F.col("last")).select("node", "mark", "first")


def without(rows: DataFrame, repetitions: DataFrame) -> tuple[DataFrame, DataFrame]:
    """The rows (with node, mark and file) but those that an earlier file has; and (file, again) of these."""
    known = rows.join(repetitions, ["node", "mark"], "left")
    again = F.coalesce(F.col("file") != F.col("first"), F.lit(False))
    counts = known.where(again).groupBy("file").agg(F.count(F.lit(1)).alias("again"))
    return known.where(~again).drop("first"), counts
