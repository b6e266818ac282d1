"""The time that is audited: rows before and after it are counted, and in no sum.

Law: `since` is in it, `until` is not, so that of two days in a row each row is in one. Rows whose clock was
not set have no place in time: they are in one without a beginning, and outside of each other.
"""

from datetime import datetime

from pyarrow import Table
from pyspark.sql import functions as F

from audit.queries import query, rows
from audit.reading import Intake, narrowed
from audit.session import fetch

Period = tuple[datetime | None, datetime | None]


def within(intake: Intake, period: Period) -> Intake:
    """The rows of a time. Wrinkle: none is looked at where the sums say that all are of it."""
    since, until = period
    ends = "select min(first) as first, max(last) as last from rolled"
    (found,) = rows(query(ends, rolled=intake.rolled))
    before = since is not None and found["first"] is not None and found["first"] < since
    after = until is not None and found["last"] is not None and found["last"] >= until
    if not before and not after:
        return intake
    inside = F.lit(True)
    if since is not None:
        inside = inside & (F.col("at") >= F.lit(since))
    if until is not None:
        inside = inside & (F.col("at") < F.lit(until))
    out = fetch(intake.events.where(~inside).groupBy("file").agg(F.count(F.lit(1)).alias("gone")))
    return narrowed(intake, inside, "outside", out)


def of_time(found: Table, period: Period) -> Table:
    """Of `holes` or `doubles` those that may be of a time. They are looked for before rows are left out,
    since a row of another time is no hole."""
    since, until = period
    return query(
        """from found where ($since is null or "until" is null or "until" >= $since::timestamptz)
            and ($until is null or since is null or since < $until::timestamptz)
        order by node, series, since""",
        found=found,
        since=since,
        until=until,
    )


def tree_of(intake: Intake) -> str:
    """The name of the tree of a log that has one; '' where no row says."""
    named = intake.events.select("tree").where(F.col("tree").isNotNull()).limit(1)
    return next((str(row["tree"]) for row in rows(fetch(named))), "")
