"""What costs and brings nothing: flapping consumers and links, storms, resyncs, unused routes, cut-off
subtrees."""

from typing import Final

from pyarrow import Table

from audit.queries import query

FLAPS: Final = 3
"""Comings of one consumer, or downs of one link, within an hour, from which it flaps."""
STORM_FACTOR: Final = 10.0
STORM_LEAST: Final = 100
"""A storm: an hour with so many times a node's own median, and at least so many advisories."""
AGAIN: Final = 3
"""Adds of one consumer on one link that said nothing new, from which they are told."""
ENDING_S: Final = 600
"""Seconds after the loss of its parent within which a node that stops was not cut off."""


def flapping_consumers(hours: Table) -> Table:
    """(node, kind, destination, came, went, worst_hour, most_in_an_hour): consumers that come and go.

    `hours`: by `told.HOURS`.
    """
    return query(
        """select node, kind, destination, sum(came) as came, sum(went) as went,
            arg_max(hour, least(came, went)) as worst_hour, max(least(came, went)) as most_in_an_hour
        from hours group by node, kind, destination having max(least(hours.came, hours.went)) >= $flaps
        order by most_in_an_hour desc, node, kind, destination""",
        hours=hours,
        flaps=FLAPS,
    )


def storms(cube: Table, factor: float = STORM_FACTOR, least: int = STORM_LEAST) -> Table:
    """(node, hour, advisories, baseline, times): hours far above the node's own median of hours with any."""
    return query(
        """with hourly as (
            select node, hour, sum(advisories)::bigint as advisories from cube
            where hour is not null group by node, hour),
        usual as (select node, median(advisories) as baseline from hourly group by node)
        select node, hour, advisories, baseline, round(advisories / baseline, 1) as times
        from hourly join usual using (node) where advisories >= $least and advisories >= $factor * baseline
        order by advisories desc, node, hour""",
        cube=cube,
        least=least,
        factor=factor,
    )


def links(rolled: Table, flaps: int = FLAPS) -> Table:
    """Links by how they held: (node, peer, direction, ups, downs, blocked, most_downs_in_an_hour, flaps)."""
    return query(
        """with hourly as (
            select node, peer, direction, hour, coalesce(sum("rows") filter (op = 'up'), 0) as ups,
                coalesce(sum("rows") filter (op = 'down'), 0)::bigint as downs,
                coalesce(sum("rows") filter (op = 'blocked'), 0) as blocked
            from rolled where event = 'link' group by node, peer, direction, hour)
        select node, peer, direction, sum(ups) as ups, sum(downs) as downs, sum(blocked) as blocked,
            max(hourly.downs) as most_downs_in_an_hour, max(hourly.downs) >= $flaps as flaps
        from hourly group by node, peer, direction order by downs desc, node, peer, direction""",
        rolled=rolled,
        flaps=flaps,
    )


def resyncs(cube: Table) -> Table:
    """What restoring cost where: (node, peer, direction, advisories, bytes, consumer_advisories), most
    first."""
    return query(
        """select node, peer, direction, sum(advisories) as advisories, sum(bytes) as bytes,
            sum(case when kind in ('queue', 'topic') then advisories else 0 end) as consumer_advisories
        from cube where restored group by node, peer, direction order by bytes desc, node, peer, direction""",
        cube=cube,
    )


def cut_off(changes: Table, rolled: Table, nodes: Table) -> Table:
    """Nodes that had lost their parent, with how many are below. `changes`: the rows of the log that tell of
    links, and of starts and stops of nodes.

    (node, parent, below, downs, seconds, longest_s, since): `since` is when the link went, where it was still
    down, and the node not stopped, when the logs end; these seconds count up to that end. Where the parent is
    a mesh, a node is cut off while it has lost its links to all of it.

    Law: a node that has stopped in good order is not cut off. If it stops within `ENDING_S` after it has lost
    its parent, both went, or it went itself: that does not count at all. If later, it was cut off until then.
    """
    spans = query(_SPANS, changes=changes, nodes=nodes)
    return query(
        """with stops as (
            select node as peer, max("at") as stopped from changes where event = 'node' and clock is null
            group by node having arg_max(op, "at") = 'stop'),
        ends as (select max(last) as "end" from rolled where clock is null),
        lasting as (
            select parent, peer, "at", next, "end", case when next is null
                and stopped > coalesce(last_up, make_timestamptz(epoch_us("at") - $ending)) then stopped
                end as stopped
            from spans cross join ends left join stops using (peer)),
        counted as (
            select *, epoch_us(coalesce(next, stopped, "end")) - epoch_us("at") as us,
                coalesce(next, stopped) is null as still
            from lasting)
        select peer as node, counted.parent, any_value(below) as below, count(*) as downs,
            sum(us) / 1e6 as seconds, max(us) / 1e6 as longest_s, max("at") filter (still) as since
        from counted left join nodes on peer = nodes.node where stopped is null or us > $ending
        group by peer, counted.parent order by seconds desc, peer, counted.parent""",
        changes=changes,
        rolled=rolled,
        nodes=nodes,
        spans=spans,
        ending=ENDING_S * 1_000_000,
    )


