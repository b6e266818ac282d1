"""The nodes below this one: which of them cannot be reached, and since when.

Law: nothing is asked and nothing is sent for this. A node's name is a route, and whether it is live is told
upward for messages anyhow: the node above a line that broke says so `dormant_after` later. A change costs the
same however many nodes there are, and one entry a node is all that is kept.

Wrinkle: the moment is not on disk, and not told. It is that of the word that came, or of the line if that was
this node's own. Of a node that was down before this one knew, it is the latest moment that it can have been.
"""

from collections.abc import Iterator
from typing import NamedTuple

from broker.core.context import Context
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.names import LOCAL


class Away(NamedTuple):
    """`since`: running time. `exact`: it was known and up before; else it is down since then or longer."""

    since: float
    exact: bool


class NodesBelow:
    """`away`: those that cannot be reached, by name. Iterate for the names of all."""

    __slots__ = ("_began", "_context", "_ways", "away")

    def __init__(self, context: Context) -> None:
        self.away: dict[str, Away] = {}
        self._context = context
        self._ways: dict[str, tuple[str, ...]] = {}
        self._began = context.clock.now
        context.table.watch(self._route_changed)

    def __repr__(self) -> str:
        return f"<NodesBelow {self._context.name} {len(self.away)} of {len(self)} away>"

    def __len__(self) -> int:
        return len(self._ways)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ways)

    @property
    def longest(self) -> float | None:
        """Since when the one that is away longest is; None if all can be reached."""
        return min((each.since for each in self.away.values()), default=None)

    def ways(self, name: str) -> tuple[str, ...]:
        """The children that lead to a node."""
        return self._ways.get(name, ())

    def _route_changed(self, key: Destination, cause: str, origin: str) -> None:
        if key.kind != Kind.DOMAIN:
            return
        name, table = key.name, self._context.table
        found = {way: route.live for way, route in table.gateways(key).items() if way != LOCAL}
        ways = tuple(sorted(found.keys() - table.apart))
        if not ways or any(found[way] for way in ways):
            self.away.pop(name, None)
        elif name not in self.away:
            since = max(map(self._broken, ways))
            self.away[name] = Away(since, since > self._began and name in self._ways)
        if ways:
            self._ways[name] = ways
        else:
            self._ways.pop(name, None)

    def _broken(self, child: str) -> float:
        """When the way through a child ended."""
        neighbour = self._context.neighbours.get(child)
        return neighbour.broken_at if neighbour is not None and neighbour.dormant else self._context.clock.now
