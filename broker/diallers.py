"""Who dials whom: the parent that the file names, the other nodes of its mesh, and those of this node's own.

The file's connector leads to one parent. Where that is a node of a mesh, its handshake says who the others
are, and each gets a supervisor of its own; so a node that joins the mesh later is linked with no restart.

Law: one link with each. While the connector's own link is with a node, nobody else dials that node; while
another parent is up, the connector rests.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bridges.carriers.base import Carrier
from broker.core.links.neighbour import Neighbour
from broker.core.policy import Policy
from broker.host import Host
from broker.link_driver import LinkDriver
from broker.location.cores import CoreFinder, finder_of
from broker.naming import Naming
from broker.supervisor import Supervisor
from config.model import Site, TreeConnector
from config.uris import address, dialable
from treeconnector.link import UNKNOWN, Link
from treeconnector.relations import Relation

if TYPE_CHECKING:
    from broker.location.finder import Finder

_LEAVES: Final = "the node leaves the tree"


class WantedLink(NamedTuple):
    """A link that this node makes itself. `name`: of the node that is to be there, '' = whoever is."""

    name: str
    relation: Relation
    uris: list[str]
    why: str
    state: str


class Diallers(Policy):
    """All supervisors of one node. `main`: the connector's; `supervisors`: the others, by the node they dial.

    `leads`: which node a way was found to lead to. `leaving`: nobody is dialled any more.
    """

    def __init__(self, host: Host, wires: LinkDriver, site: Site, naming: Naming) -> None:
        self._host = host
        self._wires = wires
        self._site = site
        self._naming = naming
        self.leaving = False
        self.main: Supervisor | None = None
        if site.connector is not None:
            self.main = Supervisor(host, site, self, site.connector)
        finder = finder_of(site)
        self._cores = CoreFinder(host, finder) if finder is not None else None
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._changed = asyncio.Event()
        self.supervisors: dict[str, Supervisor] = {}
        self.leads: dict[str, str] = {}
        host.core.policies.add((self,))

    def __repr__(self) -> str:
        return f"<Diallers of {self._site.name}: {', '.join(sorted(self.supervisors)) or 'nobody'}>"

    @property
    def disconnected(self) -> bool:
        """Is this node a satellite that is linked with no core?"""
        linked = any(parent.up for parent in self._host.core.neighbourhood.parents())
        return self._site.scheme == "satellite" and not linked

    @property
    def finders(self) -> "list[Finder]":
        """All that is looked up in DNS: the parent's domains, and that of the mesh."""
        found = list(self.main.ways.finders.values()) if self.main is not None else []
        return [*found, self._cores.finder] if self._cores is not None else found

    def wanted(self) -> list[WantedLink]:
        """The links that this node makes itself, and why."""
        mesh = self._host.core.mesh
        found = []
        if self.main is not None and not self.leaving:
            found.append(
                WantedLink(
                    "", Relation.PARENT, list(self.main.connector.ways), "the file names it", self.main.state
                )
            )
        for name, supervisor in self.supervisors.items():
            listed = any(core.name == name for core in self._site.mesh.cores)
            if name not in mesh.to_dial():
                why = "a node of its parents' mesh"
            elif listed:
                why = "the file lists it in the mesh"
            else:
                why = "it is of the mesh" if name in mesh.members else "it has registered for the mesh"
            ways = list(supervisor.connector.ways)
            found.append(WantedLink(name, supervisor.relation, ways, why, supervisor.state))
        return found

    def of(self, name: str) -> Supervisor | None:
        """The one that knows how a node is dialled: its own, or the connector's."""
        return self.supervisors.get(name, self.main)

    def say_goodbye(self, neighbours: Iterable[Neighbour]) -> None:
        """Leave these for good: they withdraw our routes. Nobody is dialled any more."""
        self.leaving = True
        for neighbour in neighbours:
            if neighbour.link is not None:
                self._wires.goodbye(neighbour.link, _LEAVES)
        self._host.wake()

    # --- for the supervisors

    async def drive(self, link: Link, carrier: Carrier) -> tuple[bool, str]:
        return await self._wires.drive(link, carrier)

    def begun(self, link: Link) -> "asyncio.Task[None] | None":
        return self._host.spawn(self._naming.watch(link)) if self._naming.drawn else None

    def ended(self, uri: str, link: Link) -> None:
        if link.peer_name != UNKNOWN:
            self.leads[uri] = link.peer_name
        self._changed.set()
        self._naming.ended(link)

    # --- whom to dial

    def mesh_changed(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled: have a supervisor for each node that is to be dialled, and for nobody else."""
        if self.main is not None:
            self._host.spawn(self.main.run())
        if self._cores is not None:
            self._host.spawn(self._cores.run())
        while True:
            self._changed.clear()
            self._look()
            await self._changed.wait()

    def _look(self) -> None:
        main = self.main
        if main is not None and main.linked:
            self.leads[main.uri] = main.linked
        wanted = {} if self.leaving else self._wanted()
        for name, supervisor in list(self.supervisors.items()):
            now = wanted.get(name)
            if not supervisor.linked and (now is None or now[0] != supervisor.connector):
                del self.supervisors[name]
                self._tasks.pop(name).cancel()
        for name, (connector, relation) in wanted.items():
            if name not in self.supervisors:
                made = Supervisor(self._host, self._site, self, connector, name, relation)
                self.supervisors[name] = made
                self._tasks[name] = self._host.spawn(made.run())

    def _wanted(self) -> dict[str, tuple[TreeConnector, Relation]]:
        """The nodes to dial, and how."""
        mesh, connector = self._host.core.mesh, self._site.connector
        found: dict[str, tuple[TreeConnector, Relation]] = {}
        tls = self._site.mesh.tls
        for name, told in mesh.to_dial().items():
            if addresses := [uri for uri in told if dialable(uri) is not None]:
                way = TreeConnector(uri=addresses[0], uris=tuple(addresses[1:]), tls=tls)
                found[name] = way, Relation.MESH
        main = self.main
        if connector is None or main is None:
            return found
        for name, addresses in mesh.parents_to_dial().items():
            ways = self._ways(name, connector, addresses)
            if name != main.linked and ways:
                found[name] = replace(connector, uri=ways[0], uris=ways[1:]), Relation.PARENT
        return found

    def _ways(self, name: str, connector: TreeConnector, addresses: list[str]) -> tuple[str, ...]:
        """The ways to a parent: those of the file that lead there, those that it announces, and those of the
        file that may lead anywhere.
        """
        own = [uri for uri in connector.ways if self.leads.get(uri) == name]
        announced = [uri for uri in addresses if dialable(uri) is not None]
        others = [uri for uri in connector.ways if uri not in self.leads and _is_way(uri)]
        return tuple(dict.fromkeys([*own, *announced, *others]))


def _is_way(uri: str) -> bool:
    """An address of one node; what DNS says is for whoever looks for any of them."""
    return not address(uri).looked_up
