"""Reads advisory logs in Parquet; `tree` and `region`, and any other column, may stand in the files' path.

Wrinkle: Spark can read a damaged file as far as it goes, but does not tell. Rows are compared with the files'
footers, which cost nearly nothing to read; only if their sums differ, or a query fails, is each file looked
at by itself.

Wrinkle: a copy outside its folders lacks what stands in the path. So what `tree` and `region` say does not
count when two rows are compared, and of files that hold the same the one is used whose path says most.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from audit import files, session
from audit.clocks import clock, planned, replanned
from audit.lines import fate
from audit.listing import LogFile, partitions
from audit.rollup import merged, rollup
from audit.schema import COMPARED, EVENTS, LOG, NEWEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SOURCE: Final = "source"
"""Of sums: what stands for the file, its size or a hash of its name."""


class Tables(NamedTuple):
    """`events` has `schema.EVENTS`, `files` `schema.FILES`; `rolled` is the `rollup` of the events."""

    events: DataFrame
    rolled: DataFrame
    files: DataFrame


class _Damaged(Exception):
    """Fewer rows were read than there are, and nobody has asked yet of which file."""


class _Log(NamedTuple):
    """The files of a log, with the lines that each has by its footer. `kept`: what could be read of those
    that are `damaged`. `asked`: these are known.

    Wrinkle: how far Spark reads a damaged file depends on the columns and rows that a query wants. So what
    can be read of it is read once, and kept.
    """

    spark: "SparkSession"
    listing: Sequence[LogFile]
    footers: DataFrame
    asked: bool = False
    damaged: frozenset[str] = frozenset()
    kept: DataFrame | None = None

    def rows(self, listing: Sequence[LogFile]) -> DataFrame:
        """All rows of these files."""
        if self.kept is None:
            return _open(self.spark, listing)
        wanted = self.damaged & {file.uri for file in listing}
        kept = self.kept.where(files.spelt("file").isin(sorted(wanted)))
        whole = [file for file in listing if file.uri not in wanted]
        return _open(self.spark, whole).unionByName(kept) if whole else kept


def read(spark: "SparkSession", listing: Sequence[LogFile]) -> Tables:
    """Read files of Parquet."""
    log = _Log(spark, listing, _footers(spark, listing).localCheckpoint())
    try:
        return _read(log)
    except (_Damaged, Py4JError, PySparkException) as error:
        apart = _apart(log)
        if not (apart.damaged or isinstance(error, _Damaged)):
            raise
    return _read(apart)


def _read(log: _Log) -> Tables:
    """Raises `_Damaged`.

    Wrinkle: where all rows are good and all clocks right, as they mostly are, no later pass asks again.
    """
    twins = _twins(log)
    known = log.spark.createDataFrame(list(twins.items()), "file string, twin string")
    lines = log.footers.join(known, "file", "left").localCheckpoint()
    used = [file for file in log.listing if file.uri not in twins]
    rows = log.rows(used)
    summed = _summed(rows, used)
    told = _sums(summed, lines)
    if told["read"] != told["lines"] and not log.asked:
        raise _Damaged
    whole = told["good"] == told["lines"]
    fates = _all_good(lines) if whole and not told["newer"] else _fates(log.rows(log.listing))
    once, again, summed = _once(rows if whole else rows.where(fate() == "rows"), summed, used)
    summed = summed.where(_good())
    since = planned(summed) if told["ahead"] else None
    rolled = merged(replanned(summed, since) if since else summed).localCheckpoint()
    found = files.listed(log.spark, log.listing).join(lines, "file", "left").join(fates, "file", "left")
    unread = F.col("lines") - F.coalesce("read", F.lit(0))
    counted = found.withColumns({"fault": _fault(), "unread": unread}).drop("told", "read")
    events = _events(once, since, clocked=told["clocks"] > 0)
    return Tables(events, rolled, files.report(counted, again).localCheckpoint())


def _apart(log: _Log) -> _Log:
    """With the damaged files apart. Wrinkle: some damage ends every query that reads many rows at once."""
    looked = F.pmod(F.xxhash64(*COMPARED), F.lit(2)) == 0
    read = _by_file(_open(log.spark, log.listing), (F.count_if(looked) + F.count_if(~looked)).alias("read"))
    short = log.footers.join(read, "file", "left").where(F.col("lines") != F.coalesce("read", F.lit(0)))
    try:
        found = short.select("file").collect()
    except (Py4JError, PySparkException):
        with session.row_by_row(log.spark):
            found = short.select("file").collect()
    damaged = frozenset(row.file for row in found)
    with session.row_by_row(log.spark):
        some = [file for file in log.listing if file.uri in damaged]
        kept = _open(log.spark, some).localCheckpoint() if some else None
    return log._replace(asked=True, damaged=damaged, kept=kept)


def _sums(summed: DataFrame, lines: DataFrame) -> Row:
    """(good, newer, clocks, ahead, read, lines): rows that can be used; of these, those of a newer schema,
    with a wrong clock, and with one that is ahead; how many rows were read, and how many the files have by
    their footers."""
    good = F.when(_good(), F.col("rows")).otherwise(0)
    wrong, ahead = F.col("clock").isNotNull(), F.col("clock") == "ahead"
    parts = {"good": F.lit(True), "newer": F.col("newer") > 0, "clocks": wrong, "ahead": ahead}
    sums = {name: F.sum(F.when(part, good).otherwise(0)) for name, part in parts.items()}
    sums["read"] = F.sum("rows")
    found = summed.agg(*(F.coalesce(one, F.lit(0)).alias(name) for name, one in sums.items()))
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


def _once(
    rows: DataFrame, summed: DataFrame, listing: Sequence[LogFile]
) -> tuple[DataFrame, DataFrame | None, DataFrame]:
    """Leave out rows that another file of the same node has too; only times of which two files tell are
    looked at, of which the sums know. And (file, again), and the sums of what is left."""
    spans = (
        summed.where(_good())
        .groupBy("node", F.col(_SOURCE).alias("file"))
        .agg(F.min("first").alias("since"), F.max("last").alias("until"))
    )
    times = files.overlapping(spans).localCheckpoint()
    if times.isEmpty():
        return rows, None, summed
    mark = F.xxhash64(*COMPARED).alias("mark")
    suspects = files.of_times(files.skipping(rows, times), times)
    repetitions = files.repetitions(suspects.select("node", mark, "file")).localCheckpoint()
    if repetitions.isEmpty():
        return rows, None, summed
    once, repeats = files.without(rows.withColumn("mark", mark), repetitions)
    again = repeats.withColumn("file", files.spelt("file")).localCheckpoint()
    return once, again, _summed(once, listing)


def _twins(log: _Log) -> dict[str, str]:
    """Files that hold the same as another, and which; only files of one size can."""
    alike, _ = _by_size(log.listing)
    if not alike:
        return {}
    prints = _by_file(
        log.rows(alike).withColumn("mark", F.xxhash64(*COMPARED)),
        F.bit_xor("mark").alias("print_a"),
        F.sum(F.pmod("mark", F.lit(2**31))).alias("print_b"),
    )
    first: dict[tuple[int, int, int], str] = {}
    twins: dict[str, str] = {}
    for row in sorted(prints.join(log.footers, "file").collect(), key=_most_said):
        before = first.setdefault((row.lines, row.print_a, row.print_b), row.file)
        if before != row.file:
            twins[row.file] = before
    return twins


def _most_said(row: Row) -> tuple[int, str]:
    return -sum("=" in folder for folder in row.file.split("/")[:-1]), row.file
