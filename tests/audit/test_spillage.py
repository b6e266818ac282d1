"""A log into which sideways advisories were put at known places: every one is found, and nothing else."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from audit_tables import events, rows, sites, summed, tree_of
from pyarrow import Table

from audit import spillage
from audit.deployment import Tree

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 3, 14, 8, 0, tzinfo=UTC)
REGIONS = {
    "york": "north",
    "durham": "north",
    "lancaster": "north",
    "north": "north",
    "bath": "south",
    "exeter": "south",
    "winchester": "south",
    "south": "south",
}
Rows = list[dict[str, Any]]


def advisory(
    seconds: float, node: str, origin: str | None, peer: str, direction: str, **more: Any
) -> dict[str, Any]:
    role = more.pop("role", "root" if node == "hq" else "branch" if node in ("north", "south") else "leaf")
    given = {
        "event": "advisory",
        "at": START + timedelta(seconds=seconds),
        "node": node,
        "role": role,
        "region": REGIONS.get(node),
        "op": "add",
        "kind": "queue",
        "destination": "prices",
        "peer": peer,
        "direction": direction,
        "cause": f"{origin}:1",
        "origin": origin,
        "bytes": 30,
    }
    return given | more


def consumer(seconds: float, node: str, op: str, destination: str = "prices") -> dict[str, Any]:
    return {
        "event": "consumer",
        "at": START + timedelta(seconds=seconds),
        "node": node,
        "op": op,
        "kind": "queue",
        "destination": destination,
        "cause": f"{node}:{op}",
        "origin": node,
    }


HEALTHY: Rows = [
    consumer(0, "york", "add"),
    advisory(1, "north", "york", "york", "up"),
    advisory(2, "hq", "york", "north", "up"),
    consumer(3, "north", "add", "region"),
    advisory(4, "hq", "north", "north", "up", destination="region"),
    *(
        advisory(5, leaf, "north", "north", "down", destination="region", kind="topic")
        for leaf in ("york", "durham")
    ),
    advisory(6, "south", "hq", "hq", "down", destination="sales"),
    *(advisory(7, leaf, "hq", "south", "down", destination="sales") for leaf in ("bath", "exeter")),
    advisory(8, "bath", "york", "south", "down", kind="domain", destination="york"),
    advisory(9, "hq", "york", "north", "up", op="remove", cause="york:remove"),
]
PLANTED: list[tuple[str, dict[str, Any]]] = [
    (spillage.PEER, advisory(20, "durham", "york", "north", "down")),
    (spillage.RESENT, advisory(21, "durham", "york", "north", "down")),
    (
        spillage.OTHER_REGION,
        advisory(22, "bath", "york", "south", "down", kind="topic", destination="offers/#"),
    ),
    (spillage.SIBLING, advisory(23, "south", "north", "hq", "down", destination="region")),
    (spillage.OWN, advisory(24, "york", "york", "north", "down", destination="loop")),
    (spillage.SECOND_ROOT, advisory(25, "other-hq", "york", "north", "up", role="root")),
    (spillage.OTHER_REGION, advisory(50, "lancaster", "bath", "north", "down", destination="old")),
    (spillage.STALE, advisory(51, "north", "bath", "lancaster", "up", destination="old")),
    (spillage.PEER, advisory(60, "exeter", "winchester", "south", "down", op="remove", destination="late")),
]
AROUND: Rows = [
    consumer(30, "bath", "add", "old"),
    consumer(40, "bath", "remove", "old"),
    advisory(70, "hq", "nobody-knows", "north", "up", destination="strange"),
    advisory(71, "hq", None, "north", "up", destination="strange"),
]


@pytest.fixture(scope="module")
def log(spark: "SparkSession") -> "DataFrame":
    return events(spark, HEALTHY + AROUND + [row for _, row in PLANTED]).localCheckpoint()


@pytest.fixture(scope="module")
def judged(log: "DataFrame", demo_tree: Tree) -> Table:
    rolled = summed(log)
    strange = spillage.strange_links(rolled, demo_tree)
    return spillage.judge(spillage.pairs(rolled), demo_tree, strange)


def verdicts(judged: Table) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows(spillage.summary(judged)):
        found[row.verdict] = found.get(row.verdict, 0) + row.advisories
    return found


def test_every_planted_advisory_is_found_with_its_reason_and_no_other(
    log: "DataFrame", judged: Table
) -> None:
    found = {
        (row.at.replace(tzinfo=UTC), row.node, row.reason)
        for row in rows(spillage.spilled_rows(log.toArrow(), judged))
    }
    assert found == {(row["at"], row["node"], reason) for reason, row in PLANTED}


def test_what_cannot_be_judged_is_counted_apart_as_are_domain_routes(judged: Table) -> None:
    found = verdicts(judged)
    assert found == {"needed": 9, "spilled": len(PLANTED), "unknown": 2, "domain": 1}


def test_regions_show_who_told_whom(judged: Table) -> None:
    found = {(row.origin_region, row.region): row.advisories for row in rows(spillage.regions(judged))}
    assert found["north", "south"] == 2
    assert found["south", "north"] == 2
    assert found["north", "north"] == 3


def test_what_advising_less_would_spare_is_needed_all_the_same(judged: Table) -> None:
    found = {(row.advise_down, row.region): row.advisories for row in rows(spillage.advise_down(judged))}
    assert found == {("topics", "south"): 3, ("none", "south"): 3, ("none", "north"): 2}


def test_a_store_that_moved_is_not_spillage(spark: "SparkSession", demo_tree: Tree) -> None:
    """The deployment says where york stands now; the log knows where it stood."""
    link = {"event": "link", "at": START, "node": "york", "op": "up", "peer": "south", "direction": "down"}
    log = events(
        spark,
        [link, advisory(1, "south", "york", "york", "up"), advisory(2, "bath", "york", "south", "down")],
    )
    rolled = summed(log)
    strange = spillage.strange_links(rolled, demo_tree)
    assert [(row.child, row.parent, row.times) for row in rows(strange)] == [("york", "south", 1)]
    judged = spillage.judge(spillage.pairs(rolled), demo_tree, strange)
    assert {row.node: row.verdict for row in rows(judged)} == {"south": "moved", "bath": "spilled"}


def test_the_cores_of_a_mesh_are_one_root(spark: "SparkSession") -> None:
    tree = tree_of(
        sites("core-a - core", "core-b - core", "west core-b branch", "east core-a branch", "shop west leaf")
    )
    assert (tree.root, len(tree.places)) == ("core-a", 4)
    log = [
        advisory(1, "core-b", "shop", "west", "up"),
        advisory(2, "core-a", "shop", "core-b", "mesh"),
        advisory(3, "shop", "core-a", "west", "down"),
        advisory(4, "core-b", "core-a", "core-a", "mesh"),
        advisory(5, "east", "shop", "core-a", "down"),
    ]
    rolled = summed(events(spark, log))
    judged = spillage.judge(spillage.pairs(rolled), tree, spillage.strange_links(rolled, tree))
    found = {(row.node, row.origin): row.verdict for row in rows(judged)}
    assert found.pop(("east", "shop")) == "spilled"
    assert set(found.values()) == {"needed"}
