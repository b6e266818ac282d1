"""What a population of consumers costs under this tree and under each other scheme: the laws of `whatif`, for
all of them together.

A second consumer of a destination costs this tree and leaf nodes only where it is news, and others the whole
again. Where there are meshes, each node of one that reads, or is told from below, speaks for itself.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as arrow
from pyarrow import Table

from audit.deployment import Tree
from audit.errors import UsageError
from audit.queries import query, rows
from audit.whatif import BYTES, ISOLATED, LEAF_NODES, ONE_WAY, STATIC, TREE, UPWARD, loads, sights

Rule = tuple[str, str, int]
NOBODY = Table.from_pylist(
    [], arrow.schema([(name, arrow.string()) for name in ("node", "kind", "destination")])
)


def interests(consumers: Table) -> Table:
    """(node, kind, destination) to (node, sharing, weight): what is alike is counted, not repeated.

    `sharing` is null for destinations that only one node reads; `weight` says how many of them. Any other is
    one destination with all its readers.
    """
    return query(
        """with readers as (
            select kind, destination, count(distinct node) as readers from consumers group by all)
        select node, case when readers > 1 then concat_ws(':', kind, destination) end as sharing,
            count(*) as weight
        from (select distinct node, kind, destination from consumers)
        join readers using (kind, destination) group by all""",
        consumers=consumers,
    )


def interests_by_role(tree: Tree, rules: Sequence[Rule]) -> Table:
    """A population from rules (role, sharing, count): each node of `role` reads so many destinations.

    sharing 'own': destinations that nobody else reads; any other word names a group, whose destinations all
    its readers share. Returns the form of `interests`. Raises `UsageError` that names a role that nobody has:
    it would cost nothing, and look like a plan.
    """
    found = query("select distinct role from nodes order by role", nodes=tree.nodes)
    roles = found.column(0).to_pylist()
    for role, sharing, count in rules:
        if role not in roles:
            raise UsageError(
                f"--consumers {role}:{sharing}:{count}: no site has the role {role!r}: expected one of"
                f" {', '.join(roles)}"
            )
    table = Table.from_pylist([dict(zip(("role", "word", "count"), rule, strict=True)) for rule in rules])
    return query(
        """select node, nullif(word, 'own') as sharing, sum(count)::bigint as weight
        from nodes join rules using (role) group by all""",
        nodes=tree.nodes,
        rules=table,
    )


class _Numbers(NamedTuple):
    """The numbers of a population.

    Of destinations that one place alone reads: `alone` of them; what all above know (`depth`), what this tree
    is told (`told`), and what of that is not told below (`upward`). Of what several may read: `shared`
    destinations; `ups` lines that have a reader below, once a destination; `behind` of these, those with all
    readers below; `told_up`, `told_beside`, `told_down` what this tree is told. `lowest`: the depth of the
    lowest reader."""

    alone: int
    depth: int
    told: int
    upward: int
    told_beside: int
    lowest: int
    shared: int
    ups: int
    behind: int
    told_up: int
    told_down: int

    @property
    def destinations(self) -> int:
        return self.alone + self.shared

    @property
    def lines(self) -> int:
        """Lines that one message to each destination crosses from the root to all readers."""
        return self.depth + self.ups


def cost(tree: Tree, interests: Table, per_consumer: Table, tree_bytes: float = BYTES[TREE]) -> Table:
    """What all consumers together cost under each scheme, when they come and when they have all gone.

    (scheme, added, closed, held, bytes_added, bytes_closed, crossed, root_knows): `held` = subscriptions on
    other nodes than the consumer's own while all are there. `crossed`: lines that data crosses if the root
    sends one message to each destination; null where the root does not know all of them. `root_knows`:
    whether interest travels from the lowest consumer to the root; a network where it does not costs little,
    and delivers nothing from there. Null for static bridges, which know nothing and send everything
    everywhere. `tree_bytes`: mean size of this tree's advisories.
    """
    wanted = query(
        """select number, sharing, count(*) as nodes,
            case when sharing is null then sum(weight) else max(weight) end::bigint as weight
        from interests join nodes using (node) group by number, sharing""",
        interests=interests,
        nodes=tree.nodes,
    )
    numbers = _numbers(tree, wanted)
    costs = _each_again(tree, wanted, per_consumer) | _shared(tree, numbers)
    sizes = BYTES | {TREE: tree_bytes}
    found = []
    for scheme, (added, closed) in sorted(costs.items()):
        size = next((value for name, value in sizes.items() if scheme.startswith(name)), None)
        knows = _root_knows(scheme, numbers.lowest)
        crossed = numbers.destinations * (len(tree.places) - 1) if scheme == STATIC else numbers.lines
        sent = (None, None) if size is None else (added * size, closed * size)
        data = crossed if knows or scheme == STATIC else None
        found.append((scheme, added, closed, added, *sent, data, knows))
    return Table.from_arrays(
        [arrow.array(cells, f.type) for cells, f in zip(zip(*found, strict=True), _COSTS, strict=True)],
        schema=_COSTS,
    )


_COSTS = arrow.schema(
    [
        ("scheme", arrow.string()),
        *((name, arrow.int64()) for name in ("added", "closed", "held")),
        *((name, arrow.float64()) for name in ("bytes_added", "bytes_closed")),
        ("crossed", arrow.int64()),
        ("root_knows", arrow.bool_()),
    ]
)


def _root_knows(scheme: str, lowest: int) -> bool | None:
    if scheme == STATIC:
        return None
    if scheme == ISOLATED:
        return lowest <= 1
    limit = re.search(r"(?:TTL|max-hops) (\d+)$", scheme)
    return limit is None or int(limit[1]) >= lowest


def _each_again(tree: Tree, wanted: Table, per_consumer: Table) -> dict[str, tuple[int, int]]:
    """(added, closed) by scheme, if every node that reads costs the whole, whoever else reads the same."""
    found = query(
        """with weights as (
            select seen, sum(weight) as weight from wanted join sights using (number) group by seen)
        select scheme, coalesce(sum(added * weight), 0)::bigint as added,
            coalesce(sum(closed * weight), 0)::bigint as closed
        from per_consumer left join weights using (seen) group by scheme""",
        wanted=wanted,
        sights=sights(tree),
        per_consumer=per_consumer,
    )
    return {row["scheme"]: (row["added"], row["closed"]) for row in rows(found)}


def _shared(tree: Tree, numbers: _Numbers) -> dict[str, tuple[int, int]]:
    """The same of those schemes in which a second reader of a destination costs less than the first.

    This tree: up, once for each place with a reader at or below it; down, all below the topmost readers. Leaf
    nodes: once for each line and direction behind which somebody reads, on the other side than the one told.
    """
    costs = {
        ONE_WAY: numbers.depth + numbers.ups,
        TREE: numbers.told + numbers.told_up + numbers.told_beside + numbers.told_down,
        UPWARD: numbers.upward + numbers.told_up + numbers.told_beside,
        LEAF_NODES: (len(tree.places) - 1) * numbers.destinations + numbers.ups - numbers.behind,
    }
    return {scheme: (cost, cost) for scheme, cost in costs.items()}


def _numbers(tree: Tree, wanted: Table) -> _Numbers:
    given: dict[str, Any] = {
        "wanted": wanted,
        "shared": query("select * from wanted where sharing is not null", wanted=wanted),
        "spots": query(
            "select * from places join loads using (number)", places=tree.places, loads=loads(tree)
        ),
        "ancestors": tree.ancestors,
    }
    return _Numbers(
        **{name: count for text in _PARTS for name, count in rows(query(text, **given))[0].items()}
    )


_PARTS = (
    """select coalesce(sum(weight) filter (sharing is null), 0)::bigint as alone,
        coalesce(sum(weight * depth) filter (sharing is null), 0)::bigint as depth,
        coalesce(sum(weight * (above + beside + down + onward)) filter (sharing is null), 0)::bigint as told,
        coalesce(sum(weight * (above + beside)) filter (sharing is null), 0)::bigint as upward,
        coalesce(sum(weight * nodes * beside) filter (sharing is not null), 0)::bigint as told_beside,
        coalesce(max(depth), 0) as lowest
    from wanted join spots using (number)""",
    """with groups as (
        select sharing, max(weight) as weight, count(*) as readers from shared group by sharing),
    crossed as (
        select ancestor as number, sharing, max(weight) as weight, count(*) as here,
            bool_or(hops > 0) as from_below, coalesce(sum(nodes) filter (hops = 0), 0) as speakers
        from shared join ancestors using (number) group by ancestor, sharing)
    select (select coalesce(sum(weight), 0)::bigint from groups) as shared,
        coalesce(sum(crossed.weight) filter (up is not null), 0)::bigint as ups,
        coalesce(sum(crossed.weight) filter (up is not null and here = readers), 0)::bigint as behind,
        coalesce(sum(crossed.weight * listeners
            * case when from_below then size else speakers end), 0)::bigint as told_up
    from crossed join groups using (sharing) join spots using (number)""",
    """with tellers as (
        select number, sharing, weight, nodes, down, onward from shared join spots using (number)
        where below > 0),
    known as (
        select t.number, t.sharing from tellers as t join ancestors as a using (number)
        join tellers as other on other.number = a.ancestor and other.sharing = t.sharing where hops > 0)
    select coalesce(sum(weight * (nodes * down + onward)), 0)::bigint as told_down
    from tellers anti join known using (number, sharing)""",
)
"""In a mesh the nodes that read tell the parents, or all of them, where there are readers below. Below, those
tell that have no reader of the same above them."""
