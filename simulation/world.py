"""A tree on a virtual clock: every node's core, the lines between them, and one heap of what is to happen.

Whatever happens to a machine is told to its core at once; then the machine is *stirred*: it takes a turn if
no commit is under way, says what it has to say, and sets its timer. A commit takes `commit_time`. All of it
is the production core; what is modelled here is the disk, the line, and the driver's short loop.

Surprises: a link's keep-alive would be most of what happens in a quiet day, so it is switched off, and a line
that is cut longer than keep-alive and patience allow ends at both ends when it would have. A node finds the
others at once that its file names, or that it has heard of: names are addresses here. A core at rest is
woken every `rest` seconds only, and one that keeps the same once a minute, where a real node looks after
things each second.

Law: everything random comes from one seed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from operator import attrgetter
from random import Random
from typing import Any, Final

from broker.core.policies.permits import GrantOf, everything
from broker.core.policy import Policy
from broker.core.settings import CoreSettings
from sapwood.protocol.destinations import parse
from sapwood.protocol.errors import Refusal
from simulation.advisory_log import NodeLog, Row
from simulation.deployment import Deployment
from simulation.lines import End, LineSettings
from simulation.machine import Machine, Speed
from simulation.site import Site, no_role
from treeconnector.link import LinkSettings
from treeconnector.relations import Relation

_NEVER: Final = 1e12
_ROUNDS: Final = 1000
_number: Final = attrgetter("number")
_AT_THE_BROKER: Final = "site-broker"


@dataclass(frozen=True, slots=True)
class WorldSettings:
    """Times in seconds. `start`: microseconds since 1970 at the world's time 0. `backoff_*`: of dialling."""

    tree: str = "acme"
    start: int = 1_767_225_600_000_000
    rest: float = 3600.0
    backoff_initial: float = 1.0
    backoff_max: float = 60.0
    core: CoreSettings = field(default=CoreSettings())
    links: LinkSettings = field(default=LinkSettings())


class _WhenMeshChanges(Policy):
    """Lets a machine seek whom it is to dial now."""

    def __init__(self, world: "World", machine: Machine) -> None:
        self._world, self._machine = world, machine

    def mesh_changed(self) -> None:
        self._world.seek(self._machine)


