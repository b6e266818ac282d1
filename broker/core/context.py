"""The context of a node's core: what nearly all of its parts need, given to each when it is made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from broker.core.clock import Clock
from broker.core.commit import NextCommit
from broker.core.custody.custody import Custody
from broker.core.links.neighbour import Neighbour
from broker.core.policy import Policies
from broker.core.settings import CoreSettings
from sapwood.protocol.destinations import Destination
from treeconnector.frames import Advice
from treeconnector.identity import Identity
from treeconnector.relations import Relation
from treeconnector.roles import Role
from treeconnector.routes import RoutingTable


class AdvisoryRecorder(Protocol):
    """Where the advisory log is written."""

    def consumer(self, op: str, key: Destination, cause: str) -> None: ...

    def advisories(self, peer: str, direction: str, advices: list[Advice]) -> None: ...

    def link(self, op: str, peer: str, direction: str) -> None: ...

    def chain(self, chain: list[str]) -> None: ...


@dataclass(frozen=True, slots=True)
class Context:
    """Of one node. `neighbours`: by name, whether their links are up or not. `parents`: those of them above.

    `members`: the other nodes of its mesh, with addresses. `touched`: neighbours whose rows differ from what
    is on disk. `counters`: totals since the start. `random_bytes`: so many
    that nobody can guess.
    """

    identity: Identity
    role: Role
    settings: CoreSettings
    clock: Clock
    custody: Custody
    table: RoutingTable
    neighbours: dict[str, Neighbour]
    parents: dict[str, Neighbour]
    members: dict[str, list[str]]
    touched: dict[str, Neighbour]
    next_commit: NextCommit
    counters: dict[str, int]
    random_bytes: Callable[[int], bytes]
    policies: Policies
    log: AdvisoryRecorder

    @property
    def name(self) -> str:
        return self.identity.name

    @property
    def lacks_parent(self) -> bool:
        """Is there a parent that this node has not met yet?"""
        return self.role.has_parent and not self.parents

    def children(self) -> list[Neighbour]:
        return [each for each in self.neighbours.values() if each.relation is Relation.CHILD]

    def peers(self) -> list[Neighbour]:
        """The other nodes of the mesh, whether their links are up or not."""
        return [each for each in self.neighbours.values() if each.relation is Relation.MESH]

    def log_link(self, op: str, neighbour: Neighbour) -> None:
        self.log.link(op, neighbour.name, neighbour.relation.direction)

    def touch(self, neighbour: Neighbour) -> None:
        """Its row differs from what is on disk."""
        self.touched[neighbour.name] = neighbour
