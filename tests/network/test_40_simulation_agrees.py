"""A simulated tree and one of real processes write the same advisory log, row for row, but for the times."""

from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from harness import Network, receiving

from broker.core.settings import CoreSettings
from simulation.advisory_log import COLUMNS, Row
from simulation.lines import LineSettings
from simulation.world import World, WorldSettings

TREE = [("hq", "", "root"), ("north", "hq", "branch"), ("york", "north", "leaf"), ("durham", "north", "leaf")]
STORY = [
    ("add", "york", "queue:prices"),
    ("add", "durham", "queue:prices"),
    ("add", "north", "topic:news/#"),
    ("add", "hq", "topic:offers/+"),
    ("remove", "york", "queue:prices"),
    ("remove", "durham", "queue:prices"),
    ("remove", "hq", "topic:offers/+"),
    ("add", "durham", "queue:prices"),
    ("add", "hq", "topic:the-end"),
]
COMPARED = [name for name in COLUMNS if name not in ("at", "tree")]


def comparable(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    """Rows about consumers and their cost, and about links that are up, without their times."""
    return Counter(
        tuple(getattr(row, name) for name in COMPARED)
        for row in rows
        if row.event == "consumer" or (row.event == "advisory" and row.kind != "domain")
    )


def simulated() -> list[list[Row]]:
    """All rows so far, after each step of the story."""
    rows: list[Row] = []
    world = World(WorldSettings(core=CoreSettings(linger=0.0)), 1, rows.append)
    for name, parent, role in TREE:
        world.boot(world.add(name, parent, role, LineSettings()))
        world.run(world.now + 5)
    found = []
    for op, name, destination in STORY:
        world.interest(world[name], op, destination)
        world.stir(world[name])
        world.run(world.now + 5)
        found.append(list(rows))
    return found


async def test_a_simulated_tree_writes_what_a_real_one_does(tmp_path: Path) -> None:
    expected = [comparable(rows) for rows in simulated()]
    async with Network(tmp_path) as network, AsyncExitStack() as stack:
        for name, parent, role in TREE:
            network.add(name, parent, role=role)
        for name, _, _ in TREE:
            await network.start(name)
        here: dict[tuple[str, str], AsyncExitStack] = {}

        def so_far() -> Counter[tuple[Any, ...]]:
            return comparable([row for name, _, _ in TREE for row in network.log_rows(name)])

        for (op, name, destination), rows in zip(STORY, expected, strict=True):
            if op == "add":
                here[name, destination] = reader = await stack.enter_async_context(AsyncExitStack())
                client = await reader.enter_async_context(network.client(name))
                await reader.enter_async_context(receiving(client, destination))
            else:
                await here.pop((name, destination)).aclose()
            await network.until("hq", lambda _, rows=rows: so_far() >= rows, f"told of {destination}")  # type: ignore[misc]
        assert so_far() == expected[-1]
