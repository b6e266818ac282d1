"""Random weather over a small tree on a virtual clock, and what must hold once it is over.

`Weather(seed)` makes a tree of random shape with slow and lossy lines, lets consumers come and go and
messages be sent while lines are cut and nodes killed, waits until all is quiet, and checks: every node's
routes are those that follow from who reads what (`simulation.invariants`); no advisory ever reached a node
that is neither above nor below the consumer, nor came back to the consumer's own; every confirmed message was
delivered, but for those that expired, none of which was delivered long after, as far as nodes ran (a node's
time stands still while it does not); and nothing waits anywhere.

With `MESHES` for shapes the root, or each region, is a mesh, and single lines are cut as well: between two
nodes of a mesh, and between a child and one of the nodes above it.
"""

from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any, Final

from broker.core.settings import CoreSettings
from sapwood.protocol.destinations import Destination, Kind, parse
from sapwood.protocol.names import LOCAL
from simulation.actions import Action
from simulation.advisory_log import Row
from simulation.applications import Application
from simulation.deployment import Deployment, generated
from simulation.invariants import check_routes
from simulation.lines import LineSettings
from simulation.machine import Machine
from simulation.world import World, WorldSettings, populate
from treeconnector.link import LinkSettings

_SHAPES: Final = ((6, 2, 0, 2), (12, 4, 0, 2), (8, 2, 2, 3), (3, 0, 0, 1))
"""Deployments, as arguments of `generated`."""
MESHES: Final = ((6, 2, 0, 2, 3), (4, 2, 0, 2, 2, 2), (4, 2, 2, 3, 1, 2), (3, 0, 0, 1, 2), (4, 2, 0, 2, 1, 3))
"""Deployments with meshes, as arguments of `generated`."""
_DESTINATIONS: Final = ("queue:shared", "topic:prices/#", "topic:news")
_EXPIRING: Final = "queue:soon"
_QUEUES: Final = ("queue:till", "queue:office", _EXPIRING)
_SINGLE: Final = 0.6
_SOON: Final = 30.0
_UNDER_WAY: Final = 30.0
_FORGOTTEN: Final = 15.0
_STORM: Final = 600.0
_CALM: Final = 900.0


