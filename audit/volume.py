"""How many advisories and bytes there were: when, where, over which link, of what kind, and for which
consumer.

`cube` is a sum of `rollup`; every table by hour, level, region, node, link, direction or kind is a sum over
it. Rows whose clock cannot be true have no hour: they count in every sum, and in no series over time.
"""

from typing import Final

from pyarrow import Table

from audit.queries import query

DIMENSIONS: Final = {
    "hour": ("hour",),
    "level": ("depth",),
    "hour_level": ("hour", "depth"),
    "region": ("region",),
    "node": ("region", "node", "role", "depth"),
    "link": ("node", "peer", "direction"),
    "direction": ("direction",),
    "kind": ("kind", "op"),
}
"""The tables that `by` makes, with their keys."""


def cube(rolled: Table) -> Table:
    """(hour, node, peer, direction, kind, op, restored, advisories, bytes). `rolled`: by `rollup`."""
    return query(
        """select case when clock is null then hour end as hour, node, peer, direction, kind, op, restored,
            sum("rows") as advisories, sum(bytes) as bytes
        from rolled where event = 'advisory' group by all""",
        rolled=rolled,
    )


_BY: Final = """select KEYS, sum(advisories) as advisories, sum(bytes) as bytes,
        sum(case when kind in ('queue', 'topic') then advisories else 0 end) as consumer_advisories,
        sum(case when kind = 'domain' then advisories else 0 end) as domain_advisories,
        sum(case when restored then advisories else 0 end) as restored
    from cube left join nodes using (node) group by KEYS order by KEYS"""


def by(cube: Table, nodes: Table, table: str) -> Table:
    """The rows of `table` in `DIMENSIONS`; consumers' advisories and domain routes apart. Depth, region and
    role are null of a node that the deployment does not know."""
    return query(_BY.replace("KEYS", ", ".join(DIMENSIONS[table])), cube=cube, nodes=nodes)


def consumers(hours: Table, told: Table) -> Table:
    """What each consumer cost: (node, kind, destination, came, went, added, closed, bytes).

    `hours`: by `told.HOURS`. `told`: by `told.TOLD`.
    """
    return query(
        """with costs as (
            select consumer, sum(added) as added, sum(closed) as closed, sum(bytes) as bytes
            from told group by consumer)
        select node, kind, destination, sum(came) as came, sum(went) as went,
            coalesce(any_value(added), 0)::bigint as added, coalesce(any_value(closed), 0)::bigint as closed,
            coalesce(any_value(bytes), 0)::bigint as bytes
        from hours left join costs using (consumer) group by node, kind, destination""",
        hours=hours,
        told=told,
    )


def knowing(consumer_events: Table, nodes: Table, off: Table, root: str, one_in: int = 1) -> Table:
    """By role of the consumer's node and operation: how many heard, and how long until the root knew.

    (role, depth, op, events, advisories, nodes_mean, nodes_most, root_p50_s, root_p99_s, clocks_differ,
    one_in). `clocks_differ`: events that the root seems to have known before they happened, or of which its
    clock, or the consumer's, is `off` (`offsets.offsets`); left out of the times. `one_in`: of how many
    events these are one each.
    """
    return query(
        """with judged as (
            select *, root_knew_after_s < 0 or node in (select node from off)
                or $root in (select node from off) as differ from events)
        select role, depth, op, count(*) as events, sum(advisories) as advisories,
            avg(nodes) as nodes_mean, max(nodes) as nodes_most,
            quantile_disc(root_knew_after_s, 0.5) filter (not differ) as root_p50_s,
            quantile_disc(root_knew_after_s, 0.99) filter (not differ) as root_p99_s,
            count(root_knew_after_s) filter (differ) as clocks_differ, $one_in::int as one_in
        from judged left join (select node, role, depth from sites) using (node)
        group by role, depth, op order by depth, role, op""",
        events=consumer_events,
        sites=nodes,
        off=off,
        root=root,
        one_in=one_in,
    )
