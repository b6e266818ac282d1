"""What a consumer costs a tree: counted from the nodes' advisory logs, beside what it would have cost.

The other column is the law that was measured on ActiveMQ Classic 5.17.2 with duplex network connectors
and default settings: a consumer that comes costs one advisory for each broker within networkTTL hops of
its own; one that goes costs twice that, and one for each broker at exactly networkTTL + 1 hops.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from broker.advisory_log import LogRow

MEASURED_ON = "measured on ActiveMQ Classic 5.17.2"
_TTLS = (2, 3)
Neighbours = dict[str, set[str]]


@dataclass(frozen=True, slots=True)
class Cost:
    """One consumer: how many advisories its coming and its going cost here, and would have cost.

    `gone`: it went; a durable subscription stays. `flooded` maps networkTTL to (added, closed).
    """

    node: str
    destination: str
    added: int
    closed: int
    gone: bool
    flooded: dict[int, tuple[int, int]]


def hops_from(start: str, neighbours: Neighbours) -> dict[str, int]:
    """Hops from `start` to every node that can be reached."""
    hops = {start: 0}
    frontier = [start]
    while frontier:
        following = sorted({near for name in frontier for near in neighbours[name]} - hops.keys())
        hops.update(dict.fromkeys(following, hops[frontier[0]] + 1))
        frontier = following
    return hops


def flooded(node: str, neighbours: Neighbours, ttl: int) -> tuple[int, int]:
    """(added, closed) for one consumer at `node` where advisories flood `ttl` hops."""
    distances = Counter(hops_from(node, neighbours).values())
    added = sum(distances[hop] for hop in range(1, ttl + 1))
    return added, 2 * added + distances[ttl + 1]


def consumer_costs(rows: Iterable[LogRow], neighbours: Neighbours) -> list[Cost]:
    """One row for each consumer of a queue or topic that came, in the order of their coming.

    `rows`: of all nodes, in any order.
    """
    ordered = sorted((row for row in rows if row.kind != "domain"), key=lambda row: row.at)
    received = Counter((row.cause, row.op) for row in ordered if row.event == "advisory")
    totals: dict[tuple[str, str], Counter[str]] = {}
    for row in ordered:
        if row.event == "consumer":
            total = totals.setdefault((row.node, f"{row.kind}:{row.destination}"), Counter())
            total[row.op] += received[row.cause, row.op]
            total["gone"] = row.op == "remove"
    return [
        Cost(
            node,
            name,
            total["add"],
            total["remove"],
            bool(total["gone"]),
            {ttl: flooded(node, neighbours, ttl) for ttl in _TTLS},
        )
        for (node, name), total in totals.items()
    ]
