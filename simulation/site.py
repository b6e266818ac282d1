"""One machine of a simulated tree: a disk that outlives the core, a running time that goes on over restarts,
the core itself while it runs, and at most one turn whose commit is under way.

Nothing happens by itself: whoever drives the world says when a turn is taken, written and reported.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, Protocol

from broker.core.commit import CommitBatch
from broker.core.context import AdvisoryRecorder
from broker.core.node import NodeCore
from broker.core.policies.permits import GrantOf, everything
from broker.core.rows import MetaRow
from broker.core.settings import CoreSettings, MeshSettings
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import Destination
from simulation.disk import Disk
from treeconnector.identity import Identity, Shown
from treeconnector.link import LinkSettings

_MESH_SECRET: Final = b"what the nodes of a mesh prove to each other"


class Surroundings(Protocol):
    """Where a site stands: the time, and the lines to others."""

    now: float

    def crashed(self, site: "Site") -> None:
        """The process is gone: its lines break."""


class Silent:
    """An advisory log that keeps nothing."""

    def consumer(self, op: str, key: Destination, cause: str) -> None: ...
    def advisories(self, peer: str, direction: str, advices: list[Any]) -> None: ...
    def link(self, op: str, peer: str, direction: str) -> None: ...
    def chain(self, chain: list[str]) -> None: ...


def _no_secret(name: str, dials: bool, shown: Shown, role: str) -> None:
    """Links here are proved with none."""


def _no_limit(child: str) -> None:
    """Nobody says how many routes a child may have."""


def no_role(child: str) -> str:
    """Nobody says what a child is."""
    return ""


@cache
def _mesh(others: tuple[str, ...], ways: tuple[str, ...]) -> MeshSettings:
    """Many sites have the same parents, and none beside them."""
    return MeshSettings(dict.fromkeys(others, ()), _MESH_SECRET, ways=ways)


class Site:
    """One machine. `parent`: the name that its file says, or several of one mesh with spaces between; change
    it and boot again to move the site.

    `mesh`: the other nodes of its mesh, `zone`: where it stands, as its file has them; `grant_of`: what it
    lets its children do, `role_of`: what they are, '' = not said.
    """

    def __init__(
        self,
        world: Surroundings,
        name: str,
        parent: str,
        role: str,
        settings: CoreSettings,
        links: LinkSettings,
        *,
        tree: str = "test",
        chronicle: AdvisoryRecorder | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        mesh: Sequence[str] = (),
        zone: str = "",
        grant_of: GrantOf = everything,
        role_of: Callable[[str], str] = no_role,
    ) -> None:
        self.world = world
        self.name = name
        self.parent = parent
        self.role = role
        self.settings = settings
        self.links = links
        self.tree = tree
        self.mesh = tuple(mesh)
        self.zone = zone
        self.grant_of = grant_of
        self.role_of = role_of
        self.chronicle: AdvisoryRecorder = chronicle or Silent()
        self.random_bytes = random_bytes
        self.disk = Disk(random_bytes(16))
        self.maybe_core: NodeCore | None = None
        self.turn: CommitBatch | None = None
        self.written = False
        self.errors: list[str] = []
        self._clock_base = 0.0

    def __repr__(self) -> str:
        return f"<Site {self.name} {'up' if self.running else 'down'} {self.disk}>"

    @property
    def core(self) -> NodeCore:
        assert self.maybe_core is not None, f"{self.name} does not run"
        return self.maybe_core

    @property
    def ways(self) -> tuple[str, ...]:
        """The parents that its file names."""
        return tuple(self.parent.split())

    @property
    def running(self) -> bool:
        return self.maybe_core is not None

    @property
    def now(self) -> float:
        """Running time: begins where the last start's ticks ended."""
        return self.world.now - self._clock_base

    def boot(self) -> NodeCore:
        """Start a core from what is on the disk."""
        assert not self.running
        ticks = next((int(row.value) for row in self.disk.rows(MetaRow) if row.name == "ticks"), 0)
        self._clock_base = self.world.now - ticks / 1000
        self.disk.start += 1
        identity = Identity(
            tree=self.tree,
            name=self.name,
            role=self.role,
            store_id=self.disk.store_id,
            start=self.disk.start,
            incarnation=self.random_bytes(16),
        )
        core = self.maybe_core = NodeCore(
            identity,
            self.settings,
            self.links,
            now=self.now,
            random_bytes=secrets.token_bytes,
            read_bodies=self.disk.bodies,
            read_copies=self.disk.read_copies,
            secret_of=_no_secret,
            chronicle=self.chronicle,
            zone=self.zone,
            mesh=_mesh(self.mesh, self.ways),
        )
        core.permits.configure(self.grant_of, _no_limit, self.role_of)
        core.start(self.disk)
        self.disk.routes.share(core.table.route)
        return core

    # --- turns

    def take(self) -> bool:
        """Begin a commit, if none is under way and there is something to commit."""
        if self.turn is not None or not self.running:
            return False
        self.core.advance(self.now)
        turn = self.core.take()
        if turn is None:
            return False
        self.turn, self.written = turn, False
        return True

    def write(self) -> bool:
        """The commit is on disk; the core does not know it yet."""
        if self.turn is None or self.written:
            return False
        self.disk.apply(self.turn.transaction)
        self.written = True
        return True

    def report(self) -> bool:
        """The core learns that its commit is on disk."""
        if self.turn is None or not self.written:
            return False
        turn, self.turn = self.turn, None
        self.core.advance(self.now)
        self.core.committed(turn)
        return True

    def run(self) -> bool:
        """One whole turn."""
        began = self.take()
        if self.turn is None:
            return False
        return self.write() | self.report() | began

    def soonest(self) -> float:
        """When `tick` has something to do, by the clock of its surroundings."""
        return self.core.next_deadline() + self._clock_base - 1e-6  # it may be rounded up

    def tick(self) -> bool:
        """Do what is due. Whether anything was."""
        self.core.advance(self.now)
        if self.core.next_deadline() > self.now:
            return False
        self.core.handle_timer()
        return True

    def stop(self) -> None:
        """It ends as it should: all that has come is on disk."""
        self.run()
        self.core.admission.end()
        self.run()
        self.crash()

    def crash(self) -> None:
        """The process is gone; what was not written is lost."""
        self.turn, self.maybe_core = None, None
        self.disk.routes.find = None
        self.world.crashed(self)

    # --- what a test asks

    def waiting(self) -> int:
        """Messages in custody, but for dead letters."""
        places = self.core.custody.queues.values()
        return sum(place.messages for place in places if place is not self.core.custody.dead)

    def dead(self) -> list[tuple[str, Message]]:
        """Dead letters with their reasons."""
        found = []
        for letter in self.core.custody.dead.waiting:
            body = self.core.custody.body(letter)
            messages = bundles.unpack(letter.stored.header, body)
            found += [
                (letter.note, message) for i, message in enumerate(messages) if not letter.done >> i & 1
            ]
        return found
