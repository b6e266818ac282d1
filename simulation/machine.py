"""A site on a virtual clock: when its core wants to be woken, whom it dials, and who works there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from broker.core.context import AdvisoryRecorder
from broker.core.node import NodeCore
from broker.core.policies.permits import GrantOf, everything
from broker.core.settings import CoreSettings
from simulation.applications import Application
from simulation.lines import End, LineSettings
from simulation.site import Site, Surroundings, no_role
from treeconnector.link import LinkSettings
from treeconnector.relations import Relation

_EVERY: Final = 1.0
_LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a machine is, in seconds. `commit`: of its disk, a commit. `packet`: of its processor, a
    packet that has come, whatever its node makes of it."""

    commit: float = 0.001
    packet: float = 0.0


class Machine(Site):
    """`wakes_at`: the timer that counts, in the world's time. `looks_at`: running time by which it looks
    after things. `was_told`: something came while a commit was under way. `dialled`: its end of the line to
    each node that it dials, None = it waits to dial it. `failures`: of dialling a node, since the last link.
    `cut_until`: its lines to the parents are cut until then. `application`: who works here. `peak_bytes`: the
    most that it ever kept. `speed`, `busy_until`: packets wait until its processor has done those before.
    """

    __slots__ = (
        "_kept",
        "_pause",
        "application",
        "busy_until",
        "cut_until",
        "dialled",
        "ends",
        "failures",
        "line",
        "looks_at",
        "peak_bytes",
        "speed",
        "wakes_at",
        "was_told",
    )  # beside the attributes of `Site`: Python keeps at most 30 of an instance without a dict of its own

    def __init__(
        self,
        world: Surroundings,
        name: str,
        parent: str,
        role: str,
        settings: CoreSettings,
        links: LinkSettings,
        line: LineSettings,
        *,
        tree: str,
        chronicle: AdvisoryRecorder,
        random_bytes: Callable[[int], bytes],
        mesh: Sequence[str] = (),
        grant_of: GrantOf = everything,
        role_of: Callable[[str], str] = no_role,
    ) -> None:
        super().__init__(
            world,
            name,
            parent,
            role,
            settings,
            links,
            tree=tree,
            chronicle=chronicle,
            random_bytes=random_bytes,
            mesh=mesh,
            grant_of=grant_of,
            role_of=role_of,
        )
        self.application: Application | None = None
        self.line = line
        self.speed = Speed()
        self.was_told = False
        self.peak_bytes = 0
        self.cut_until = 0.0
        self.busy_until = 0.0
        self.wakes_at = 0.0
        self.looks_at = 0.0
        self._kept = 0
        self._pause = _EVERY
        self.failures: dict[str, int] = {}
        self.ends: dict[object, End[Self]] = {}
        self.dialled: dict[str, End[Self] | None] = {}

    def boot(self) -> NodeCore:
        core = super().boot()
        if self.mesh:
            core.logical_addresses.addresses = [f"ws://{self.name}.example:7600/link"]
        self.wakes_at, self.looks_at, self._kept, self.busy_until = 0.0, self.now + _EVERY, 0, 0.0
        return core

    def done_by(self, packets: int) -> float:
        """When its processor has done these packets too, in the world's time."""
        self.busy_until = max(self.world.now, self.busy_until) + packets * self.speed.packet
        return self.busy_until

    def look_after(self, rest: float) -> None:
        """Its timer is due. What a node does each second is left out for up to `rest` seconds while it keeps
        nothing, for all that could come of it is a note of the time; and for up to a minute while what it
        keeps is the same.
        """
        core, now = self.core, self.now
        if now >= self.looks_at:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self.looks_at = now + (self._pause if self._look() else rest)
        else:
            core.housekeeping.next = self.looks_at
        core.advance(now)
        core.handle_timer()

    def to_dial(self) -> dict[str, Relation]:
        """Whom its node dials: the others of its mesh as far as it is on it, the parents that its file names,
        and the other nodes of their mesh, once it knows them.
        """
        mesh = self.core.mesh
        parents = (*self.ways, *mesh.parents_to_dial())
        return dict.fromkeys(parents, Relation.PARENT) | dict.fromkeys(mesh.to_dial(), Relation.MESH)

    def join(self, other: Self, relation: Relation, number: int) -> tuple[End[Self], End[Self]]:
        """Connect with a parent, or with another node of the mesh: (own end, the other's). The connection is
        as good as the line of the machine that makes it.
        """
        link = self.core.link_maker.dial(name=other.name, relation=relation)
        lower = End(self, link, self.line, number, relation)
        upper = End(other, other.core.link_maker.accept(), self.line, number, relation)
        lower.peer, upper.peer = upper, lower
        return lower, upper

    def is_linked_with(self, name: str) -> bool:
        core = self.maybe_core
        neighbour = core.neighbours.get(name) if core is not None else None
        return neighbour is not None and neighbour.up

    @property
    def kept_bytes(self) -> int:
        """Bytes of messages in this node's custody, but for dead letters."""
        core = self.maybe_core
        return sum(core.custody.spools.values()) if core is not None else 0

    def _look(self) -> int:
        """What it keeps; if that has changed, it is to look after things within a second."""
        kept = self.kept_bytes
        if kept != self._kept:
            self._kept, self._pause = kept, _EVERY
            self.peak_bytes = max(self.peak_bytes, kept)
            if kept:
                self.looks_at = min(self.looks_at, self.now + _EVERY)
        return kept

    def deadline(self) -> float:
        """When the core is to be woken, in the world's time."""
        core = self.core
        now = self.now
        self._look()
        due = max(self.looks_at, now)
        soon, interests = core.soonest(), core.interests.next_deadline()
        if soon is not None and soon < due:
            due = soon
        if interests is not None and interests < due:
            due = interests
        return self.world.now + max(due - now, 0.002)
