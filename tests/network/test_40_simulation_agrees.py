"""A simulated tree and one of real processes write the same advisory log, row for row, but for the times."""

from agreement import live, simulated
from harness import Network

from simulation.deployment import DeployedNode, Deployment

TREE = Deployment(
    (
        DeployedNode("hq", "root", ""),
        DeployedNode("north", "branch", "hq"),
        DeployedNode("york", "leaf", "north"),
        DeployedNode("durham", "leaf", "north"),
    )
)
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


async def test_a_simulated_tree_writes_what_a_real_one_does(network: Network) -> None:
    for place in TREE.places:
        network.add(place.name, place.parent, role=place.role)
    for place in TREE.places:
        await network.start(place.name)
    await live(network, STORY, simulated(TREE, STORY))
