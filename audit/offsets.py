"""Whose clock differs from the others', as their advisories show: what was told cannot arrive before it was.

Law: an offset is an estimate, by two clocks. It is told, and what was reckoned by such a clock is left out of
the times until the root knew. How long a line was down is told by the clocks of both its ends: there such a
clock is set right by the estimate (`set_right`). No other figure depends on it.
"""

from typing import Final

import pyarrow as arrow
from pyarrow import Table

from audit.queries import query

OFF_S: Final = 60.0
"""Seconds that a clock may differ from most others before that is told: as long as news may be on its way."""
_STEADY: Final = 3
NONE: Final = arrow.schema([("node", arrow.string()), ("off_s", arrow.float64())]).empty_table()


def offsets(delays: Table, root: str) -> Table:
    """(node, off_s): clocks that differ from most by more than `OFF_S`, ahead of them if above 0.

    `delays`: by `causes.delays`. An advisory that seems to arrive before it was sent says by how much at
    least; the way back says by how much at most, and the middle is taken. Where there is no way back, a
    delay that is long and always the same is a clock, and one that varies is a line that was cut.
    """
    return query(
        """with bounds as (
            select node, -up_least / 1e6 as least, down_least / 1e6 as most,
                case when downs = 0 and ups >= $steady and up_usual < 1.1 * up_least then -up_least / 1e6
                    when ups = 0 and downs >= $steady and down_usual < 1.1 * down_least
                    then down_least / 1e6 end as steady
            from delays),
        beside_root as (
            select node, case
                when least > $off then case when most >= least then (least + most) / 2 else least end
                when most < -$off then case when least <= most then (least + most) / 2 else most end
                when abs(steady) > $off then steady else 0 end as off_s
            from bounds union all select $root, 0),
        usual as (select quantile_disc(off_s, 0.5) as usual from beside_root)
        select node, round(off_s - usual, 3) as off_s from beside_root cross join usual
        where abs(off_s - usual) > $off order by node""",
        delays=delays,
        root=root,
        off=OFF_S,
        steady=_STEADY,
    )


def with_offsets(clocks: Table, offsets: Table) -> Table:
    """The table `clocks` with `off_s`, and a row for each node that only this is wrong with."""
    return query(
        """select node, coalesce(unset, 0) as unset, coalesce(ahead, 0) as ahead,
            coalesce(backwards, 0) as backwards, largest_step_back_s, off_s
        from clocks full join offsets using (node) order by node""",
        clocks=clocks,
        offsets=offsets,
    )


def set_right(table: Table, offsets: Table, column: str) -> Table:
    """The rows with the times of a column as most clocks have them. `offsets`: (node, off_s)."""
    return query(_RIGHT.replace("COLUMN", column), given=table, offsets=offsets)


_RIGHT: Final = """select given.* replace (
        "COLUMN" - to_microseconds((coalesce(off_s, 0) * 1e6)::bigint) as "COLUMN")
    from given left join offsets using (node)"""
