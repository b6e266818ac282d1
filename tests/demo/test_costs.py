"""What consumers cost: the measured law against its own measurements, and counting in logs."""

import gzip
import json
from pathlib import Path

import pytest

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


def event(**fields: object) -> dict[str, object]:
    return {"kind": "queue", "destination": "tills", "op": "add", "at": "2026-01-01T00:00:00Z"} | fields


def test_a_consumer_costs_the_advisories_that_its_coming_and_going_caused() -> None:
    events = [
        event(event="consumer", node="b0-0", cause="1"),
        event(event="advisory", node="b0", cause="1"),
        event(event="advisory", node="root", cause="1"),
        event(event="advisory", node="root", cause="other"),
        event(event="advisory", node="b1", cause="1", kind="domain"),
        event(event="consumer", node="b0-0", cause="2", op="remove"),
        event(event="advisory", node="b0", cause="2", op="remove"),
    ]
    (found,) = costs.consumer_costs(events, tree(2, 2))
    assert (found.node, found.destination, found.added, found.closed) == ("b0-0", "queue:tills", 2, 1)
    assert found.flooded == {2: (3, 7), 3: (4, 10)}


def test_a_log_is_read_in_all_its_files_but_for_a_torn_last_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"n": 1}\n{"n": 2}\n'))
    (tmp_path / "b.jsonl").write_text(json.dumps({"n": 3}) + '\n{"n": 4, "torn')
    assert sorted(row["n"] for row in costs.read_log(tmp_path)) == [1, 2, 3]
