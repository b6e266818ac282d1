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

_READ: Final = tuple(name for name in LOG.names if name not in ("tree", "region", "depth"))
"""What the tables are made of."""
_SOURCE: Final = "source"
"""Of sums: what stands for the file, its size or a hash of its name."""


class Tables(NamedTuple):
    """`events` has `schema.EVENTS`, `files` `schema.FILES`; `rolled` is the `rollup` of the events."""

    events: DataFrame
    rolled: DataFrame
    files: DataFrame


def read(spark: "SparkSession", listing: Sequence[LogFile]) -> Tables:
    """Read files of Parquet.

    Wrinkle: where all rows are good and all clocks right, as they mostly are, no later pass asks again.
    """
    footers = _footers(spark, listing).localCheckpoint()
    twins = _twins(spark, listing, footers)
    known = spark.createDataFrame(list(twins.items()), "file string, twin string")
    lines = footers.join(known, "file", "left").localCheckpoint()
    used = [file for file in listing if file.uri not in twins]
    rows = _open(spark, used)
    summed = _summed(rows, used)
    told = _sums(summed, lines)
    whole = told["good"] == told["lines"]
    fates = _all_good(lines) if whole and not told["newer"] else _fates(_open(spark, listing))
    good = rows if whole else rows.where(fate() == "rows")
    once, again, summed = _once(good, summed, used, told["good"])
    summed = summed.where(_good())
    since = planned(summed) if told["ahead"] else None
    rolled = merged(replanned(summed, since) if since else summed).localCheckpoint()
    found = files.listed(spark, listing).join(lines, "file", "left").join(fates, "file", "left")
    counted = found.withColumn("fault", _fault()).drop("told", "read")
    events = _events(once, since, clocked=told["clocks"] > 0)
    return Tables(events, rolled, files.report(counted, again).localCheckpoint())


def _sums(summed: DataFrame, lines: DataFrame) -> Row:
    """(good, newer, clocks, ahead, lines): rows that can be used; of these, those of a newer schema, with a
    wrong clock, and with one that is ahead; and how many rows the footers say that the files have."""
    good = F.when(_good(), F.col("rows")).otherwise(0)
    wrong, ahead = F.col("clock").isNotNull(), F.col("clock") == "ahead"
    parts = {"good": F.lit(True), "newer": F.col("newer") > 0, "clocks": wrong, "ahead": ahead}
    sums = (F.sum(F.when(part, good).otherwise(0)) for part in parts.values())
    found = summed.agg(
        *(F.coalesce(one, F.lit(0)).alias(name) for name, one in zip(parts, sums, strict=True))
    )
    due = lines.where(F.col("twin").isNull()).agg(F.coalesce(F.sum("lines"), F.lit(0)).alias("lines"))
    return found.crossJoin(due).collect()[0]


def _good() -> Column:
    """Of sums: can their rows be used?"""
    return fate(F.col("first")) == "rows"


def _footers(spark: "SparkSession", listing: Sequence[LogFile]) -> DataFrame:
    """(file, lines). Wrinkle: a row is counted by its file's size where no other file has it; to look at the
    name of the file costs several times as much."""
    alike, unlike = _by_size(listing)
    count = F.count(F.lit(1)).alias("lines")
    parts = [_by_file(_open(spark, alike), count)] if alike else []
    if unlike:
        names = [(file.uri, file.bytes) for file in unlike]
        known = spark.createDataFrame(names, "file string, size long")
        counted = _open(spark, unlike).groupBy("size").agg(count)
        parts.append(known.join(counted, "size").select("file", "lines"))
    return parts[0].unionByName(parts[1]) if len(parts) > 1 else parts[0]


def _by_size(listing: Sequence[LogFile]) -> tuple[list[LogFile], list[LogFile]]:
    """The files that have the size of another, and those that have not."""
    sizes = Counter(file.bytes for file in listing)
    alike = [file for file in listing if sizes[file.bytes] > 1]
    return alike, [file for file in listing if sizes[file.bytes] == 1]


