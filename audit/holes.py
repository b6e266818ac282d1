"""Rows that are missing from a node's log, and logs that two nodes of one name wrote, told by the numbers
that rows have.

Law: a node numbers its rows one after the other, across files and starts; so a number that no row has was a
line that is gone, a file that nobody fetched, or a row that a full disk did not take. The beginning of a log
is none: its oldest files are removed in good order. Rows of schema 1 have no number, and are not asked for.

Law: a node writes one log at a time, and gives each number once. So where two series go on side by side, or
one number has two rows, two nodes have the name; nothing tells the rows of the one from those of the other.
"""

from typing import Final

import pyarrow as arrow
from pyarrow import Table
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from audit.queries import query

NONE: Final = arrow.schema(
    [
        ("node", arrow.string()),
        *((name, arrow.int64()) for name in ("series", "first", "last", "missing")),
        *((name, arrow.timestamp("us", "UTC")) for name in ("since", "until")),
        *((name, arrow.string()) for name in ("before", "after")),
    ]
).empty_table()
NO_DOUBLES: Final = arrow.schema(
    [
        ("node", arrow.string()),
        *((name, arrow.int64()) for name in ("series", "other", "twice")),
        *((name, arrow.timestamp("us", "UTC")) for name in ("since", "until")),
    ]
).empty_table()
TOGETHER_S: Final = 60
"""Seconds that two series of a node must go on side by side: a clock that is put right goes back by less."""


def logs(rolled: Table) -> Table:
    """Each node's log: (node, rows, numbered, first, last, since, until). `first`, `last`: its numbers, null
    where it has none; `since`, `until`: by clocks that are right."""
    return query(
        """select node, sum("rows") as "rows", sum(numbered) as numbered, min(seq_least) as first,
            max(seq_most) as last, min(rolled.first) filter (clock is null) as since,
            max(rolled.last) filter (clock is null) as until
        from rolled group by node order by node""",
        rolled=rolled,
    )


def suspects(rolled: Table) -> Table:
    """(node) of which some number may be missing; a log that began anew has several series."""
    return query(
        """select node from rolled group by node having sum(numbered) > 0 and (
            max(seq_most) - min(seq_least) + 1 != sum(numbered) or min(series_least) != max(series_most))""",
        rolled=rolled,
    )


def holes(events: DataFrame) -> DataFrame:
    """(node, series, first, last, missing, since, until, before, after): numbers from `first` to `last` that
    no row has; times and files of the rows before and after them."""
    numbered = Window.partitionBy("node", "series").orderBy("seq")
    cells = {"last_seq": "seq", "since": "at", "before": "file"}
    seen = events.where(F.col("seq").isNotNull()).select(
        "node", "series", "seq", "at", "file", *(F.lag(of).over(numbered).alias(n) for n, of in cells.items())
    )
    return seen.where(F.col("seq") > F.col("last_seq") + 1).select(
        "node",
        "series",
        (F.col("last_seq") + 1).alias("first"),
        (F.col("seq") - 1).alias("last"),
        (F.col("seq") - F.col("last_seq") - 1).alias("missing"),
        "since",
        F.col("at").alias("until"),
        "before",
        F.col("file").alias("after"),
    )


def spans(events: DataFrame) -> DataFrame:
    """(node, series, since, until, twice, twice_since, twice_until): from when until when each series goes,
    by clocks that are right; how many of its numbers several rows have, and when."""
    numbered = events.where(F.col("seq").isNotNull())
    right = F.when(F.col("clock").isNull(), F.col("at"))
    ends = F.min(right).alias("since"), F.max(right).alias("until")
    numbers = numbered.groupBy("node", "series", "seq").agg(F.count(F.lit(1)).alias("rows"), *ends)
    twice = F.col("rows") > 1
    return numbers.groupBy("node", "series").agg(
        F.min("since").alias("since"),
        F.max("until").alias("until"),
        F.count_if(twice).alias("twice"),
        F.min(F.when(twice, F.col("since"))).alias("twice_since"),
        F.max(F.when(twice, F.col("until"))).alias("twice_until"),
    )


def doubles(spans: Table) -> Table:
    """(node, series, other, twice, since, until): logs that two nodes of one name wrote. `other`: the series
    that began before and went on; `twice`: how many numbers of one series have several rows. `spans`: by
    `spans`."""
    return query(
        """with side_by_side as (
            select *, max(until) over before as reached, arg_max(series, until) over before as earlier
            from spans window before as (
                partition by node order by since, series rows between unbounded preceding and 1 preceding))
        select node, series, earlier as other, null::bigint as twice, since, least(until, reached) as until
        from side_by_side where reached is not null and epoch(least(until, reached)) - epoch(since) > $least
        union all
        select node, series, series, twice, twice_since, twice_until from spans where twice > 0
        order by node, series, other""",
        spans=spans,
        least=TOGETHER_S,
    )
