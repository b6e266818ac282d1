"""Whose clock is wrong: never set, ahead of the file that it wrote into, or set back.

Wrinkle: the simulation writes the log of a day that it was asked for, which may be one to come. Where most
nodes are ahead of their file, the log is of such a day: then a clock is ahead that is so of most others.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as arrow
from pyarrow import Table

from audit.queries import query, rows
from audit.rollup import HOUR

JUMP: Final = 1_000_000
"""Microseconds that a clock may be set back before that is counted."""
NO_STEPS: Final = arrow.schema(
    [("node", arrow.string()), ("backwards", arrow.int64()), ("step", arrow.int64())]
).empty_table()
_DAY: Final = 24 * HOUR
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SET: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""A clock that tells of a time before was never set."""


def clock(since: datetime | None = None, time: str = "at", written: str = "unix_micros(written)") -> str:
    """What is wrong with the clock of a row: null, 'unset' or 'ahead', as a text of `sums`. `written`: when
    its file was last written, in microseconds. `since`: from `planned`; nothing before it is ahead.

    Wrinkle: a time and an interval are added in time zones, row by row; these are only numbers.
    """
    ahead = f"unix_micros({time}) > {written} + {_DAY}"
    if since is not None:
        ahead += f" and unix_micros({time}) >= {_micros(since)}"
    return f"case when unix_micros({time}) < {_micros(_SET)} then 'unset' when {ahead} then 'ahead' end"


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def planned(rolled: Table) -> datetime | None:
    """If most nodes are ahead of their files: the full hour a day after half of the nodes had ended."""
    (found,) = rows(
        query(
            """with ends as (
                select node, coalesce(bool_or(clock = 'ahead'), false) as ahead,
                    epoch_us(max(last) filter (clock is null or clock = 'ahead')) as last
                from rolled group by node)
            select count(*) as nodes, count(*) filter (ahead) as ahead, quantile_disc(last, 0.5) as usual
            from ends""",
            rolled=rolled,
        )
    )
    if 2 * found["ahead"] <= found["nodes"]:
        return None
    hours = -(-(found["usual"] + _DAY) // HOUR)
    return _EPOCH + timedelta(hours=hours)


def replanned(rolled: Table, since: datetime) -> Table:
    """The sums with the clocks that `clock` gives once `since` is known: it is a full hour, as they are."""
    return query(
        """select * replace (case when clock = 'ahead' and hour < $since then null else clock end as clock)
        from rolled""",
        rolled=rolled,
        since=since,
    )


def clocks(rolled: Table, steps: Table = NO_STEPS) -> Table:
    """(node, unset, ahead, backwards, largest_step_back_s), only nodes with any.

    `steps`: (node, backwards, step), how often each node's clock was set back in its files, and by how many
    microseconds at most.
    """
    return query(
        """with wrong as (
            select node, coalesce(sum("rows") filter (clock = 'unset'), 0)::bigint as unset,
                coalesce(sum("rows") filter (clock = 'ahead'), 0)::bigint as ahead
            from rolled where clock is not null group by node)
        select node, coalesce(unset, 0) as unset, coalesce(ahead, 0) as ahead,
            coalesce(backwards, 0) as backwards, step / 1e6 as largest_step_back_s
        from wrong full join (from steps where backwards > 0) using (node)""",
        rolled=rolled,
        steps=steps,
    )
