"""The account that an audit gives of each file and of each line that it read."""

from typing import Final

import pyarrow as arrow
from pyarrow import Table

from audit.queries import query

COUNTS: Final = (
    "lines",
    "rows",
    "repeated",
    "blank",
    "half",
    "malformed",
    "unknown",
    "untimed",
    "unread",
    "foreign",
    "outside",
    "newer",
)
"""Of each file. `lines` = the sum of the others but `newer`. repeated: what another file has too, and is used
from there; half: cut in the middle; malformed: no row of the log; unknown: an event or schema that this audit
cannot use; untimed: no time that can be read; unread: beyond the damage of a Parquet file; foreign: of
another tree; outside: before or after the time that is audited. newer: of `rows`, those with a newer
schema."""
FILES: Final = arrow.schema(
    [
        ("file", arrow.string()),
        ("format", arrow.string()),
        ("bytes", arrow.int64()),
        *((name, arrow.int64()) for name in COUNTS),
        ("fault", arrow.string()),
    ]
)


def totals(files: Table) -> Table:
    """One row: how many files (`FILES`), how many with a fault, and the sums of all counts."""
    return query(
        """select count(*) as files, count(fault) as faults,
            coalesce(sum(columns(* exclude (file, format, bytes, fault))), 0)::bigint from told""",
        told=files,
    )
