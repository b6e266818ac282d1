"""A simulated mesh and one of real processes write the same advisory log, row for row, but for the times.

Both are made from one table of sites.
"""

import yaml
from agreement import COMPARED, live, simulated
from harness import Network

from broker.cli.demo.processes import Status
from config.fleet import SiteRow, write_fleet
from simulation.deployment import DeployedNode, Deployment

TREE = Deployment(
    (
        DeployedNode("hq-1", "root", "", "hq"),
        DeployedNode("hq-2", "root", "", "hq"),
        DeployedNode("north", "branch", "hq-1 hq-2"),
        DeployedNode("york", "leaf", "north"),
        DeployedNode("shop", "leaf", "hq-1 hq-2"),
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
            consume="#" if place.parent else "",
            send="#" if place.parent else "",
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


async def test_a_simulated_mesh_writes_what_a_real_one_does(network: Network) -> None:
    expected = simulated(TREE, STORY)
    assert {row[COMPARED.index("direction")] for row in expected[-1]} == {None, "up", "down", "mesh"}
    await build(network)
    await live(network, STORY, expected)
