"""Rows that are missing from a node's log, told by the numbers that its rows have.

Law: a node numbers its rows one after the other, across files and starts; so a number that no row has was a
line that is gone, a file that nobody fetched, or a row that a full disk did not take. The beginning of a log
is none: its oldest files are removed in good order. Rows of schema 1 have no number, and are not asked for.
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
