"""What-if agrees exactly with the simulation, which runs the rules of real nodes; and that spills nothing."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from audit_tables import rows

from audit import causes, population, spillage, whatif
from audit.deployment import load_tree
from audit.listing import list_local
from audit.queries import query
from audit.reading import read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORKLOAD = """
workload:
  tree: acme
  start: 2026-03-14T00:00:00Z
  hours: {opens: "08:00", closes: "20:00", spread: 10m}
  consumers:
    - {role: leaf, destination: "queue:till-{node}-{number}", count: 2}
    - {role: leaf, destination: "topic:offers/#"}
    - {role: branch, destination: "queue:stock-{node}"}
    - {role: branch, destination: "topic:offers/#"}
    - {role: root, destination: "queue:sales"}
    - {role: root, destination: "queue:desk-{node}"}
"""


@pytest.mark.parametrize(
    "shape",
    [
        "stores=40,regions=2,fan_out=2,depth=3",
        "stores=30,regions=1",
        "stores=6,regions=2,fan_out=2,depth=3,cores=3,region_cores=2",
    ],
)
def test_what_if_is_what_the_simulated_nodes_told_each_other(
    spark: "SparkSession", tmp_path: Path, shape: str
) -> None:
    (tmp_path / "day.yaml").write_text(WORKLOAD)
    command = [
        sys.executable,
        "-P",
        "-m",
        "broker.cli",
        "simulate",
        shape,
        "--workload",
        str(tmp_path / "day.yaml"),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    subprocess.run(command, check=True, capture_output=True)
    tree = load_tree(str(tmp_path / "out" / "sites.csv"))
    intake = read(spark, list_local([str(tmp_path / "out" / "advisories")]))
    events = intake.events.localCheckpoint()
    faults = "from files where fault is not null or unknown + untimed + newer > 0"
    assert len(query(faults, files=intake.files)) == 0

    told = events.where("event = 'advisory' and kind != 'domain'").groupBy("op").count().collect()
    consumers = events.where("event = 'consumer'").select("node", "kind", "destination")
    wanted = population.interests(tree, consumers.toArrow())
    found = {row.scheme: row for row in rows(population.cost(tree, wanted, whatif.per_consumer(tree)))}
    assert {row.op: row["count"] for row in told} == {
        "add": found["tree"].added,
        "remove": found["tree"].closed,
    }

    names = events.where("event = 'advisory' and kind = 'domain'").count()
    assert names == rows(whatif.domain_routes(tree))[0].advisories

    rolled = intake.rolled
    judged = spillage.judge(spillage.pairs(rolled), tree, spillage.strange_links(rolled, tree))
    assert {row.verdict for row in rows(judged)} == {"needed", "domain"}

    waits = causes.consumer_events(events, tree.roots).where("root_knew_after_s < 0").count()
    assert waits == 0, "on a virtual clock nothing is known before it happened"
