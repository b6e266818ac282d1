"""What a population of consumers costs under this tree and under each other scheme: the laws of `whatif`, for
all of them together.

A second consumer of a destination costs this tree and leaf nodes only where it is news, and others the whole
again. Where there are meshes, each node of one that reads, or is told from below, speaks for itself.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy
import pyarrow as arrow
from pyarrow import Table, compute

from audit.deployment import Tree
from audit.errors import UsageError
from audit.queries import query, rows
from audit.whatif import (
    BYTES,
    ISOLATED,
    LEAF_NODES,
    ONE_WAY,
    STATIC,
    TOPICS,
    TREE,
    TREE_BYTES,
    UPWARD,
    BytesTaken,
    loads,
    sights,
)

Rule = tuple[str, str, int, str]
"""Role, sharing, count and kind."""
Sizes = Mapping[tuple[str, str], float]
NOBODY = arrow.schema([(name, arrow.string()) for name in ("node", "kind", "destination")]).empty_table()


def interests(tree: Tree, consumers: Table) -> Table:
    """(node, kind, destination) to (number, kind, sharing, nodes, weight): see `at_places`."""
    alike = query(
        """with distinctly as (select distinct node, kind, destination from consumers),
        readers as (
            select kind, destination, count(*) as readers from distinctly group by kind, destination)
        select node, kind, case when readers > 1 then concat_ws(':', kind, destination) end as sharing,
            count(*) as weight
        from distinctly join readers using (kind, destination) group by all""",
        consumers=consumers,
    )
    return at_places(tree, alike)


def at_places(tree: Tree, alike: Table) -> Table:
    """(node, kind, sharing, weight) to (number, kind, sharing, nodes, weight): what is alike is counted, not
    repeated.

    `number` is a place, and `nodes` of it read. `sharing` is null for destinations that only one node reads;
    `weight` says how many of them. Any other is one destination with all its readers.
    """
    found = query(
        "select number, kind, sharing, weight from alike join nodes using (node)",
        alike=alike,
        nodes=tree.nodes,
    )
    return _together(tree, found)


def _together(tree: Tree, found: Table) -> Table:
    """(number, kind, sharing, weight), a row a node, to a row a place."""
    if tree.meshed:
        return query(
            """select number, kind, sharing, count(*) as nodes,
                case when sharing is null then sum(weight) else max(weight) end::bigint as weight
            from found group by number, kind, sharing""",
            found=found,
        )
    return found.append_column("nodes", arrow.array(numpy.ones(len(found), numpy.int32)))


def interests_by_role(tree: Tree, rules: Sequence[Rule]) -> Table:
    """A population from rules (role, sharing, count, kind): each node of `role` reads so many destinations.

    sharing 'own': destinations that nobody else reads; any other word names a group, whose destinations all
    its readers share. Returns the form of `at_places`. Raises `UsageError` that names a role that nobody has:
    it would cost nothing, and look like a plan.
    """
    found = query("select distinct role from nodes order by role", nodes=tree.nodes)
    roles = found.column(0).to_pylist()
    for role, sharing, count, _ in rules:
        if role not in roles:
            raise UsageError(
                f"--consumers {role}:{sharing}:{count}: no site has the role {role!r}: expected one of"
                f" {', '.join(roles)}"
            )
    table = Table.from_pylist(
        [dict(zip(("role", "word", "count", "kind"), rule, strict=True)) for rule in rules]
    )
    summed = query(
        """select role, kind, case when word != 'own' then concat_ws(':', kind, word) end as sharing,
            sum(count)::bigint as weight
        from rules group by all order by all""",
        rules=table,
    )
    return _together(tree, arrow.concat_tables(_alike(tree, row) for row in rows(summed)))


def _alike(tree: Tree, rule: Mapping[str, Any]) -> Table:
    """(number, kind, sharing, weight) of all nodes of a role; what all have alike is kept once."""
    numbers = tree.nodes["number"].filter(compute.equal(tree.nodes["role"], rule["role"]))
    ends = arrow.array([len(numbers)], arrow.int32())
    types = {"kind": arrow.string(), "sharing": arrow.string(), "weight": arrow.int64()}
    alike = {
        name: arrow.RunEndEncodedArray.from_arrays(ends, arrow.array([rule[name]], form))
        for name, form in types.items()
    }
    return arrow.table({"number": numbers, **alike})


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


def cost(tree: Tree, wanted: Table, per_consumer: Table, sizes: Sizes | None = None) -> Table:
    """What all consumers together cost under each scheme, when they come and when they have all gone.

    `wanted` has the form of `at_places`.

    (scheme, added, closed, held, again, bytes_added, bytes_topics, bytes_again, bytes_closed, crossed,
    root_knows): `held` = subscriptions on other nodes than the consumer's own while all are there. `again`:
    of `added`, those of consumers of a destination that another node reads already; which of them came first
    is not known, so that the mean is taken. `crossed`: lines that data crosses if the root sends one message
    to each destination; null where the root does not know all of them. `root_knows`: whether interest travels
    from the lowest consumer to the root; a network where it does not costs little, and delivers nothing from
    there. Null for static bridges, which know nothing and send everything everywhere. `sizes`: mean size of
    this tree's advisories by kind and operation. Of `bytes_added`, `bytes_topics` are those of topics, and
    `bytes_again` those of `again`. Bytes are null where nobody has measured what an advisory takes.
    """
    by_kind = _by_kind(tree, wanted)
    lowest = max((numbers.lowest for numbers in by_kind.values()), default=0)
    destinations = sum(numbers.destinations for numbers in by_kind.values())
    lines = sum(numbers.lines for numbers in by_kind.values())
    shared = {kind: _shared(tree, kind, numbers) for kind, numbers in by_kind.items()}
    found = []
    for scheme, told in sorted(_told(wanted, per_consumer, shared, sights(tree)).items()):
        knows = _root_knows(scheme, lowest)
        crossed = destinations * (len(tree.places) - 1) if scheme == STATIC else lines
        data = crossed if knows or scheme == STATIC else None
        added, closed, again = (sum(counts) for counts in zip(_NONE, *told.values(), strict=True))
        found.append((scheme, added, closed, added, again, *_sent(scheme, told, sizes or {}), data, knows))
    return Table.from_arrays(
        [arrow.array(cells, f.type) for cells, f in zip(zip(*found, strict=True), _COSTS, strict=True)],
        schema=_COSTS,
    )


_COSTS = arrow.schema(
    [
        ("scheme", arrow.string()),
        *((name, arrow.int64()) for name in ("added", "closed", "held", "again")),
        *((f"bytes_{name}", arrow.float64()) for name in ("added", "topics", "again", "closed")),
        ("crossed", arrow.int64()),
        ("root_knows", arrow.bool_()),
    ]
)


class _Told(NamedTuple):
    """Advisories of one kind: when all come, when all go, and of the first those that are `again`."""

    added: int
    closed: int
    again: int


_NONE = _Told(0, 0, 0)


def _root_knows(scheme: str, lowest: int) -> bool | None:
    if scheme == STATIC:
        return None
    if scheme == ISOLATED:
        return lowest <= 1
    limit = re.search(r"(?:TTL|max-hops) (\d+)$", scheme)
    return limit is None or int(limit[1]) >= lowest


def _told(
    wanted: Table, per_consumer: Table, shared: Mapping[str, Mapping[str, int]], seen: Table
) -> dict[str, dict[str, _Told]]:
    """By scheme and kind. `shared`: by `_shared`, of each kind. `seen`: by `whatif.sights`.

    Where a scheme is not in `shared`, each node that reads costs the whole, whoever else reads the same.
    """
    sums = query(_SUMS, wanted=wanted, sights=seen, per_consumer=per_consumer)
    whole = {(row["scheme"], row["kind"]): row for row in rows(sums)}
    told: dict[str, dict[str, _Told]] = {scheme: {} for scheme, _ in whole}
    for (scheme, kind), row in whole.items():
        if kind is None:
            continue
        alone = (TREE if kind == "topic" else UPWARD) if scheme == TOPICS else scheme
        first, together = whole[alone, kind]["first"], shared[kind].get(scheme)
        added, closed = (row["added"], row["closed"]) if together is None else (together, together)
        told[scheme][kind] = _Told(added, closed, round(added - first))
    return told


_SUMS = """with readers as (
        select kind, sharing, count(*) as readers from wanted where sharing is not null group by all),
    weights as (
        select seen, wanted.kind, sum(weight) as weight, sum(weight / coalesce(readers, 1)) as first
        from wanted join sights using (number)
        left join readers on wanted.sharing = readers.sharing and wanted.kind = readers.kind
        group by seen, wanted.kind),
    kinds as (select distinct kind from weights)
    select scheme, kinds.kind, coalesce(sum(added * weight), 0)::bigint as added,
        coalesce(sum(closed * weight), 0)::bigint as closed,
        coalesce(sum(added * first), 0)::double as first
    from per_consumer left join kinds on true
    left join weights on per_consumer.seen = weights.seen and weights.kind = kinds.kind
    group by scheme, kinds.kind"""
"""(scheme, kind, added, closed, first): `first` is what those cost that come when nobody else reads the same;
each reader of a destination is it as likely as any other. No kind where nobody reads."""


def _by_kind(tree: Tree, wanted: Table) -> "dict[str, _Numbers]":
    """A destination has one kind, so that costs are sums over these."""
    kinds = query("select distinct kind from wanted order by kind", wanted=wanted).column(0).to_pylist()
    if len(kinds) == 1:
        return {kinds[0]: _numbers(tree, wanted)}
    of_kind = "select * exclude (kind) from wanted where kind = $kind"
    return {kind: _numbers(tree, query(of_kind, wanted=wanted, kind=kind)) for kind in kinds}


def _sent(scheme: str, told: Mapping[str, _Told], sizes: Sizes) -> tuple[float | None, ...]:
    """Bytes when all come; of these those of topics, and of further consumers; and when all go."""
    if scheme.startswith(TREE):
        sized = {(kind, op): sizes.get((kind, op), TREE_BYTES) for kind in told for op in ("add", "remove")}
        pairs = {kind: (sized[kind, "add"], sized[kind, "remove"]) for kind in told}
        taken = {kind: BytesTaken(come, come, come, go) for kind, (come, go) in pairs.items()}
    else:
        measured = next((value for name, value in BYTES.items() if scheme.startswith(name)), None)
        if measured is None:
            return None, None, None, None
        taken = dict.fromkeys(told, measured)
    all_come = topics = again = gone = 0.0
    for kind, counts in told.items():
        one = taken[kind]
        first, further = (one.topic, one.topic) if kind == "topic" else (one.queue, one.again)
        sent = (counts.added - counts.again) * first + counts.again * further
        all_come, gone, again = (
            all_come + sent,
            gone + counts.closed * one.gone,
            again + counts.again * further,
        )
        topics += sent if kind == "topic" else 0
    return all_come, topics, again, gone


def _shared(tree: Tree, kind: str, numbers: _Numbers) -> dict[str, int]:
    """Advisories of one kind, when all come or when all go, of those schemes in which a second reader of a
    destination costs less than the first.

    This tree: up, once for each place with a reader at or below it; down, all below the topmost readers. Leaf
    nodes: once for each line and direction behind which somebody reads, on the other side than the one told.
    """
    down = numbers.told + numbers.told_up + numbers.told_beside + numbers.told_down
    up = numbers.upward + numbers.told_up + numbers.told_beside
    return {
        ONE_WAY: numbers.depth + numbers.ups,
        TREE: down,
        TOPICS: down if kind == "topic" else up,
        UPWARD: up,
        LEAF_NODES: (len(tree.places) - 1) * numbers.destinations + numbers.ups - numbers.behind,
    }


def _numbers(tree: Tree, wanted: Table) -> _Numbers:
    given: dict[str, Any] = {
        "wanted": wanted,
        "shared": query(
            """with words as (
                select sharing, (row_number() over ())::int as word
                from (select distinct sharing from wanted where sharing is not null))
            select number, word as sharing, nodes, weight from wanted join words using (sharing)""",
            wanted=wanted,
        ),
        "spots": loads(tree),
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
    above as (
        select ancestor as number, sharing, max(weight) as weight, count(*) as here,
            bool_or(hops > 0) as from_below, coalesce(sum(nodes) filter (hops = 0), 0) as speakers
        from ancestors join shared using (number)
        where ancestor in (select number from spots where below > 0) group by ancestor, sharing),
    crossed as (
        select sharing, weight, here, from_below, speakers, up, listeners, size
        from above join (from spots where below > 0) using (number)
        union all
        select sharing, weight, 1, false, nodes, up, listeners, size
        from shared join spots using (number) where below = 0)
    select (select coalesce(sum(weight), 0)::bigint from groups) as shared,
        coalesce(sum(crossed.weight) filter (up is not null), 0)::bigint as ups,
        coalesce(sum(crossed.weight) filter (up is not null and here = readers), 0)::bigint as behind,
        coalesce(sum(crossed.weight * listeners
            * case when from_below then size else speakers end), 0)::bigint as told_up
    from crossed join groups using (sharing)""",
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
tell that have no reader of the same above them. Places with nothing below are most of a large tree: they
speak for themselves, and are in no group."""
