"""Which advisories reached a node that can never use them.

Law: a consumer's advisory is *needed* at the ancestors of the consumer's node and below it, and *spilled*
anywhere else; the cores of a mesh count as one root. Domain routes come with nodes, not with consumers: they
are judged apart, as `domain`. A healthy tree spills exactly 0.

What cannot be judged is said, never guessed: `unknown` where the origin is missing, or it or the node is not
in the deployment, as a root is that has joined the root's mesh since; `moved` where the log's own links say
that the origin, or the node, stood elsewhere at a time, and the advisory was needed there.
"""

from typing import Final

from pyarrow import Table

from audit.deployment import Tree
from audit.queries import query

NEEDED: Final = "needed"
SPILLED: Final = "spilled"
MOVED: Final = "moved"
UNKNOWN: Final = "unknown"
DOMAIN: Final = "domain"

OWN: Final = "came back to its own node"
SECOND_ROOT: Final = "second root"
RESENT: Final = "re-sent although known"
STALE: Final = "stale cause"
PEER: Final = "peer of a leaf"
SIBLING: Final = "sibling branch"
SAME_REGION: Final = "elsewhere in the region"
OTHER_REGION: Final = "another region"


def pairs(rolled: Table) -> Table:
    """(node, origin, kind, direction, rooted, advisories, bytes): all advisories, summed. `rolled`: by
    `rollup`."""
    return query(
        """select node, origin, kind, direction, rooted, sum("rows") as advisories, sum(bytes) as bytes
        from rolled where event = 'advisory' group by all""",
        rolled=rolled,
    )


def strange_links(rolled: Table, tree: Tree) -> Table:
    """Links that the log saw up and the deployment does not have: (child, parent, times, first, last).

    Of a link in a mesh `child` and `parent` are the two nodes, once for the log of each.
    """
    return query(
        """with seen as (
            select case direction when 'up' then peer else node end as child,
                case direction when 'up' then node else peer end as parent, direction = 'mesh' as beside,
                sum("rows") as times, min(first) as first, max(last) as last
            from rolled where event = 'link' and op = 'up' and direction is not null
            group by 1, 2, 3)
        select child, seen.parent, times, first, last
        from seen left join nodes as own on own.node = child
        left join nodes as above on above.node = seen.parent
        where case when beside then own.place else own.parent end is distinct from above.place
            or above.place is null
        order by child, seen.parent""",
        rolled=rolled,
        nodes=tree.nodes,
    )


def judge(pairs: Table, tree: Tree, strange: Table) -> Table:
    """The pairs with where both stand, their `verdict` and, where spilled, `place_reason`: where the node
    stands to the origin.

    `near`: one is above the other, or both are one place. `once`: so they were by links that the deployment
    does not have (any more). `joined`: of the roots that the deployment does not know, those that dialled the
    root, or were dialled by it, are of its mesh.
    """
    return query(
        """with former as (
            select distinct lower.number, upper.ancestor from strange
            join nodes as child on child.node = strange.child
            join nodes as parent on parent.node = strange.parent
            join ancestors as lower on lower.ancestor = child.number
            join ancestors as upper on upper.number = parent.number),
        placed as (
            select pairs.*, here.place, here.parent, here.region, here.role, there.place as origin_place,
                there.parent as origin_parent, there.region as origin_region, here.number, there.number as
                origin_number
            from pairs left join nodes as here on here.node = pairs.node
            left join nodes as there on there.node = pairs.origin),
        related as (
            select *, (number, origin_number) in (select (number, ancestor) from ancestors)
                or (origin_number, number) in (select (number, ancestor) from ancestors) as near,
                (number, origin_number) in (select (number, ancestor) from former)
                or (origin_number, number) in (select (number, ancestor) from former) as once,
                coalesce(node in (select child from strange where parent in (select unnest($roots))), false)
                    as joined
            from placed),
        decided as (
            select *, case when coalesce(kind not in ('queue', 'topic'), true) then $domain
                when rooted and place is null and not joined then $spilled
                when place is null or origin_place is null then $unknown
                when node = origin then $spilled when near then $needed when once then $moved
                else $spilled end as verdict
            from related)
        select * exclude (number, origin_number, joined), case when verdict = $spilled then
            case when place is null or (rooted and place != $root) then $second_root
                when node = origin then $own
                when parent = origin_parent and role = 'leaf' then $peer
                when parent = origin_parent then $sibling
                when region = origin_region then $same_region else $other_region end end as place_reason
        from decided""",
        pairs=pairs,
        nodes=tree.nodes,
        ancestors=tree.ancestors,
        strange=strange,
        roots=list(tree.roots),
        root=tree.root,
        **_WORDS,
    )


