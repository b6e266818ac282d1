"""What consumers cost: the measured law against its own measurements, and counting in rows of logs."""

from typing import Any

import pytest

from broker.advisory_log import LogRow
from broker.cli.demo import costs


def tree(branches: int, leaves: int) -> costs.Neighbours:
    """Root, `branches` under it and `leaves` under each branch, as in the measurements."""
    linked: costs.Neighbours = {"root": set()}
    for branch in (f"b{i}" for i in range(branches)):
        linked["root"].add(branch)
        linked[branch] = {"root"} | {f"{branch}-{j}" for j in range(leaves)}
        linked.update({f"{branch}-{j}": {branch} for j in range(leaves)})
    return linked


@pytest.mark.parametrize(
    ("leaves", "branches", "ttl", "added", "closed"),
    [(1000, 1, 2, 1001, 2002), (10, 4, 2, 11, 25), (10, 4, 3, 14, 58), (10, 4, 4, 44, 88)],
)
def test_the_law_gives_what_was_measured(
    leaves: int, branches: int, ttl: int, added: int, closed: int
) -> None:
    assert costs.flooded("b0-0", tree(branches, leaves), ttl) == (added, closed)


def test_hops_reach_every_node_once() -> None:
    hops = costs.hops_from("b0-0", tree(2, 2))
    assert hops == {"b0-0": 0, "b0": 1, "root": 2, "b0-1": 2, "b1": 3, "b1-0": 4, "b1-1": 4}


def row(**fields: Any) -> LogRow:
    common = {
        "at": "2026-01-01T00:00:00Z",
        "tree": "t",
        "role": "leaf",
        "kind": "queue",
        "destination": "tills",
    }
    return LogRow(**(common | {"op": "add", "node": "root"} | fields))


def test_a_consumer_costs_the_advisories_that_its_coming_and_going_caused() -> None:
    rows = [
        row(event="consumer", node="b0-0", cause="1"),
        row(event="advisory", node="b0", cause="1"),
        row(event="advisory", node="root", cause="1"),
        row(event="advisory", node="root", cause="other"),
        row(event="advisory", node="b1", cause="1", kind="domain"),
        row(event="consumer", node="b0-0", cause="2", op="remove"),
        row(event="advisory", node="b0", cause="2", op="remove"),
        row(event="link", node="b0", op="up", kind=None, destination=None),
    ]
    (found,) = costs.consumer_costs(rows, tree(2, 2))
    assert (found.node, found.destination, found.added, found.closed) == ("b0-0", "queue:tills", 2, 1)
    assert found.gone
    assert found.flooded == {2: (3, 7), 3: (4, 10)}


def test_consumers_stand_in_the_order_of_their_coming() -> None:
    rows = [
        row(event="consumer", node="b0-1", cause="2", at="2026-01-01T00:00:02Z"),
        row(event="consumer", node="b0-0", cause="1", at="2026-01-01T00:00:01Z"),
    ]
    assert [cost.node for cost in costs.consumer_costs(rows, tree(1, 2)) if not cost.gone] == ["b0-0", "b0-1"]
