"""What became of each file, and of rows that several files have.

Law: every line is in one count of `schema.FILES`; what another file has too is in `repeated`, and used once.
So the sum of `rows` is how many events there are.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from audit.listing import TWIN, LogFile
from audit.schema import FILES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNTS: Final = tuple(FILES.names[3:-1])


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
    """(node): those of which two files are of the same time. `spans`: (node, file, since, until)."""
    before = Window.partitionBy("node").orderBy("since", "file").rowsBetween(Window.unboundedPreceding, -1)
    reached = spans.withColumn("reached", F.max("until").over(before))
    return reached.where(F.col("reached") >= F.col("since")).select("node").distinct()


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
