"""The account of each file, and of rows that several files have.

Law: every line is in one count of `accounts.FILES`; what another file has too is in `repeated`, and used
once.
So the sum of `rows` is how many events there are.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as arrow
from pyarrow import Table
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from audit.accounts import COUNTS, FILES
from audit.listing import TWIN, LogFile
from audit.queries import query
from audit.queries import rows as rows_of
from audit.rollup import HOUR

MOST_TIMES: Final = 32
"""Times that rows are compared with one by one."""
NONE_AGAIN: Final = arrow.schema([("file", arrow.string()), ("again", arrow.int64())]).empty_table()


def spelt(path: str = "_metadata.file_path") -> Column:
    """The file of a row, spelt as `LogFile.uri` does."""
    return F.regexp_replace(path, "^file:/+", "file:/")


def listed(files: Sequence[LogFile]) -> Table:
    """(file, format, bytes, told), one row a file."""
    cells = [(file.uri, file.format, file.bytes, file.told_bytes) for file in files]
    types = (arrow.string(), arrow.string(), arrow.int64(), arrow.int64())
    return Table.from_arrays(
        [arrow.array([row[place] for row in cells], kind) for place, kind in enumerate(types)],
        ["file", "format", "bytes", "told"],
    )


def left_out(files: Sequence[LogFile], why: str) -> Table:
    """`FILES` of files that nobody looked into."""
    found = [{"file": file.uri, "format": file.format, "bytes": file.bytes, "fault": why} for file in files]
    return Table.from_pylist([row | dict.fromkeys(COUNTS, 0) for row in found], FILES)


def report(counted: Table, again: Table = NONE_AGAIN) -> Table:
    """`FILES` of (file, format, bytes, the counts but `repeated`, fault, twin).

    `twin`: the file that is used in its place. `again`: (file, again), rows that are used from another.
    """
    return query(
        """select file, format, bytes, lines, "rows" - repeated as "rows", repeated, blank, half, malformed,
            unknown, untimed, unread, 0::bigint as "foreign", 0::bigint as outside,
            newer, coalesce($twin || twin, fault) as fault
        from (
            select *, case when twin is null then coalesce(again, 0) else "rows" end as repeated
            from counted left join again using (file))""",
        counted=counted,
        again=again,
        twin=TWIN,
    )


def less(told: Table, again: Table) -> Table:
    """`FILES` once more rows are used from elsewhere. `again`: (file, again)."""
    return query(
        """select told.* replace ("rows" - coalesce(again, 0) as "rows", repeated + coalesce(again, 0) as
            repeated) from told left join again using (file)""",
        told=told,
        again=again,
    )


def overlapping(spans: Table) -> Table:
    """(node, since, until): the times of which two files of a node tell. `spans`: (node, file, since, until).

    Wrinkle: each row of a node is compared with each of its times, and all of these are held in memory. So
    those that touch are one; of more than `MOST_TIMES` some are put together.
    """
    return query(
        """with reached as (
            select *, max(until) over before as reached from spans window before as (
                partition by node order by since, file rows between unbounded preceding and 1 preceding)),
        shared as (
            select node, file, since, least(until, reached) as until from reached where reached >= since),
        begun as (
            select *, coalesce(since > max(until) over before, true)::int as begins
            from shared window before as (
                partition by node order by since, file rows between unbounded preceding and 1 preceding)),
        parts as (
            select *, sum(begins) over (
                partition by node order by since, file rows unbounded preceding) as part
            from begun),
        apart as (
            select node, part, min(since) as since, max(until) as until from parts group by node, part),
        shares as (
            select *, floor((part - 1) * least(1.0, $most / count(*) over (partition by node))) as share
            from apart)
        select node, min(since) as since, max(until) as until from shares group by node, share""",
        spans=spans,
        most=MOST_TIMES,
    )


def of_times(rows: DataFrame, times: Table) -> DataFrame:
    """The rows that are of `times` (node, since, until)."""
    named = rows.sparkSession.createDataFrame(times.rename_columns(["of", "since", "until"]))
    same = (F.col("node") == F.col("of")) & F.col("at").between(F.col("since"), F.col("until"))
    return rows.join(F.broadcast(named), same, "left_semi")


def skipping(rows: DataFrame, times: Table) -> DataFrame:
    """The rows but those far from all `times`, which are not even read where files are in the order of
    time."""
    spans = query(
        """select min(epoch_us(since)) as since, max(epoch_us(until)) as until from times
        group by floor(epoch_us(since) / $hour)""",
        times=times,
        hour=HOUR,
    )
    near = F.lit(False)
    for since, until in _joined([(row["since"], row["until"]) for row in rows_of(spans)]):
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
