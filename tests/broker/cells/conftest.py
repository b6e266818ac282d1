"""A forest of pure cores whose cells talk without a socket."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.cells.cells import CellCommand, NodeCells
from broker.cells.tracing import Tracing
from broker.forwards.channel_trace import ChannelTrace
from broker.shares import Shares
from simulation.forest import Forest
from simulation.site import Site


class Host:
    """What cells need of a node: a core in a forest, which runs whenever it is woken."""

    def __init__(self, forest: Forest, site: Site) -> None:
        self.forest = forest
        self.at = site
        self.asleep = False
        self.shares = Shares()

    @property
    def core(self) -> Any:
        return self.at.core

    def now(self) -> float:
        return self.at.now

    def spawn(self, work: Awaitable[Any]) -> asyncio.Task[Any]:
        return asyncio.ensure_future(work)

    def wake(self) -> None:
        if not self.asleep:
            self.forest.settle()

    def answer(self, _asker: str, _arguments: dict[str, Any]) -> Any:
        return self.status()

    def status(self) -> dict[str, Any]:
        return {"name": self.at.name}


class Grove:
    """Nodes that are linked, each with its cells and trace."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.hosts = {name: Host(forest, site) for name, site in forest.sites.items()}
        nodes: dict[str, Any] = dict(self.hosts)
        self.cells = {name: NodeCells(node) for name, node in nodes.items()}
        for name, cells in self.cells.items():
            cells.commands["status"] = CellCommand(
                lambda asker, arguments, host=self.hosts[name]: host.status()
            )
        self.tracing = {
            name: Tracing(nodes[name], cells, ChannelTrace(0)) for name, cells in self.cells.items()
        }

    def cut(self, child: str) -> None:
        wire = self.forest.wire_of(child)
        assert wire is not None
        self.forest.cut(wire)
        self.forest.settle()


@pytest.fixture
async def grove(fork: Forest) -> Grove:
    return Grove(fork)


@pytest.fixture
async def meshed() -> Grove:
    """Two roots that are one, two branches below them that are one, york below these, south beside them."""
    forest = Forest()
    forest.add_mesh("hq-1", "hq-2")
    forest.add_mesh("n-1", "n-2", parent="hq-1")
    forest.add("york", "n-1")
    forest.add("south", "hq-1")
    forest.heal(5)
    return Grove(forest)