_WORDS: Final = {
    "domain": DOMAIN,
    "spilled": SPILLED,
    "unknown": UNKNOWN,
    "needed": NEEDED,
    "moved": MOVED,
    "second_root": SECOND_ROOT,
    "own": OWN,
    "peer": PEER,
    "sibling": SIBLING,
    "same_region": SAME_REGION,
    "other_region": OTHER_REGION,
}


def summary(judged: Table) -> Table:
    """(verdict, kind, direction, advisories, bytes)."""
    return query(
        """select verdict, kind, direction, sum(advisories) as advisories, sum(bytes) as bytes
        from judged group by verdict, kind, direction order by verdict, kind, direction""",
        judged=judged,
    )


def regions(judged: Table) -> Table:
    """Spilled advisories from region to region: (origin_region, region, advisories, bytes); null is the
    root."""
    return query(
        """select origin_region, region, sum(advisories) as advisories, sum(bytes) as bytes
        from judged where verdict = $spilled group by origin_region, region order by origin_region, region""",
        judged=judged,
        spilled=SPILLED,
    )


def advise_down(judged: Table) -> Table:
    """Needed, but spared where branches advise less: (advise_down, region, advisories, bytes).

    `topics` spares the queues that are told downward, `none` the topics as well.
    """
    return query(
        """with spared as (
            select unnest(case when kind = 'queue' then ['none', 'topics'] else ['none'] end) as advise_down,
                region, advisories, bytes
            from judged where verdict = $needed and direction = 'down')
        select advise_down, region, sum(advisories) as advisories, sum(bytes) as bytes
        from spared group by advise_down, region order by advise_down, region""",
        judged=judged,
        needed=NEEDED,
    )


def spilled_rows(events: Table, judged: Table) -> Table:
    """Every spilled advisory with its `reason`: the columns of the log that place it, one row each.

    `events`: at least the advisories of the nodes that received such, and the consumers of their origins.

    Repetition comes before the place that an advisory reached; so does age where a child told, which then
    holds a route of long ago. To tell a child of what is elsewhere is wrong at any age.
    """
    return query(
        """with told as (
            select e.*, place_reason, lag(e.op) over (
                partition by e.node, e.origin, e.kind, e.destination, e.peer order by e."at") as before
            from events as e join judged as j on e.node = j.node
                and e.origin is not distinct from j.origin and e.kind is not distinct from j.kind
                and e.direction is not distinct from j.direction
                and coalesce(e.role = 'root', false) = j.rooted
            where e.event = 'advisory' and verdict = $spilled),
        gone as (
            select node as origin, kind, destination, max("at") as gone_at from events
            where event = 'consumer' and clock is null group by all having arg_max(op, "at") = 'remove')
        select "at", node, region, role, op, kind, destination, peer, direction, cause, origin, bytes,
            case when place_reason in ($second_root, $own) then place_reason
                when op = 'add' and before in ('add', 'live') then $resent
                when op = 'add' and direction = 'up' and coalesce(cause, '') != 'resync' and "at" > gone_at
                then $stale else place_reason end as reason, file
        from told left join gone using (origin, kind, destination)""",
        events=events,
        judged=judged,
        spilled=SPILLED,
        second_root=SECOND_ROOT,
        own=OWN,
        resent=RESENT,
        stale=STALE,
    )


def reasons(spilled_rows: Table) -> Table:
    """(reason, node, region, role, advisories, bytes, first, last), most first."""
    return query(
        """select reason, node, region, role, count(*) as advisories, sum(bytes) as bytes,
            min("at") as first, max("at") as last
        from spilled group by reason, node, region, role
        order by advisories desc, node, reason, region, role""",
        spilled=spilled_rows,
    )
