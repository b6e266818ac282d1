"""A simulated mesh and one of real processes write the same advisory log, row for row, but for the times.

Both are made from one table of sites.
"""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import yaml
from harness import Network, receiving

from broker.cli.demo.processes import Status
from broker.core.settings import CoreSettings
from config.fleet import SiteRow, write_fleet
from simulation.advisory_log import COLUMNS, Row
from simulation.deployment import Deployment, Place
from simulation.lines import LineSettings
from simulation.world import World, WorldSettings, populate

TREE = Deployment(
    (
        Place("hq-1", "root", "", "hq"),
        Place("hq-2", "root", "", "hq"),
        Place("north", "branch", "hq-1 hq-2"),
        Place("york", "leaf", "north"),
        Place("shop", "leaf", "hq-1 hq-2"),
    )
)
STORY = [
    ("add", "york", "queue:prices"),
    ("add", "hq-2", "topic:news/#"),
    ("add", "north", "queue:prices"),
    ("add", "hq-1", "queue:sales"),
    ("add", "hq-2", "queue:sales"),
    ("remove", "hq-2", "topic:news/#"),
    ("remove", "york", "queue:prices"),
    ("add", "shop", "queue:the-end"),
]
COMPARED = [name for name in COLUMNS if name not in ("at", "tree")]


def comparable(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """Rows about consumers and their cost, without their times."""
    return Counter(
        tuple(getattr(row, name) for name in COMPARED)
        for row in rows
        if row.event == "consumer" or (row.event == "advisory" and row.kind != "domain")
    )


def simulated() -> list[list[Row]]:
    """All rows so far, after each step of the story."""
    rows: list[Row] = []
    world = World(WorldSettings(core=CoreSettings(linger=0.0)), 1, rows.append)
    populate(world, TREE, lambda role: LineSettings())
    for machine in world.machines.values():
        world.boot(machine)
        world.run(world.now + 10)
    assert world.all_up
    found = []
    for op, name, destination in STORY:
        world.interest(world[name], op, destination)
        world.stir(world[name])
        world.run(world.now + 5)
        found.append(list(rows))
    return found


async def build(network: Network) -> None:
    """The files of the nodes are those that a table of sites gives, but for what is quick in tests."""
    for place in TREE.places:
        network.add(place.name, *place.parents[:1], role=place.role)
    rows = [
        SiteRow(
            name=place.name,
            role=place.role,
            parent=place.parent,
            mesh=place.mesh,
            address=f"127.0.0.1:{network.ports[place.name]}",
        )
        for place in TREE.places
    ]
    write_fleet(rows, network.folder / "fleet", ["yaml"], secrets=True)
    for place in TREE.places:
        text = (network.folder / "fleet" / "yaml" / f"{place.name}.yaml").read_text()
        settings = yaml.safe_load(text.replace("../secrets/", "fleet/secrets/"))["broker"]
        network.configure(settings.pop("name"), *place.parents[:1], role=place.role, **settings)
    for place in TREE.places:
        await network.start(place.name)
    for place in TREE.places:
        if place.mesh or len(place.parents) > 1:
            kind, count = ("mesh", 1) if place.mesh else ("parents", 2)
            await network.until(
                place.name, lambda status, kind=kind, count=count: running(status, kind) == count, "linked"
            )


def running(status: Status, kind: str) -> int:
    return sum(each["state"] == "running" for each in status[kind])


async def test_a_simulated_mesh_writes_what_a_real_one_does(tmp_path: Path) -> None:
    expected = [comparable(rows) for rows in simulated()]
    assert {row[COMPARED.index("direction")] for row in expected[-1]} == {None, "up", "down", "mesh"}
    async with Network(tmp_path) as network, AsyncExitStack() as stack:
        await build(network)
        here: dict[tuple[str, str], AsyncExitStack] = {}

        def so_far() -> Counter[tuple[Any, ...]]:
            return comparable([row for place in TREE.places for row in network.log_rows(place.name)])

        for (op, name, destination), rows in zip(STORY, expected, strict=True):
            if op == "add":
                here[name, destination] = reader = await stack.enter_async_context(AsyncExitStack())
                client = await reader.enter_async_context(network.client(name))
                await reader.enter_async_context(receiving(client, destination))
            else:
                await here.pop((name, destination)).aclose()
            await network.until("hq-1", lambda _, rows=rows: so_far() >= rows, f"told of {destination}")  # type: ignore[misc]
        assert so_far() == expected[-1]
