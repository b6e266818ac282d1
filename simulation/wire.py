"""A connection between a child and its parent, and the packets that are on their way.

Packets move when somebody says so: `pull` takes what both machines have to say onto the line, `deliver` lets
it arrive.
"""

from collections import deque
from typing import NamedTuple

from simulation.site import Site
from treeconnector.link import Link
from treeconnector.relations import Relation


class Way(NamedTuple):
    """One direction of a wire."""

    source: Link
    target: Link
    packets: deque[bytes]


class Wire:
    """A connection between a child and its parent, or two nodes of one mesh (`child`: who dialled)."""

    def __init__(self, child: Site, parent: Site, *, mesh: bool = False) -> None:
        self.child, self.parent = child, parent
        relation = Relation.MESH if mesh else Relation.PARENT
        dialled, accepted = (
            child.core.link_maker.dial(name=parent.name, relation=relation),
            parent.core.link_maker.accept(),
        )
        self.up = Way(dialled, accepted, deque())
        self.down = Way(accepted, dialled, deque())
        self._sides = (child, parent, self.up), (parent, child, self.down)

    def __repr__(self) -> str:
        return f"<Wire {self.child.name}-{self.parent.name} {self.up.source.state}/{self.down.source.state}>"

    def sides(self) -> tuple[tuple[Site, Site, Way], tuple[Site, Site, Way]]:
        """Each machine, who is opposite, and its way to there."""
        return self._sides

    def pull(self, budget: int = 1 << 18) -> bool:
        """Take what both machines have to say onto the line."""
        moved = False
        for source, _, way in self._sides:
            if source.running and (
                packets := way.source.data_to_send(budget) or way.source.streams_to_send()
            ):
                source.core.channels.pulled(way.source)
                way.packets.extend(packets)
                moved = True
        return moved

    def deliver(self, way: Way, target: Site, count: int = 1 << 30) -> bool:
        """Let packets arrive."""
        moved = False
        while way.packets and count and target.running:
            packet = way.packets.popleft()
            if way.target in target.core.links.peers:
                target.core.advance(target.now)
                target.core.receive(way.target, packet)
            moved, count = True, count - 1
        return moved