class World:
    """All machines of one tree, and the time, in seconds from 0. `happened`: events so far.

    `booted` hears of every start; `bytes`: on all lines.
    """

    def __init__(
        self, settings: WorldSettings, seed: int, sink: Callable[[Row], object] = lambda row: None
    ) -> None:
        self.settings = settings
        self.random = Random(seed)
        self.now = 0.0
        self.happened = 0
        self.machines: dict[str, Machine] = {}
        self.booted: Callable[[Machine], object] = lambda machine: None
        self.bytes = 0
        self._sink = sink
        self._heap: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._numbers = count()
        self._cuts: dict[frozenset[str], float] = {}
        self._links = replace(settings.links, keep_alive=_NEVER)
        self._clock, self._random_bytes = self.clock, self.random.randbytes  # one of each for all machines

    def __repr__(self) -> str:
        return f"<World machines={len(self.machines)} now={self.now:.3f} to happen={len(self._heap)}>"

    def __getitem__(self, name: str) -> Machine:
        return self.machines[name]

    # --- time

    def at(self, time: float, call: Callable[..., object], *arguments: Any) -> None:
        """Let something happen at a time, or now if that is over."""
        heappush(self._heap, (max(time, self.now), next(self._numbers), call, arguments))

    def run(self, until: float) -> None:
        """Let everything happen up to `until`."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, call, arguments = heappop(heap)
            self.happened += 1
            call(*arguments)
        self.now = until

    def clock(self) -> int:
        """The wall clock of all machines: microseconds since 1970."""
        return self.settings.start + int(self.now * 1_000_000)

    # --- machines

    def add(
        self,
        name: str,
        parent: str,
        role: str,
        line: LineSettings,
        mesh: Sequence[str] = (),
        grant_of: GrantOf = everything,
        role_of: Callable[[str], str] = no_role,
    ) -> Machine:
        """A machine that is switched off. `parent`, `mesh`, `grant_of`, `role_of`: as of `Site`."""
        settings = self.settings
        log = NodeLog(self._sink, self._clock, settings.tree, name, role)
        made = self.machines[name] = Machine(
            self,
            name,
            parent,
            role,
            settings.core,
            self._links,
            line,
            tree=settings.tree,
            chronicle=log,
            random_bytes=self._random_bytes,
            mesh=mesh,
            grant_of=grant_of,
            role_of=role_of,
        )
        return made

    def boot(self, machine: Machine) -> None:
        if machine.running:
            return
        core = machine.boot()
        core.policies.add((_WhenMeshChanges(self, machine),))
        self._log(machine).started()
        self.stir(machine)
        self.booted(machine)
        self._seek(machine, core)

    @staticmethod
    def _log(machine: Machine) -> NodeLog:
        assert isinstance(machine.chronicle, NodeLog)
        return machine.chronicle

    def crash(self, machine: Machine, seconds: float) -> None:
        """Kill its node; the machine starts it again after `seconds`."""
        if machine.running:
            machine.crash()
            self.at(self.now + seconds, self.boot, machine)

    def crashed(self, site: Site) -> None:
        """The operating system closes the lines of a killed process."""
        machine = self.machines[site.name]
        ends, machine.ends, machine.dialled = list(machine.ends.values()), {}, {}
        for end in ends:
            self._close_peer(end)
        if machine.application is not None:
            machine.application.gone()

    def interest(self, machine: Machine, op: str, destination: str) -> None:
        """A consumer at the site's broker comes ('add') or goes ('remove'). The caller stirs the machine."""
        if machine.running:
            core = machine.core
            core.advance(machine.now)
            core.switch.interest.changed(op, parse(destination), _AT_THE_BROKER)

    # --- turns

    def stir(self, machine: Machine) -> None:
        """Something was told to its core: commit it, say what there is to say, and see when to wake it."""
        if not machine.running:
            return
        for _ in range(_ROUNDS):
            if machine.application is not None:
                machine.application.act()
            if machine.turn is not None:
                machine.was_told = True
                break
            machine.was_told = False
            if not machine.take():
                break
            turn = machine.turn
            assert turn is not None
            if turn.transaction:
                self.at(self.now + machine.speed.commit, self._commit, machine, machine.core)
                break
            machine.write()
            machine.report()
        self._flush(machine)

    def _commit(self, machine: Machine, core: object) -> None:
        if machine.maybe_core is not core:
            return
        turn = machine.turn
        machine.write()
        machine.report()
        if turn or machine.was_told:
            self.stir(machine)

    def _flush(self, machine: Machine) -> None:
        core = machine.core
        if core.links.talking:
            talking = [end for link in core.links.talking if (end := machine.ends.get(link)) is not None]
            core.links.talking.clear()
            for end in sorted(talking, key=_number):
                self._pull(end)
        if core.links.closing:
            closing, core.links.closing = core.links.closing, []
            for link in closing:
                closed = machine.ends.pop(link, None)
                if closed is not None:
                    self._closed(closed)
        self._set_timer(machine)

    def _set_timer(self, machine: Machine) -> None:
        due = machine.deadline()
        if machine.wakes_at <= self.now or due < machine.wakes_at - 0.001:
            machine.wakes_at = due
            self.at(due, self._wake, machine, machine.core, due)

    def _wake(self, machine: Machine, core: object, due: float) -> None:
        if machine.maybe_core is core and machine.wakes_at == due:
            machine.look_after(self.settings.rest)
            self.stir(machine)

    # --- lines

    def seek(self, machine: Machine) -> None:
        """Its mesh is another one: it looks whom it is to dial, once this moment is over."""
        self.at(self.now, self._seek, machine, machine.core)

    def _seek(self, machine: Machine, core: object) -> None:
        """Begin to dial whom it does not dial yet."""
        if machine.maybe_core is core:
            for name in machine.to_dial():
                if name in self.machines and name not in machine.dialled:
                    machine.dialled[name] = None
                    self._dial(machine, core, name)

    def _dial(self, machine: Machine, core: object, name: str) -> None:
        """Try to connect a machine with another, now and, with growing pauses, until it works."""
        if machine.maybe_core is not core or machine.dialled[name] is not None:
            return
        relation = machine.to_dial().get(name)
        if relation is None:
            del machine.dialled[name]
            return
        other = self.machines[name]
        if not other.running or self._cut_until(machine, other, relation) > self.now:
            self._dial_later(machine, name, self._failed(machine, name))
        elif machine.is_linked_with(name):
            self._dial_later(machine, name, self.settings.backoff_max)
        else:
            lower, upper = machine.join(other, relation, next(self._numbers))
            machine.ends[lower.link] = machine.dialled[name] = lower
            other.ends[upper.link] = upper
            self._pull(lower)
            self._set_timer(machine)

    def _failed(self, machine: Machine, name: str) -> float:
        """Seconds until it tries again; each failure makes the pause longer."""
        settings, failures = self.settings, machine.failures.get(name, 0)
        machine.failures[name] = min(failures + 1, 16)
        pause = min(settings.backoff_initial * 2.0**failures, settings.backoff_max)
        return pause + self.random.uniform(0, settings.backoff_initial)

    def _dial_later(self, machine: Machine, name: str, pause: float) -> None:
        self.at(self.now + pause, self._dial, machine, machine.core, name)

    def _pull(self, end: End[Machine]) -> None:
        """Give the line what it takes; if it is full, go on when it has room."""
        while (room := end.room(self.now)) > 0:
            packets = end.link.data_to_send(room)
            if not packets:
                return
            before = end.bytes
            at = end.sent(packets, self.now, self.random)
            self.bytes += end.bytes - before
            self.at(at, self._arrive, end, packets)
        if not end.pulls and end.link.buffered_bytes:
            end.pulls = True
            self.at(end.free_at, self._drained, end)

    def _drained(self, end: End[Machine]) -> None:
        end.pulls = False
        self._pull(end)

    def _arrive(self, end: End[Machine], packets: list[bytes], *, read: bool = False) -> None:
        """What `end` has sent is at its peer, unless the line is cut: then it comes when that is over.

        `read`: its peer's processor has done with it. Until then it waits behind what came before.
        """
        peer = end.peer
        machine = peer.machine
        if peer.link not in machine.ends:
            return
        wait = self.now + peer.link.throttled_until - machine.now
        if not read:
            wait = max(self._cut_off(end), wait)
        if wait > self.now:
            self.at(wait + end.line.latency, self._arrive, end, packets)
            return
        if machine.speed.packet and not read:
            self.at(machine.done_by(len(packets)), self._read, end, packets)
            return
        core = machine.core
        core.advance(machine.now)
        for packet in packets:
            if peer.link not in core.links.peers:
                break
            core.receive(peer.link, packet)
        self.stir(machine)

    def _read(self, end: End[Machine], packets: list[bytes]) -> None:
        self._arrive(end, packets, read=True)

    def _cut_off(self, end: End[Machine]) -> float:
        """Until when the line of this end is cut, if it is."""
        relation = Relation.PARENT if end.goes_up else Relation.MESH
        dialler = end.dialler
        other = end.peer.machine if dialler is end.machine else end.machine
        return self._cut_until(dialler, other, relation)

    def _cut_until(self, dialler: Machine, other: Machine, relation: Relation) -> float:
        until = dialler.cut_until if relation is Relation.PARENT else 0.0
        return max(until, self._cuts.get(frozenset((dialler.name, other.name)), 0.0)) if self._cuts else until

    def cut(self, machine: Machine, seconds: float) -> None:
        """Its lines to the parents, or a root's to the others of its mesh, are cut for `seconds`.

        Who misses the other for too long hangs up.
        """
        for name in () if machine.ways else machine.mesh:
            self.sever(machine, self.machines[name], seconds)
        machine.cut_until = max(machine.cut_until, self.now + seconds)
        for end in machine.dialled.values():
            if end is not None and end.goes_up:
                self._lose_patience(end, seconds)

    def sever(self, one: Machine, other: Machine, seconds: float) -> None:
        """The line between two machines alone is cut for `seconds`."""
        pair = frozenset((one.name, other.name))
        self._cuts[pair] = max(self._cuts.get(pair, 0.0), self.now + seconds)
        for end in (one.dialled.get(other.name), other.dialled.get(one.name)):
            if end is not None:
                self._lose_patience(end, seconds)

    def _lose_patience(self, lower: End[Machine], seconds: float) -> None:
        links = self.settings.links
        for end in (lower, lower.peer):
            patience = links.dead_after + self.random.uniform(0, links.keep_alive)
            if patience < seconds:
                self.at(self.now + patience, self._lost, end, "the peer was silent for too long")

    def _closed(self, end: End[Machine]) -> None:
        """A link is over at this end: last words, then the peer learns of it; the child dials again."""
        machine = end.machine
        packets = end.link.data_to_send()
        if packets:
            self.at(end.sent(packets, self.now, self.random), self._arrive, end, packets)
        self._close_peer(end)
        name = end.peer.machine.name
        if machine.dialled.get(name) is end:
            machine.dialled[name] = None
            if end.link.refusal in (None, Refusal.BUSY):
                machine.failures.pop(name, None)
                pause = self.random.uniform(0, self.settings.backoff_initial)
            else:
                pause = self._failed(machine, name)
            self._dial_later(machine, name, pause)

    def _close_peer(self, end: End[Machine]) -> None:
        at = max(end.arrives_at, self.now + end.line.latency)
        self.at(at, self._lost_unless_cut, end.peer, "the line was closed")

    def _lost_unless_cut(self, end: End[Machine], text: str) -> None:
        """Word of the end comes over the line, if that is not cut: then when it is whole again. All that came
        before is read first."""
        until = self._cut_off(end)
        if until > self.now:
            self.at(until + end.line.latency, self._lost_unless_cut, end, text)
        elif (until := end.machine.busy_until) > self.now:
            self.at(until, self._lost_unless_cut, end, text)
        else:
            self._lost(end, text)

    def _lost(self, end: End[Machine], text: str) -> None:
        machine = end.machine
        if end.link in machine.ends:
            core = machine.core
            core.advance(machine.now)
            core.lost(end.link, text)
            self.stir(machine)

    # --- what is asked

    def neighbours(self, machine: Machine) -> list[Machine]:
        """Whom it is to be linked with when all is well: all nodes above, and the others of its mesh."""
        above = [self.machines[name] for name in machine.ways]
        names = [*(name for each in above for name in (each.name, *each.mesh)), *machine.mesh]
        return [self.machines[name] for name in dict.fromkeys(names)]

    def is_linked(self, machine: Machine) -> bool:
        """Does it run, with its links to all nodes above and beside it?"""
        names = (each.name for each in self.neighbours(machine))
        return machine.running and all(map(machine.is_linked_with, names))

    @property
    def all_up(self) -> bool:
        """Does every node run, with its links?"""
        return all(map(self.is_linked, self.machines.values()))


def populate(
    world: World,
    deployment: Deployment,
    line: Callable[[str], LineSettings],
    speed: Callable[[str], Speed] = lambda role: Speed(),
) -> None:
    """Put every node of a deployment in a world, switched off. `line`, `speed`: for a role."""
    meshes, rules = deployment.meshes(), deployment.rules()
    for place in deployment.places:
        beside = [name for name in meshes.get(place.mesh, ()) if name != place.name]
        own = rules[place.name]
        machine = world.add(
            place.name, place.parent, place.role, line(place.role), beside, own.of, own.role_of
        )
        machine.speed = speed(place.role)
