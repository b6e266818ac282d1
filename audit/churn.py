"""The comings and goings that a log has, as this network took them and as others would have: what the first
screen of the report compares.

Law: this tree's figures are counted, the others' are their laws of the same comings and goings. A destination
with one reader counts as often as it came; one with several as often as its readers did in the mean.

Law: of others is spilled at least what is more than all nodes above and below a consumer could use, each
being told as often as that network tells: of a going connectors tell everybody twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as arrow
from pyarrow import Table

from audit import population, whatif
from audit.deployment import Tree
from audit.queries import query, rows

TREE_NAME: Final = "Sapwood, this tree"
_BOTH: Final = ("came", "went")
PRODUCTS: Final = {
    whatif.TREE: TREE_NAME,
    whatif.ONE_WAY: "RabbitMQ federation, one way",
    whatif.FILTERED: "ActiveMQ connectors, filtered by hand",
    whatif.CONNECTORS.format(2): "ActiveMQ connectors, TTL 2",
    whatif.CONNECTORS.format(3): "ActiveMQ connectors, TTL 3",
    whatif.LEAF_NODES: "NATS leaf nodes",
    whatif.MESH: "ActiveMQ, full mesh",
}
"""The schemes that the first screen shows, by the name of the product that makes such a network."""
AGAIN: Final = (*(name for name in PRODUCTS if name.startswith("connectors")), whatif.MESH)
"""Schemes in which a second consumer of a destination is told as the first was."""
COLUMNS: Final = arrow.schema(
    [
        ("scheme", arrow.string()),
        ("product", arrow.string()),
        *((name, arrow.int64()) for name in ("advisories", "spilled")),
        ("bytes", arrow.float64()),
        ("root_knows", arrow.bool_()),
        ("counted", arrow.bool_()),
    ]
)


def same_churn(
    tree: Tree,
    consumers: Table,
    per_consumer: Table,
    counted: Mapping[str, Any],
    sizes: population.Sizes | None = None,
) -> Table:
    """(scheme, product, advisories, spilled, bytes, root_knows, counted) of `PRODUCTS`.

    `consumers`: by `volume.consumers`. `counted`: the advisories, the spilled and the bytes of this tree.
    `bytes` of others: each advisory as large as such a one was measured, by `whatif.BYTES`; null where nobody
    has.
    """
    given = tree, consumers, per_consumer, sizes
    come, go = (_costs(*given, column) for column in _BOTH)
    alone_come, alone_go = (_costs(*given, column, alone=True)[whatif.TREE]["added"] for column in _BOTH)
    found = []
    for scheme, product in PRODUCTS.items():
        if scheme not in come:
            continue
        added, closed = come[scheme]["added"], go[scheme]["closed"]
        again, twice = scheme in AGAIN, 2 if scheme.startswith("connectors") else 1
        useful = alone_come if again else come[whatif.TREE]["added"]
        useful_go = twice * (alone_go if again else go[whatif.TREE]["closed"])
        sums = {
            "advisories": added + closed,
            "spilled": max(0, added - useful) + max(0, closed - useful_go),
            "bytes": _sum(come[scheme]["bytes_added"], go[scheme]["bytes_closed"]),
        }
        own = scheme == whatif.TREE
        row = {"scheme": scheme, "product": product, "root_knows": come[scheme]["root_knows"], "counted": own}
        found.append(row | (dict(counted) if own else sums))
    return Table.from_pylist(found, COLUMNS)


def _sum(come: float | None, go: float | None) -> float | None:
    return None if come is None or go is None else come + go


def when_all_come(what_if: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same of a plan, which has no log: when all consumers come. `what_if`: by `population.cost`."""
    costs = {row["scheme"]: row for row in what_if}
    if whatif.TREE not in costs:
        return []
    law = costs[whatif.TREE]["added"]
    return [
        {
            "scheme": scheme,
            "product": product,
            "advisories": costs[scheme]["added"],
            "spilled": max(0, costs[scheme]["added"] - law),
            "bytes": costs[scheme]["bytes_added"],
            "root_knows": costs[scheme]["root_knows"],
            "counted": False,
        }
        for scheme, product in PRODUCTS.items()
        if scheme in costs
    ]


def _costs(
    tree: Tree,
    consumers: Table,
    per_consumer: Table,
    sizes: population.Sizes | None,
    column: str,
    *,
    alone: bool = False,
) -> dict[str, dict[str, Any]]:
    """By scheme, what the laws say if each consumer came as often as `column` has it. `alone`: as if nobody
    else read the same."""
    times = consumers.select(["node", "kind", "destination", column])
    given = times.rename_columns(["node", "kind", "destination", "times"])
    wanted = population.at_places(tree, query(_ALIKE, consumers=given, alone=alone))
    return {row["scheme"]: row for row in rows(population.cost(tree, wanted, per_consumer, sizes))}


_ALIKE: Final = """with each as (
        select node, kind, destination, sum(times) as times from consumers
        group by all having sum(times) > 0),
    readers as (
        select kind, destination, count(*) > 1 as several, greatest(1, round(avg(times))) as mean
        from each group by all)
    select node, kind,
        case when several and not $alone then concat_ws(':', kind, destination) end as sharing,
        sum(case when several then mean else times end)::bigint as weight
    from each join readers using (kind, destination) group by all"""
