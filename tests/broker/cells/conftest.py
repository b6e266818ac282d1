"""A forest of pure cores whose cells talk without a socket."""

from dataclasses import dataclass
from typing import Any

import pytest

from broker.cells import Cells
from broker.cells.tracing import Tracing
from simulation.forest import Forest
from simulation.site import Site


@dataclass
class Named:
    name: str


class Host:
    """What cells need of a node: a core in a forest, which runs whenever it is woken."""

    def __init__(self, forest: Forest, site: Site) -> None:
        self.forest = forest
        self.at = site
        self.site = Named(site.name)
        self.asleep = False

    @property
    def core(self) -> Any:
        return self.at.core

    def now(self) -> float:
        return self.at.now

    def wake(self) -> None:
        if not self.asleep:
            self.forest.settle()

    def status(self) -> dict[str, Any]:
        return {"name": self.site.name}


class Grove:
    """Nodes that are linked, each with its cells and trace."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.hosts = {name: Host(forest, site) for name, site in forest.sites.items()}
        nodes: dict[str, Any] = dict(self.hosts)
        self.cells = {name: Cells(node) for name, node in nodes.items()}
        self.tracing = {name: Tracing(nodes[name], cells) for name, cells in self.cells.items()}

    def cut(self, child: str) -> None:
        wire = self.forest.wire_of(child)
        assert wire is not None
        self.forest.cut(wire)
        self.forest.settle()


@pytest.fixture
async def grove() -> Grove:
    """hq, north and south below it, york below north."""
    forest = Forest()
    forest.add("hq")
    forest.add("north", "hq", role="branch")
    forest.add("south", "hq", role="branch")
    forest.add("york", "north")
    forest.dial_all()
    forest.settle()
    return Grove(forest)


@pytest.fixture
async def meshed() -> Grove:
    """Two roots that are one, two branches below them that are one, york below these, south beside them."""
    forest = Forest()
    for name, parent, role, mesh in (
        ("hq-1", "", "root", ["hq-2"]),
        ("hq-2", "", "root", ["hq-1"]),
        ("n-1", "hq-1", "branch", ["n-2"]),
        ("n-2", "hq-1", "branch", ["n-1"]),
        ("york", "n-1", "leaf", []),
        ("south", "hq-1", "leaf", []),
    ):
        forest.add(name, parent, role, mesh=mesh)
    forest.heal(5)
    return Grove(forest)
