"""Reads advisory logs in Parquet; `tree` and `region`, and any other column, may stand in the files' path.

Wrinkle: Spark can read a damaged file as far as it goes, but does not tell. Rows are compared with the files'
footers, which cost nearly nothing to read; only if their sums differ is each file looked at by itself.

Wrinkle: a copy outside its folders lacks what stands in the path. So what `tree` and `region` say does not
count when two rows are compared, and of files that hold the same the one is used whose path says most.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from audit import files
from audit.clocks import clock, planned, replanned
from audit.lines import fate
from audit.listing import LogFile, partitions
from audit.rollup import merged, rollup
from audit.schema import COMPARED, EVENTS, LOG, NEWEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE: Final = "source"
"""Of sums: a hash of the file."""


class Tables(NamedTuple):
    """`events` has `schema.EVENTS`, `files` `schema.FILES`; `rolled` is the `rollup` of the events."""

    events: DataFrame
    rolled: DataFrame
    files: DataFrame


def read(spark: "SparkSession", listing: Sequence[LogFile]) -> Tables:
    """Read files of Parquet."""
    footers = _by_file(_open(spark, listing), F.count(F.lit(1)).alias("lines")).localCheckpoint()
    twins = _twins(spark, listing, footers)
    known = spark.createDataFrame(list(twins.items()), "file string, twin string")
    lines = footers.join(known, "file", "left").localCheckpoint()
    good = _open(spark, [file for file in listing if file.uri not in twins]).where(fate() == "rows")
    summed = _summed(good)
    whole = _sum(summed, "rows") == _sum(lines.where(F.col("twin").isNull()), "lines")
    fates = _all_good(lines) if whole and not _sum(summed, "newer") else _fates(_open(spark, listing))
    once, again = _once(good, summed)
    if again is not None:
        summed = _summed(once)
    since = planned(summed)
    rolled = merged(replanned(summed, since) if since else summed).localCheckpoint()
    found = files.listed(spark, listing).join(lines, "file", "left").join(fates, "file", "left")
    counted = found.withColumn("fault", _fault()).drop("told", "read")
    return Tables(_events(once, since), rolled, files.report(counted, again).localCheckpoint())


def _open(spark: "SparkSession", listing: Sequence[LogFile]) -> DataFrame:
    """All rows, with their file as Spark spells it, and when it was written. Columns of the log that a file
    lacks are null; `name=value` folders count.

    Wrinkle: Spark leaves out a file that has not the same such folders as the others it reads with it.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for file in listing:
        groups.setdefault(partitions(file.path), []).append(file.pattern)
    reader = spark.read.schema(LOG)
    parts = [
        (reader.option("basePath", base[0]) if base else reader).parquet(*paths)
        for base, paths in groups.items()
    ]
    more = (
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_modification_time").alias("written"),
    )
    named = [part.select(*LOG.names, *more) for part in parts]
    whole = named[0]
    for part in named[1:]:
        whole = whole.unionByName(part)
    return whole


def _events(rows: DataFrame, since: datetime | None) -> DataFrame:
    judged = rows.withColumn("clock", clock(F.col("written"), since))
    return judged.withColumn("file", files.spelt("file")).select(*EVENTS.names)


def _summed(rows: DataFrame) -> DataFrame:
    keyed = rows.withColumn("clock", clock(F.col("written"))).withColumn(_SOURCE, F.xxhash64("file"))
    return rollup(keyed, _SOURCE).localCheckpoint()


def _sum(rows: DataFrame, column: str) -> int:
    return int(rows.agg(F.coalesce(F.sum(column), F.lit(0))).collect()[0][0])


def _by_file(rows: DataFrame, *sums: Column) -> DataFrame:
    """Wrinkle: a file's name is made readable once a file, not once a row."""
    return rows.groupBy("file").agg(*sums).withColumn("file", files.spelt("file"))


def _all_good(lines: DataFrame) -> DataFrame:
    """What `_fates` says where every line of every file is a row."""
    return lines.select("file", F.col("lines").alias("read"), F.col("lines").alias("rows"))


def _fates(rows: DataFrame) -> DataFrame:
    judged = rows.withColumn("fate", fate())
    return _by_file(
        judged,
        F.count(F.lit(1)).alias("read"),
        *(F.count_if(F.col("fate") == one).alias(one) for one in ("rows", "unknown", "untimed")),
        F.count_if((F.col("fate") == "rows") & (F.col("schema") > NEWEST)).alias("newer"),
    )


def _fault() -> Column:
    return F.when(F.col("lines").isNull(), "nothing in it, or no Parquet file: nothing could be read").when(
        F.col("lines") != F.coalesce("read", F.lit(0)),
        "damaged, or columns of other types: read as far as it goes",
    )


def _once(rows: DataFrame, summed: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Leave out rows that another file of the same node has too; only nodes whose files overlap are looked
    at, of which the sums know."""
    spans = summed.groupBy("node", F.col(_SOURCE).alias("file")).agg(
        F.min("first").alias("since"), F.max("last").alias("until")
    )
    suspects = files.overlapping(spans).localCheckpoint()
    if suspects.isEmpty():
        return rows, None
    marked = rows.withColumn("mark", F.xxhash64(*COMPARED))
    named = marked.select("node", "mark", "file").join(F.broadcast(suspects), "node", "left_semi")
    repetitions = files.repetitions(named).localCheckpoint()
    if repetitions.isEmpty():
        return rows, None
    once, again = files.without(marked, repetitions)
    return once, again.withColumn("file", files.spelt("file"))


def _twins(spark: "SparkSession", listing: Sequence[LogFile], footers: DataFrame) -> dict[str, str]:
    """Files that hold the same as another, and which; only files of one size can."""
    sizes = Counter(file.bytes for file in listing)
    alike = [file for file in listing if sizes[file.bytes] > 1]
    if not alike:
        return {}
    prints = _by_file(
        _open(spark, alike).withColumn("mark", F.xxhash64(*COMPARED)),
        F.bit_xor("mark").alias("print_a"),
        F.sum(F.pmod("mark", F.lit(2**31))).alias("print_b"),
    )
    first: dict[tuple[int, int, int], str] = {}
    twins: dict[str, str] = {}
    for row in sorted(prints.join(footers, "file").collect(), key=_most_said):
        before = first.setdefault((row.lines, row.print_a, row.print_b), row.file)
        if before != row.file:
            twins[row.file] = before
    return twins


def _most_said(row: Row) -> tuple[int, str]:
    return -sum("=" in folder for folder in row.file.split("/")[:-1]), row.file
