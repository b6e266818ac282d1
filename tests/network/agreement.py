"""Does a simulated tree write the same advisory log as one of real processes, row for row, but for the times?

Both live the same story: steps of (`add` or `remove`, node, destination).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from harness import Network, receiving

from simulation.advisory_log import COLUMNS, Row
from simulation.deployment import Deployment
from simulation.lines import LineSettings
from simulation.world import World, WorldSettings, populate

COMPARED = [name for name in COLUMNS if name not in ("at", "tree", "series", "seq")]
LINGERED = 15.0
"""Seconds after a step, by which a consumer that has gone has lingered, and everybody has been told."""
Story = Sequence[tuple[str, str, str]]
Rows = Counter[tuple[Any, ...]]


def comparable(rows: Iterable[Any]) -> Rows:
    """Rows about consumers and their cost, without their times."""
    return Counter(
        tuple(getattr(row, name) for name in COMPARED)
        for row in rows
        if row.event == "consumer" or (row.event == "advisory" and row.kind != "domain")
    )


def simulated(tree: Deployment, story: Story) -> list[Rows]:
    """All rows so far, after each step."""
    rows: list[Row] = []
    world = World(WorldSettings(), 1, rows.append)
    populate(world, tree, lambda role: LineSettings())
    for machine in world.machines.values():
        world.boot(machine)
        world.run(world.now + 10)
    assert world.all_up
    found = []
    for op, name, destination in story:
        world.interest(world[name], op, destination)
        world.stir(world[name])
        world.run(world.now + LINGERED)
        found.append(comparable(rows))
    return found


async def live(network: Network, story: Story, expected: Sequence[Rows]) -> None:
    """Let the nodes that run live it; after each step they have what is expected, at the end nothing else."""

    def so_far() -> Rows:
        return comparable(row for name in network.nodes.by_name for row in network.log_rows(name))

    readers: dict[tuple[str, str], AsyncExitStack] = {}
    async with AsyncExitStack() as stack:
        for (op, name, destination), rows in zip(story, expected, strict=True):
            if op == "add":
                readers[name, destination] = reader = await stack.enter_async_context(AsyncExitStack())
                client = await reader.enter_async_context(network.client(name))
                await reader.enter_async_context(receiving(client, destination))
            else:
                await readers.pop((name, destination)).aclose()
            await network.until(name, lambda _, rows=rows: so_far() >= rows, f"told of {destination}")  # type: ignore[misc]
        assert so_far() == expected[-1]
