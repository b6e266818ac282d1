"""The simulation gives the counts that the audit's report shows beside the laws."""

from collections import Counter
from typing import Any

import pytest

from audit.comparison import counted
from broker.core.settings import CoreSettings
from simulation.advisory_log import Row
from simulation.deployment import generated
from simulation.lines import LineSettings
from simulation.run import rare_collection
from simulation.world import World, WorldSettings

SIMULATED = [row for row in counted() if row["how"] == "simulated"]


@pytest.mark.parametrize("row", SIMULATED, ids=lambda row: f"{row['brokers']} nodes")
def test_all_consumers_come_and_go_for_as_many_advisories_as_the_report_says(row: dict[str, Any]) -> None:
    with rare_collection():
        _live_through(row)


def _live_through(row: dict[str, Any]) -> None:
    told: Counter[str] = Counter()
    held: set[tuple[str, str | None]] = set()

    def hear(told_row: Row) -> None:
        if told_row.event == "advisory" and told_row.kind != "domain":
            told[told_row.op] += 1
            change = held.add if told_row.op == "add" else held.discard
            change((told_row.node, told_row.destination))

    chain = generated(row["branches"] * row["leaves_a_branch"], regions=row["branches"])
    assert len(chain) == row["brokers"]
    world = World(WorldSettings(core=CoreSettings(linger=0.0, trace_events=0)), 1, hear)
    for place in chain.places:
        world.boot(world.add(place.name, place.parent, place.role, LineSettings()))
    world.run(60.0)
    assert world.all_up

    stores = [place.name for place in chain.of_role("leaf")]
    consumers = [(stores[n % len(stores)], f"queue:own-{n}") for n in range(row["consumers"])]
    for op in ("add", "remove"):
        for store, destination in consumers:
            world.interest(world[store], op, destination)
        for store in dict(consumers):
            world.stir(world[store])
        world.run(world.now + 60.0)
        if op == "add":
            assert len(held) == row["held"]
    assert told == {"add": row["added"], "remove": row["closed"]}
    assert not held