_SPANS: Final = """with lines as (
        select node, peer, op, direction, "at" from changes
        where event = 'link' and clock is null and op in ('up', 'down')),
    above as (select node, peer, op, "at" from lines where direction = 'up'),
    lost as (
        select peer as node, node as peer, max("at") as "at" from lines where direction = 'down'
        group by peer, node having arg_max(op, "at") = 'down'),
    up as (
        select node, peer, max("at") as up_at from above group by node, peer having arg_max(op, "at") = 'up'),
    seen as (
        from above union all
        select node, peer, 'down' as op, "at" from lost join up using (node, peer) where "at" > up_at),
    placed as (
        select seen.*, coalesce(place, seen.node) as parent, lag(op) over (
            partition by coalesce(place, seen.node), peer, seen.node order by "at") as before
        from seen left join nodes using (node)),
    changed as (
        select *, (before is null and op = 'down')::int as was_first,
            (op = 'up')::int - coalesce(before = 'up', op = 'down')::int as step,
            case when op = 'up' then "at" end as came
        from placed),
    steps as (
        select *, sum(was_first) over child + sum(step) over until_now as held,
            least(lead("at") over in_order, min(came) over later) as next, max(came) over child as last_up
        from changed window child as (partition by parent, peer),
            in_order as (partition by parent, peer order by "at", node),
            until_now as (partition by parent, peer order by "at", node rows unbounded preceding),
            later as (
                partition by peer order by "at", node rows between 1 following and unbounded following))
    select parent, peer, "at", next, last_up from steps where op = 'down' and held <= 0"""
"""(parent, peer, at, next, last_up): from when a child had no link with its parent until when, or until it
had one with another; null = to the end. `last_up`: when it last got one.

`seen` is links with children, as `node` wrote them down. Wrinkle: a node that was killed wrote no `down`. So
where the child lost a link after that had come up here for the last time, its row counts (`lost`). After each
change the child has `held` links with nodes of `parent`; one that is first seen to go down was up
before."""


def told_again(told: Table, rolled: Table) -> Table:
    """(node) that were told of some consumer more often than that it had gone. `told`: by `told.TOLD`."""
    return query(
        """select distinct node from rolled
        where at_node in (select at_node from told where added - closed > $again)""",
        told=told,
        rolled=rolled,
        again=AGAIN,
    )


def repeated_adds(again: Table, rolled: Table) -> Table:
    """Adds that said nothing new: (node, peer, kind, destination, origin, adds, removes, again, first, last).

    `again`: by `told.again`. Law: between two adds of a consumer on a link stands its remove, or the link
    came up anew, since what has gone meanwhile is not told then. `again` is how many adds are neither.
    """
    return query(
        """with ups as (
            select node, peer, sum("rows") as ups from rolled where event = 'link' and op = 'up'
            group by node, peer)
        select node, peer, kind, destination, origin, added as adds, closed as removes,
            (added - closed - 1 - coalesce(ups, 0))::bigint as again, first, last
        from told left join ups using (node, peer) where again >= $least
        order by again desc, node, peer, kind, destination, origin""",
        told=again,
        rolled=rolled,
        least=AGAIN,
    )


def unused_routes(routes: Table, usage: Table) -> Table:
    """Routes held that no message used, by node: (node, held, unused, share, examples).

    `routes`: by `told.held_routes`. `usage`: (node, kind, destination, messages, since, whole), what each
    node saw in the window that begins with its first `since`; a destination that it does not list saw none.
    Only nodes that `usage` knows are judged, on the routes that did not go before that; of one whose list is
    not `whole`, nobody knows.
    """
    return query(
        """with seen as (
            select node, kind, destination, sum(messages) as messages from usage group by all),
        counted as (
            select node, min(since) as since, bool_and(whole) as whole from usage group by node),
        judged as (
            select distinct node, kind, destination, coalesce(whole, true) as whole
            from routes join counted using (node) where gone is null or since is null or gone >= since),
        used as (
            select node, whole, concat_ws(':', kind, destination) as name,
                whole and coalesce(messages, 0) = 0 as idle
            from judged left join seen using (node, kind, destination))
        select node, count(*) as held, case when any_value(whole) then count(*) filter (idle) end as unused,
            round(unused / held, 3) as share, coalesce(array_to_string(list_slice(
                list_sort(list(distinct name) filter (idle)), 1, 3), ' '), '') as examples
        from used group by node order by unused desc, node""",
        routes=routes,
        usage=usage,
    )


def strangers(rolled: Table, nodes: Table) -> Table:
    """Nodes that wrote a log and are not in the deployment: (node, rows)."""
    return query(
        """select node, sum("rows") as "rows" from rolled anti join nodes using (node)
        group by node order by node""",
        rolled=rolled,
        nodes=nodes,
    )


def silent(rolled: Table, nodes: Table) -> Table:
    """Nodes of the deployment of which no log was read: (node, region, role, heard). `heard`: when a
    neighbour last heard of it; null = never, as of a store that is off."""
    return query(
        """with heard as (
            select peer as node, max(last) as heard from rolled
            where event = 'advisory' or (event = 'link' and op = 'up') group by peer)
        select node, region, role, heard from nodes anti join rolled using (node)
        left join heard using (node) order by heard is null, node""",
        rolled=rolled,
        nodes=nodes,
    )
