"""What one consumer costs, counted on the virtual network: exactly what the design's arithmetic says."""

from collections.abc import Iterator

import pytest

from broker.core.settings import CoreSettings
from simulation.advisory_log import Row
from simulation.deployment import Deployment, generated
from simulation.lines import LineSettings
from simulation.weather import check_spillage
from simulation.world import World, WorldSettings

SHAPES = {
    1: generated(5, depth=1),
    2: generated(12, regions=3),
    3: generated(12, regions=2, fan_out=2, depth=3),
    4: generated(16, regions=2, fan_out=2, depth=4),
}


class Tree:
    """A tree at rest, and what was received since it was asked last. `linger`: as in the configuration."""

    def __init__(self, deployment: Deployment, **rules: object) -> None:
        self.deployment = deployment
        self.rows: list[Row] = []
        core = CoreSettings(**{"linger": 0.0} | rules)  # type: ignore[arg-type]
        self.world = World(WorldSettings(core=core), 1, self.rows.append)
        for place in deployment.places:
            self.world.boot(self.world.add(place.name, place.parent, place.role, LineSettings()))
        self.world.run(60.0)
        assert self.world.all_up
        self.received()

    def received(self) -> list[Row]:
        rows, self.rows[:] = [row for row in self.rows if row.event == "advisory"], []
        return rows

    def cost(self, op: str, node: str, destination: str, seconds: float = 5.0) -> int:
        machine = self.world[node]
        self.world.interest(machine, op, destination)
        self.world.stir(machine)
        self.world.run(self.world.now + seconds)
        rows = self.received()
        check_spillage(rows, self.deployment)
        assert all(row.op == op and row.origin == node for row in rows)
        return len(rows)

    def descendants(self, node: str) -> int:
        children = [place.name for place in self.deployment.places if place.parent == node]
        return len(children) + sum(map(self.descendants, children))


def every_kind_of_node(deployment: Deployment) -> Iterator[str]:
    """One node of each depth: they are alike."""
    by_depth = {depth: name for name, depth in deployment.depths().items()}
    yield from by_depth.values()


@pytest.mark.parametrize("depth", SHAPES)
def test_a_consumer_costs_its_depth_and_its_descendants_and_as_much_when_it_goes(depth: int) -> None:
    tree = Tree(SHAPES[depth])
    depths = tree.deployment.depths()
    for node in every_kind_of_node(tree.deployment):
        expected = depths[node] + tree.descendants(node)
        assert tree.cost("add", node, "queue:prices") == expected
        assert tree.cost("remove", node, "queue:prices") == expected


def test_the_roots_consumer_costs_all_other_nodes() -> None:
    tree = Tree(SHAPES[3])
    assert tree.cost("add", "hq", "topic:prices/#") == len(tree.deployment) - 1


def test_a_second_consumer_in_the_same_region_ends_where_the_first_is_known() -> None:
    tree = Tree(SHAPES[2])
    leaves = tree.deployment.of_role("leaf")
    assert leaves[0].parent == leaves[1].parent != leaves[-1].parent
    assert tree.cost("add", leaves[0].name, "queue:prices") == 2
    assert tree.cost("add", leaves[1].name, "queue:prices") == 1
    assert tree.cost("add", leaves[-1].name, "queue:prices") == 2
    assert tree.cost("remove", leaves[0].name, "queue:prices") == 1
    assert tree.cost("remove", leaves[1].name, "queue:prices") == 2


def test_a_consumer_that_comes_back_within_the_linger_costs_nothing() -> None:
    tree = Tree(SHAPES[2], linger=10.0)
    leaf = tree.deployment.of_role("leaf")[0].name
    assert tree.cost("add", leaf, "queue:prices") == 2
    assert tree.cost("remove", leaf, "queue:prices", seconds=9.0) == 0
    assert tree.cost("add", leaf, "queue:prices") == 0
    assert tree.cost("remove", leaf, "queue:prices", seconds=9.0) == 0
    tree.world.run(tree.world.now + 30.0)
    assert [row.op for row in tree.received()] == ["remove", "remove"]


@pytest.mark.parametrize(("advise_down", "queues", "topics"), [("topics", 0, 15), ("none", 0, 0)])
def test_what_is_not_advised_down_costs_nothing_there(advise_down: str, queues: int, topics: int) -> None:
    tree = Tree(SHAPES[2], advise_down=advise_down)
    assert tree.cost("add", "hq", "queue:prices") == queues
    assert tree.cost("add", "hq", "topic:prices") == topics
