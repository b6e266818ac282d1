"""When a node reaches a limit, from the trend of its routes and links, and of whatever figures are given.

Law: the trend is the straight line of least squares through the most that stood on each day. Below three days
nothing is foretold, since a chain has its hours; nor where the line does not rise.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as arrow
from pyarrow import Table

from audit.queries import query

LIMITS: Final = {"routes": 50_000.0, "links": 2_000.0, "spool_bytes": 8.0 * 2**30}
"""What is taken as full unless the caller says otherwise: a link's routes, a branch's links, a spool."""
LEAST_POINTS: Final = 3
A_DAY: Final = 86_400e6
"""Microseconds."""

SAID: Final = arrow.schema(
    [
        ("node", arrow.string()),
        ("route", arrow.int64()),
        ("hour", arrow.timestamp("us", "UTC")),
        ("said", arrow.int64()),
    ]
)


def figures(rolled: Table, routes: Table) -> Table:
    """(node, figure, at, value): routes and links of each node at the end of each hour in which they changed,
    and at the beginning of each day until the logs end: a day without a change is one too.

    `rolled`: by `rollup`. `routes`: by `routes`.
    """
    return query(
        """with hourly as (
            select node, figure, "at", sum(step) as step from changes group by node, figure, "at"),
        held as (
            select node, figure, "at", sum(step) over (
                partition by node, figure order by "at" rows unbounded preceding)::double as value
            from hourly),
        ends as (select max(last) as "end" from rolled where clock is null),
        mornings as (
            select node, figure, unnest(generate_series(
                date_trunc('day', min("at")) + interval 1 day, any_value("end"), interval 1 day)) as "at"
            from held cross join ends group by node, figure)
        from held union all
        select mornings.*, value from mornings asof join held
            on mornings.node = held.node and mornings.figure = held.figure and mornings."at" > held."at" """,
        changes=arrow.concat_tables([routes, links(rolled)]),
        rolled=rolled,
    )


def adrift(rolled: Table, told: Table) -> Table:
    """(node) of which some route's adds less removes do not come to what was said of it last.

    `rolled`, `told`: the sums of a log by `rollup` and `told.TOLD`.
    """
    return query(
        """with ends as (
            select at_node from told group by at_node, route having sum(step) != (max(said) & 1))
        select distinct node from rolled where at_node in (select at_node from ends)""",
        rolled=rolled,
        told=told,
    )


def routes(rolled: Table, adrift: Table, said: Table) -> Table:
    """(node, figure, at, step): how many routes more each node had at the end of an hour than before.

    `said`: of the nodes that are `adrift`, by `told.SAID_BY_HOUR`. Law: a route is there from an add to a
    remove, however often it is told again in between, by a resync say; so what counts is what was said of it
    last, not how often. Of all other nodes the sums by hour say the same, and cost nothing more.
    """
    return query(
        """with plain as (
            select node, hour as "at", case op when 'add' then "rows" else -"rows" end as step from rolled
            where event = 'advisory' and clock is null and kind in ('queue', 'topic')
                and op in ('add', 'remove') and node not in (select node from adrift)),
        told as (
            select node, hour as "at",
                (said & 1) - lag(said & 1, 1, 0) over (partition by node, route order by hour) as step
            from said)
        select node, 'routes' as figure, "at", sum(step)::bigint as step
        from (from plain union all from told) group by node, "at" """,
        rolled=rolled,
        adrift=adrift,
        said=said,
    )


def links(rolled: Table) -> Table:
    """(node, figure, at, step). A node that was killed wrote no `down`: a link that comes up twice is one."""
    return query(
        """with hours as (
            select node, peer, hour as "at", sum(case op when 'up' then "rows" else -"rows" end) as way
            from rolled where event = 'link' and op in ('up', 'down') and clock is null
            group by node, peer, hour),
        held as (
            select *, coalesce(last_value(case when way > 0 then 1 when way < 0 then 0 end ignore nulls)
                over line, 0) as up
            from hours window line as (partition by node, peer order by "at" rows unbounded preceding))
        select node, 'links' as figure, "at",
            (up - lag(up, 1, 0) over (partition by node, peer order by "at"))::bigint as step
        from held""",
        rolled=rolled,
    )


def forecast(figures: Table, limits: Mapping[str, float] | None = None) -> Table:
    """(node, figure, points, now, a_day, limit, days_left, full_at): soonest first; null where it never
    fills.

    `figures`: (node, figure, at, value) from `figures`, or of the same form from elsewhere, such as spools.
    """
    known = [{"figure": name, "limit": float(value)} for name, value in (LIMITS | dict(limits or {})).items()]
    return query(
        """with days as (
            select node, figure, date_trunc('day', "at") as "at", max(value) as value from figures
            group by all),
        lines as (
            select node, figure, count(*) as points, arg_max(value, "at") as now, max("at") as last,
                case when count(*) > 1 then regr_slope(value, epoch_us("at") / $a_day) end as a_day
            from days group by node, figure),
        left_over as (
            select *, case when points >= $least and a_day > 0 and "limit" is not null
                then greatest(0.0, ("limit" - now) / a_day) end as days_left
            from lines left join limits using (figure))
        select node, figure, points, now, a_day, "limit", days_left, case when days_left is not null
            then make_timestamptz((epoch_us(last) + least(days_left, 36500.0) * $a_day)::bigint) end
            as full_at
        from left_over order by days_left asc nulls last, now desc, node, figure""",
        figures=figures,
        limits=Table.from_pylist(known),
        a_day=A_DAY,
        least=LEAST_POINTS,
    )