class Weather:
    """One history. `steps`: so many things happen in ten minutes."""

    def __init__(self, seed: int, steps: int = 120, shapes: Sequence[tuple[int, ...]] = _SHAPES) -> None:
        self.random = Random(seed)
        self.steps = steps
        self.history: list[Action] = []
        self.rows: list[Row] = []
        self._deployment = generated(*self.random.choice(shapes))
        core = CoreSettings(
            linger=self.random.choice([0.0, 10.0]),
            advise_down=self.random.choice(["all", "all", "topics", "none"]),
            dormant_after=self.random.choice([5.0, 30.0]),
            reattach_time=20.0,
        )
        settings = WorldSettings(core=core, links=LinkSettings(keep_alive=10.0, dead_after=2.0), rest=5.0)
        self.world = World(settings, seed, self.rows.append)
        self._wanted: dict[str, set[str]] = {}
        self._serials = count()
        self._read: dict[str, set[str]] = {}
        self._confirmed: dict[int, str] = {}
        self._ages: dict[int, float] = {}
        self._crashes: list[tuple[float, float]] = []
        self._build()

    def __repr__(self) -> str:
        return f"<Weather over {self.world!r}>"

    def _build(self) -> None:
        populate(self.world, self._deployment, self._line)
        self.world.booted = self._booted
        for machine in self.world.machines.values():
            machine.application = Application(machine, self._serials, self._given, self._confirm)
        readers = self.random.choices(list(self.world.machines.values()), k=len(_QUEUES))
        for machine, queue in zip(readers, _QUEUES, strict=True):
            assert machine.application is not None
            machine.application.read(parse(queue))
            self._read.setdefault(machine.name, set()).add(queue)
        for machine in self.world.machines.values():
            self.world.boot(machine)
        self.world.run(_CALM)

    def _line(self, _role: str) -> LineSettings:
        return LineSettings(
            latency=self.random.choice([0.005, 0.05, 0.4]),
            bandwidth=self.random.choice([0, 0, 2000]),
            loss=self.random.choice([0.0, 0.05]),
        )

    def _booted(self, machine: Machine) -> None:
        """What is wanted at its site's broker is said again."""
        for destination in sorted(self._wanted.get(machine.name, ())):
            self.world.interest(machine, "add", destination)
        assert machine.application is not None
        machine.application.connect()
        self.world.stir(machine)

    # --- the history

    def run(self) -> None:
        """Choose a history and live through it. Raises `AssertionError` if something is wrong at its end."""
        self.replay([self._choose(self.world.now) for _ in range(self.steps)])

    def _choose(self, start: float) -> Action:
        at = round(start + self.random.uniform(0, _STORM), 3)
        name = self.random.choice(list(self.world.machines))
        seconds = round(self.random.choice([0.1, 1.0, 10.0, 60.0]) * self.random.random(), 3)
        what = self.random.choices(["add", "remove", "send", "cut", "crash"], [5, 3, 4, 2, 1])[0]
        if what == "send":
            return Action(what, (at, name, self.random.choice(_QUEUES), self.random.choice([1, 5, 100])))
        if what == "cut" and self._deployment.meshes() and self.random.random() < _SINGLE:
            others = self.world.neighbours(self.world[name])
            if others:
                return Action("sever", (at, name, self.random.choice(others).name, seconds))
        if what in ("add", "remove"):
            own = f"queue:{name}-{self.random.randint(1, 3)}"
            return Action(what, (at, name, self.random.choice([own, *_DESTINATIONS])))
        return Action(what, (at, name, seconds))

    def replay(self, history: list[Action]) -> None:
        """Live through a history that was chosen before."""
        self.history = list(history)
        for action in history:
            at, *rest = action.arguments
            self.world.at(at, _ACTIONS[action.what], self, *rest)
        self.world.run(self.world.now + _STORM + _CALM)
        self.finish()

    def _add(self, name: str, destination: str) -> None:
        self._change(name, "add", destination)

    def _remove(self, name: str, destination: str) -> None:
        self._change(name, "remove", destination)

    def _change(self, name: str, op: str, destination: str) -> None:
        wanted = self._wanted.setdefault(name, set())
        if (op == "add") == (destination in wanted):
            return
        (wanted.add if op == "add" else wanted.discard)(destination)
        machine = self.world[name]
        self.world.interest(machine, op, destination)
        self.world.stir(machine)

    def _send(self, name: str, queue: str, count: int) -> None:
        machine = self.world[name]
        assert machine.application is not None
        machine.application.send(parse(queue), count, 100, _SOON if queue == _EXPIRING else 0.0)
        self.world.stir(machine)

    def _confirm(self, destination: Destination, numbers: range) -> None:
        self._confirmed.update(dict.fromkeys(numbers, str(destination)))

    def _given(self, destination: Destination, number: int, seconds: float) -> None:
        self._ages[number] = self._ran(seconds) if str(destination) == _EXPIRING else 0.0

    def _ran(self, seconds: float) -> float:
        """The latest so many seconds, but for those in which a node was not there, or which it forgot."""
        sent = self.world.now - seconds
        return seconds - sum(until - max(at, sent) for at, until in self._crashes if until > sent)

    def _cut(self, name: str, seconds: float) -> None:
        self.world.cut(self.world[name], seconds)

    def _sever(self, one: str, other: str, seconds: float) -> None:
        self.world.sever(self.world[one], self.world[other], seconds)

    def _crash(self, name: str, seconds: float) -> None:
        self._crashes.append((self.world.now - _FORGOTTEN, self.world.now + seconds))
        self.world.crash(self.world[name], seconds)

    # --- the account

    def finish(self) -> None:
        machines = list(self.world.machines.values())
        down = [machine.name for machine in machines if not self.world.is_linked(machine)]
        assert not down, f"{', '.join(down)}: no link in calm weather"
        for machine in machines:
            wanted = {str(key) for key in machine.core.table.routes_of(LOCAL) if key.kind != Kind.DOMAIN}
            expected = self._wanted.get(machine.name, set()) | self._read.get(machine.name, set())
            assert wanted == expected, f"{machine.name} has forgotten who reads"
            assert not machine.kept_bytes, f"{machine.name} keeps {machine.kept_bytes} bytes in calm weather"
        self._check_messages()
        check_routes(machines)
        check_spillage(self.rows, self._deployment)

    def _check_messages(self) -> None:
        for number, queue in self._confirmed.items():
            assert queue == _EXPIRING or number in self._ages, f"message {number} to {queue} never came"
        oldest = max(self._ages.values(), default=0.0)
        assert oldest < _SOON + _UNDER_WAY, f"what expires after {_SOON:g} s came after {oldest:g} s"
        reasons = {reason for machine in self.world.machines.values() for reason, _ in machine.dead()}
        assert reasons <= {"EXPIRED"}, f"dead letters in calm weather: {sorted(reasons)}"


def check_spillage(rows: list[Row], deployment: Deployment) -> None:
    """Raise `AssertionError` for the first advisory that reached a node that can never use it."""
    meshes = deployment.meshes()
    above: dict[str, frozenset[str]] = {}
    for place in deployment.places:
        kin = frozenset(meshes.get(place.mesh, (place.name,)))
        above[place.name] = kin.union(*(above[parent] for parent in place.parents))
    for row in rows:
        if row.event != "advisory" or row.origin is None:
            continue
        related = row.node in above[row.origin] or row.origin in above[row.node]
        said = f"{row.node} was told by {row.peer} of {row.kind}:{row.destination} at {row.origin}"
        assert related, f"{said}, which is neither above it nor below ({row.op}, cause {row.cause})"
        assert row.node != row.origin, f"{said}, its own consumer ({row.op}, cause {row.cause})"


_ACTIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": Weather._add,
    "remove": Weather._remove,
    "send": Weather._send,
    "cut": Weather._cut,
    "sever": Weather._sever,
    "crash": Weather._crash,
}
