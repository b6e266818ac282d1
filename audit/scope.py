"""What scope `tree` costs a topic: messages over lines behind which nobody reads it.

Law: sent up to the root, a message is in vain on each line that has all readers below it: the lines above the
lowest node that has all of them at or below it. So it was before nodes asked for interest; since they do, it
crosses the others only. The question goes once over each line above a place that publishes. With scope
`vertical` a line is crossed only when an ancestor reads the topic. Down there is no vain line in any.

Patterns are taken as they are written: `a/#` and `a/b` are two.
"""

from pyarrow import Table

from audit.deployment import Tree
from audit.queries import query


def scope_cost(tree: Tree, consumers: Table) -> Table:
    """What one message from each leaf would cost, for each topic that somebody reads.

    `consumers`: (node, kind, destination). Returns (destination, readers, publishers, crossed, vain, share,
    needed, asked), most in vain first: `crossed` counts lines up to the root, `vain` those with no reader
    beyond them, `needed` the others; `asked` the lines that the question for all of them crosses. `share` is
    null where no line is crossed, as in a chain of one place.
    """
    return query(
        """with spots as (
            select distinct destination, number from consumers join nodes using (node) where kind = 'topic'),
        readers as (select destination, count(*) as readers from spots group by destination),
        leaves as (
            select ancestor, count(*) as leaves from ancestors join nodes using (number)
            where below = 0 group by ancestor),
        gathered as (
            select destination, ancestor, count(*) as here from spots join ancestors using (number)
            where ancestor in (select number from places where up is not null)
            group by destination, ancestor),
        vain as (
            select destination, sum(leaves)::bigint as vain from gathered join readers using (destination)
            join leaves using (ancestor) where here = readers group by destination),
        lines as (select count(*) as asked from places where up is not null),
        told as (
            select count(*) as publishers, coalesce(sum(depth), 0)::bigint as crossed
            from nodes where below = 0)
        select destination, readers, publishers, crossed, coalesce(vain, 0) as vain,
            round(coalesce(vain, 0) / nullif(crossed, 0), 3) as share,
            crossed - coalesce(vain, 0) as needed, asked
        from readers left join vain using (destination) cross join told cross join lines
        order by vain desc, destination""",
        consumers=consumers,
        nodes=tree.nodes,
        places=tree.places,
        ancestors=tree.ancestors,
    )