def _open(spark: "SparkSession", listing: Sequence[LogFile]) -> DataFrame:
    """All rows, with their file as Spark spells it, and when it was written. Columns of the log that a file
    lacks are null; `name=value` folders count.

    Wrinkle: Spark leaves out a file that has not the same such folders as the others it reads with it; and a
    reader keeps what it was told once, so that each has its own.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for file in listing:
        groups.setdefault(partitions(file.path), []).append(file.pattern)
    parts = [
        spark.read.schema(LOG).options(**({"basePath": base[0]} if base else {})).parquet(*paths)
        for base, paths in groups.items()
    ]
    more = (
        F.col("_metadata.file_path").alias("file"),
        F.col("_metadata.file_modification_time").alias("written"),
        F.col("_metadata.file_size").alias("size"),
    )
    named = [part.select(*LOG.names, *more) for part in parts]
    whole = named[0]
    for part in named[1:]:
        whole = whole.unionByName(part)
    return whole


def _events(rows: DataFrame, since: datetime | None, *, clocked: bool) -> DataFrame:
    wrong = clock(F.col("written"), since) if clocked else F.lit(None).cast("string")
    return rows.withColumns({"clock": wrong, "file": files.spelt("file")}).select(*EVENTS.names)


def _summed(rows: DataFrame, listing: Sequence[LogFile]) -> DataFrame:
    """The `rollup` of rows by file, also of those that cannot be used."""
    source = F.xxhash64("file") if _by_size(listing)[0] else F.col("size")
    keyed = rows.withColumns({"clock": clock(F.col("written")), _SOURCE: source})
    return rollup(keyed, _SOURCE).localCheckpoint()


def _by_file(rows: DataFrame, *sums: Column) -> DataFrame:
    """Wrinkle: a file's name is made readable once a file, not once a row."""
    return rows.groupBy("file").agg(*sums).withColumn("file", files.spelt("file"))


def _all_good(lines: DataFrame) -> DataFrame:
    """What `_fates` says where every line of every file is a row."""
    return lines.select("file", F.col("lines").alias("read"), F.col("lines").alias("rows"))


def _fates(rows: DataFrame) -> DataFrame:
    """Of each file what was read of it. Wrinkle: rows are counted by all that is read of them elsewhere,
    since damage in any of it ends the reading."""
    judged = rows.withColumn("fate", fate())
    odd = F.pmod(F.xxhash64(*_READ), F.lit(2)) == 1
    return _by_file(
        judged,
        (F.count_if(odd) + F.count_if(~odd)).alias("read"),
        *(F.count_if(F.col("fate") == one).alias(one) for one in ("rows", "unknown", "untimed")),
        F.count_if((F.col("fate") == "rows") & (F.col("schema") > NEWEST)).alias("newer"),
    )


def _fault() -> Column:
    return F.when(F.col("lines").isNull(), "nothing in it, or no Parquet file: nothing could be read").when(
        F.col("lines") != F.coalesce("read", F.lit(0)),
        "damaged, or columns of other types: read as far as it goes",
    )


def _once(
    rows: DataFrame, summed: DataFrame, listing: Sequence[LogFile], due: int
) -> tuple[DataFrame, DataFrame | None, DataFrame]:
    """Leave out rows that another file of the same node has too; only times of which two files tell are
    looked at, of which the sums know. And (file, again), and the sums of what is left. `due`: how many rows
    there are.

    Wrinkle: where only some times are read, a damaged file may be read beyond its damage, and rows be left
    out that nobody reads from there. Then there are less than are due, and all is read to compare.
    """
    spans = (
        summed.where(_good())
        .groupBy("node", F.col(_SOURCE).alias("file"))
        .agg(F.min("first").alias("since"), F.max("last").alias("until"))
    )
    times = files.overlapping(spans).localCheckpoint()
    if times.isEmpty():
        return rows, None, summed
    mark = F.xxhash64(*COMPARED).alias("mark")
    for some in (files.skipping(rows, times), rows):
        suspects = files.of_times(some, times)
        repetitions = files.repetitions(suspects.select("node", mark, "file")).localCheckpoint()
        if repetitions.isEmpty():
            break
        once, repeats = files.without(rows.withColumn("mark", mark), repetitions)
        again = repeats.withColumn("file", files.spelt("file")).localCheckpoint()
        left = _summed(once, listing)
        if some is rows or _count(left, "rows") + _count(again, "again") == due:
            return once, again, left
    return rows, None, summed


def _count(sums: DataFrame, name: str) -> int:
    return int(sums.agg(F.coalesce(F.sum(name), F.lit(0))).collect()[0][0])


def _twins(spark: "SparkSession", listing: Sequence[LogFile], footers: DataFrame) -> dict[str, str]:
    """Files that hold the same as another, and which; only files of one size can."""
    alike, _ = _by_size(listing)
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
