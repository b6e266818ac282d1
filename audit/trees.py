"""Logs of another tree that lie in the folder: they are told apart, and in no sum.

Law: an audit is of one tree. Its name is given, or it is the one that most nodes of the table of sites wrote.
Rows without a tree, such as those of a copy of Parquet outside its folders, are of it too.
"""

from typing import Final

import pyarrow as arrow
from pyarrow import Table
from pyspark.sql import functions as F

from audit.errors import UsageError
from audit.queries import query, rows
from audit.reading import Intake, narrowed
from audit.session import fetch

NONE: Final = arrow.schema(
    [
        ("tree", arrow.string()),
        ("nodes", arrow.int64()),
        ("rows", arrow.int64()),
        ("audited", arrow.bool_()),
    ]
).empty_table()


def told_apart(intake: Intake, nodes: Table, wanted: str = "") -> tuple[Intake, Table]:
    """The rows of one tree; and (tree, nodes, rows, audited) of all, empty if there is one and none is named.

    `nodes`: of the deployment. `wanted`: the tree to audit; '' = that of most of them. Raises `UsageError` if
    no row is of it.

    Wrinkle: names are looked at only where the sums say that there are several; their hashes are in these.
    """
    ends = "select min(of_tree_least) as least, max(of_tree_most) as most from rolled"
    (found,) = rows(query(ends, rolled=intake.rolled))
    if not wanted and found["least"] == found["most"]:
        return intake, NONE
    counts = fetch(intake.events.groupBy("tree", "node", "file").agg(F.count(F.lit(1)).alias("rows")))
    trees = query(_TREES, counts=counts, nodes=nodes, wanted=wanted)
    chosen = next((row["tree"] for row in rows(trees) if row["audited"]), None)
    if chosen is None:
        there = ", ".join(row["tree"] for row in rows(trees)) or "none"
        raise UsageError(f"--tree {wanted}: no row is of this tree: expected one of {there}")
    foreign = query(
        """select file, sum("rows")::bigint as gone from counts where tree != $chosen group by file""",
        counts=counts,
        chosen=chosen,
    )
    of_it = F.coalesce(F.col("tree") == chosen, F.lit(True))
    return (narrowed(intake, of_it, "foreign", foreign) if len(foreign) else intake), trees


_TREES: Final = """with found as (
        select tree, count(distinct node) as nodes, sum("rows") as "rows",
            count(distinct node) filter (node in (select node from nodes)) as known
        from counts where tree is not null group by tree)
    select tree, nodes, "rows", case when $wanted != '' then tree = $wanted
        else row_number() over (order by known desc, "rows" desc, tree) = 1 end as audited
    from found order by audited desc, tree"""
