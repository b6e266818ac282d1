"""The log of a real mesh: three roots, each killed under load, all lines of one region cut and restored.

`data/mesh` is what eleven real nodes wrote. It is judged as it is, and with faults planted in it.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from audit_tables import events, rows, summed
from pyarrow import Table

from audit import population, spillage, waste, whatif
from audit.deployment import Tree, load_tree
from audit.listing import list_local
from audit.queries import query
from audit.reading import Intake, read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data" / "mesh"
AT = datetime(2026, 11, 21, 23, 38, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def tree() -> Tree:
    return load_tree(str(DATA / "sites.csv"))


@pytest.fixture(scope="module")
def intake(spark: "SparkSession") -> Intake:
    return read(spark, list_local([str(DATA / "three-roots.jsonl.gz")]))


def advisory(node: str, origin: str, peer: str, direction: str, **more: Any) -> dict[str, Any]:
    roles = {"hq": "root", "no": "branch", "so": "branch"}
    given = {
        "event": "advisory",
        "at": AT,
        "node": node,
        "role": roles.get(node[:2], "leaf"),
        "op": "add",
        "kind": "queue",
        "destination": "planted",
        "peer": peer,
        "direction": direction,
        "cause": f"{origin}:1",
        "origin": origin,
        "bytes": 30,
    }
    return given | more


def link(node: str, peer: str, op: str = "up", **more: Any) -> dict[str, Any]:
    given = {"event": "link", "at": AT, "node": node, "peer": peer, "op": op, "direction": "mesh"}
    return given | more


def judged(rolled: Table, tree: Tree) -> Table:
    return spillage.judge(spillage.pairs(rolled), tree, spillage.strange_links(rolled, tree))


def verdicts(judged: Table) -> dict[str, int]:
    sums = query("select verdict, sum(advisories) as n from judged group by verdict", judged=judged)
    return {row.verdict: row.n for row in rows(sums)}


def test_a_mesh_spills_nothing_whoever_was_killed(intake: Intake, tree: Tree) -> None:
    faults = "from files where fault is not null or unknown + untimed + newer > 0"
    assert len(query(faults, files=intake.files)) == 0
    assert verdicts(judged(intake.rolled, tree)) == {"needed": 25, "domain": 103}
    assert len(spillage.strange_links(intake.rolled, tree)) == 0
    assert {row.node for row in rows(waste.silent(intake.rolled, tree.nodes))} == set()


def test_what_if_says_what_each_consumer_of_the_mesh_did_cost(intake: Intake, tree: Tree) -> None:
    """But for what was told anew when links came back."""
    fresh = "event = 'advisory' and kind != 'domain' and cause != 'resync' and op = 'add'"
    told = intake.events.where(fresh).select("node", "peer", "kind", "destination").distinct().count()
    consumers = intake.events.where("event = 'consumer'").select("node", "kind", "destination")
    wanted = population.interests(tree, consumers.toArrow())
    costs = whatif.per_consumer(tree, (1,))
    found = {row.scheme: row.added for row in rows(population.cost(tree, wanted, costs))}
    assert found["tree"] == told == 16
    assert rows(whatif.domain_routes(tree))[0].held == 48


PLANTED = [
    (spillage.OWN, advisory("hq-2", "hq-2", "hq-1", "mesh")),
    (spillage.SIBLING, advisory("south", "north", "hq-3", "down")),
    (spillage.PEER, advisory("hull", "york", "north", "down")),
    (spillage.OTHER_REGION, advisory("bath", "leeds", "south", "down")),
    (spillage.SECOND_ROOT, advisory("hq-9", "york", "north", "up")),
]
HARMLESS = [
    advisory("hq-3", "hq-2", "hq-2", "mesh", destination="desk"),
    advisory("north", "hq-2", "hq-2", "down", destination="desk"),
    advisory("hq-1", "hull", "north", "up", destination="shelf"),
    link("hq-4", "hq-1"),
    advisory("hq-4", "hull", "north", "up", destination="shelf"),
]
"""What a mesh does tell; and a root that has joined it since the table was written."""


def test_what_is_planted_in_the_log_of_a_mesh_is_found_and_nothing_else(
    spark: "SparkSession", intake: Intake, tree: Tree
) -> None:
    planted = events(spark, [row for _, row in PLANTED] + HARMLESS)
    log = intake.events.select(*planted.columns).unionByName(planted).localCheckpoint()
    found = judged(summed(log), tree)
    spilled = rows(spillage.spilled_rows(log.toArrow(), found))
    assert {(row.node, row.origin, row.reason) for row in spilled} == {
        (row["node"], row["origin"], reason) for reason, row in PLANTED
    }
    assert verdicts(found) == {"needed": 28, "domain": 103, "spilled": len(PLANTED), "unknown": 1}


def test_a_child_of_a_mesh_is_cut_off_when_all_its_lines_are(spark: "SparkSession", tree: Tree) -> None:
    def told(second: int, core: str, op: str) -> dict[str, Any]:
        return link(core, "north", op, at=AT.replace(second=second), direction="up")

    log = events(
        spark,
        [
            *(told(0, core, "up") for core in ("hq-1", "hq-2", "hq-3")),
            told(10, "hq-1", "down"),
            told(11, "hq-2", "down"),
            told(20, "hq-1", "up"),
            told(30, "hq-1", "down"),
            told(32, "hq-3", "down"),
            told(35, "hq-2", "up"),
        ],
    )
    (cut,) = rows(waste.cut_off(log.toArrow(), summed(log), tree.nodes))
    assert (cut.node, cut.parent, cut.downs, cut.seconds, cut.since) == ("north", "hq-1", 1, 3.0, None)
