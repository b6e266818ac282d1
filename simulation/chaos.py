"""Random histories of a tree, and the account that must hold at their end.

`Chaos(seed)` builds a tree, lets anything happen to it in small steps (turns cut into take, write and
report; packets one by one; crashes between any two of them), heals it and checks: every confirmed message
was delivered or is a dead letter that says why; a second delivery is flagged, whatever crashed; messages
of one producer come in order where nothing broke it; and every node's routes are those that follow from who
reads what (`simulation.invariants`).

What happens is chosen as things stand, and recorded as an `Action` that says everything: so a part of a
history can be replayed, and `simulation.shrinking` finds the shortest that still goes wrong.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from broker.core.settings import CoreSettings
from simulation.account import EVERYWHERE, HistoryAccount
from simulation.actions import Action
from simulation.clients import SimulatedConsumer
from simulation.disk import Disk
from simulation.forest import QUICK, Forest
from simulation.invariants import check_interest, check_routes

Tree = list[tuple[str, ...]]
"""Name, parent and role of each site, and the others of its mesh."""

TREE: Tree = [
    ("hq", "", "root"),
    ("r1", "hq", "branch"),
    ("r2", "hq", "branch"),
    ("s1", "r1", "leaf"),
    ("s2", "r1", "leaf"),
    ("s3", "r2", "leaf"),
]

MESH: Tree = [
    ("hq", "", "root", "hq2", "hq3"),
    ("hq2", "", "root", "hq", "hq3"),
    ("hq3", "", "root", "hq", "hq2"),
    *TREE[1:],
]
"""The same with three roots."""

SUBTREE_AND_ABOVE = {"hq": {"hq", "s2", "s3"}, "r1": {"hq", "s2"}, "s1": {"hq"}, "s3": {"hq", "s3"}}
"""Which sites of the topic's three subscribers a message reaches, by where it enters."""


class Chaos:
    """One history. `kinds`: which of the rarer things may happen: 'crash', 'stop' (as it should), 'move',
    'restore', 'replace', and 'split', where two sites cannot reach each other for a while.

    `linger`: seconds for which a route that has gone is offered still. `caches`: how many copies may be in
    memory, one of these; with 64 one or two of each place.
    """

    forest_type: ClassVar[type[Forest]] = Forest
    settings = replace(QUICK, max_deliveries=1000)
    caches: tuple[int, ...] = (CoreSettings().cache_copies, 64, 64, 256)
    destinations: tuple[str, ...] = (
        "queue:one",
        "queue:two",
        "queue:up",
        "queue:shared",
        "queue:cell@s2",
        "topic:t/a",
    )

    def __init__(
        self, seed: int, kinds: frozenset[str], steps: int = 300, linger: float = 0.0, tree: Tree = TREE
    ) -> None:
        self.random = random.Random(seed)
        self.kinds = kinds
        self.steps = steps
        cache = random.Random(~seed).choice(self.caches)
        self.forest = self.forest_type(replace(self.settings, linger=linger, cache_copies=cache))
        self.history: list[Action] = []
        for name, parent, role, *mesh in tree:
            self.forest.add(name, parent, role, mesh=mesh)
        self.forest.heal(1.0 if tree is TREE else 5.0)
        self.producers = [self.forest.producer(name, f"p-{name}") for name in ("hq", "r1", "s1", "s3")]
        self.consumers = self._consumers()
        self.numbers = 0
        self.reached: dict[bytes, set[str]] = {}
        self.backups: dict[str, Disk] = {}
        self.lossy: set[str] = set()
        self.lost_before = 0
        self.moved: dict[str, int] = {}
        self.forest.settle(2.0)

    def _consumers(self) -> list[SimulatedConsumer]:
        return [
            self._consumer("s1", "queue:one"),
            self._consumer("s3", "queue:two"),
            self._consumer("hq", "queue:up"),
            self._consumer("r1", "queue:shared"),
            self._consumer("s3", "queue:shared"),
            self._consumer("s2", "topic:t/#", durable="d"),
            self._consumer("s3", "topic:t/+", durable="d"),
            self._consumer("hq", "topic:t/#", durable="d"),
            self._consumer("s2", "queue:cell"),
        ]

    def _consumer(self, site: str, destination: str, durable: str = "") -> SimulatedConsumer:
        name = f"c-{site}-{destination}"
        return self.forest.consumer(site, destination, name, auto=False, durable=durable, credit=7)

    # --- what may happen

    def run(self) -> None:
        """Let `steps` things happen; raise `AssertionError` if the account does not add up."""
        for _ in range(self.steps):
            self.step()
        self.finish()

    def replay(self, history: Iterable[Action]) -> None:
        """The same for a history that was recorded; what has become impossible in it is left out."""
        for action in history:
            self._do(action)
        self.finish()

    def step(self) -> None:
        weights, choosers = zip(*self._choices(), strict=True)
        action = self.random.choices(choosers, weights)[0]()
        if action is None:
            self.forest.reap()
        else:
            self._do(action)

    def _do(self, action: Action) -> None:
        self.history.append(action)
        self.actions[action.what](self, *action.arguments)
        self.forest.reap()

    def _choices(self) -> list[tuple[int, Callable[[], Action | None]]]:
        """What may happen now, with how likely it is."""
        choices: list[tuple[int, Callable[[], Action | None]]] = [
            (30, self._choose_turn),
            (30, self._choose_packets),
            (12, self._choose_send),
            (12, self._choose_acknowledge),
            (6, lambda: Action("everything")),
            (5, self._choose_client),
            (4, lambda: Action("dial")),
            (3, self._choose_cut),
            (4, lambda: Action("time", (self.random.choice([0.01, 0.1, 0.5, 2.0]),))),
        ]
        if "crash" in self.kinds:
            choices += [(4, self._choose_crash), (6, self._choose_boot)]
        if "stop" in self.kinds:
            choices += [(3, self._choose_stop)]
        if "move" in self.kinds:
            choices += [(1, self._choose_move)]
        if "restore" in self.kinds:
            choices += [(2, lambda: Action("backup", (self._site(),))), (1, self._choose_restore)]
        if "replace" in self.kinds:
            choices += [(1, lambda: Action("replace", (self._site(),)))]
        if "split" in self.kinds:
            choices += [(2, self._choose_split), (2, lambda: Action("join"))]
        return choices

    # --- choosing, as things stand

    def _site(self) -> str:
        return self.random.choice(list(self.forest.sites))

    def _choose_turn(self) -> Action:
        return Action("turn", (self._site(), self.random.choice(["take", "write", "report", "run"])))

    def _choose_packets(self) -> Action | None:
        if not self.forest.wires:
            return None
        wire = self.random.choice(self.forest.wires)
        budget = self.random.choice([1, 100, 1 << 18])
        side = self.random.choice(range(2))
        count = self.random.choice([1, 2, 1 << 30])
        return Action("packets", (wire.child.name, wire.parent.name, budget, side, count))

    def _choose_send(self) -> Action:
        producer = self.random.choice(range(len(self.producers)))
        destination = self.random.choice(self.destinations)
        count = self.random.choice([1, 2, 5, 20])
        first = self.numbers + 1
        self.numbers += count
        return Action("send", (producer, destination, first, count, self.random.choice([0, 1])))

    def _choose_acknowledge(self) -> Action | None:
        place = self.random.choice(range(len(self.consumers)))
        consumer = self.consumers[place]
        if not consumer.open or consumer.connection is None:
            return None
        return Action("acknowledge", (place, self.random.randint(1, len(consumer.open))))

    def _choose_client(self) -> Action:
        return Action("client", (self.random.choice(range(len(self.consumers) + len(self.producers))),))

    def _choose_cut(self) -> Action | None:
        if not self.forest.wires:
            return None
        wire = self.random.choice(self.forest.wires)
        lost = self.random.choice([["up"], ["down"], ["up", "down"], []])
        return Action("cut", (wire.child.name, wire.parent.name, *lost))

    def _choose_split(self) -> Action | None:
        if not self.forest.wires:
            return None
        wire = self.random.choice(self.forest.wires)
        return Action("split", (wire.child.name, wire.parent.name))

    def _choose_crash(self) -> Action | None:
        name = self._site()
        return Action("crash", (name,)) if self.forest[name].running else None

    def _choose_stop(self) -> Action | None:
        name = self._site()
        return Action("stop", (name,)) if self.forest[name].running else None

    def _choose_boot(self) -> Action | None:
        name = self._site()
        return None if self.forest[name].running else Action("boot", (name,))

    def _choose_move(self) -> Action:
        return Action(
            "move", (self.random.choice(["s1", "s2", "s3"]), self.random.choice(["r1", "r2", "hq"]))
        )

    def _choose_restore(self) -> Action | None:
        """Put a backup back; of one site only: two that go back to one moment agree with each other."""
        name = self._site()
        return Action("restore", (name,)) if name in self.backups and self.lossy <= {name} else None

    # --- doing, if it is possible

    def _turn(self, name: str, what: str) -> None:
        site = self.forest[name]
        match what:
            case "take":
                site.take()
            case "write":
                site.write()
            case "report":
                site.report()
            case _:
                site.run()

    def _packets(self, child: str, parent: str, budget: int, side: int, count: int) -> None:
        wire = self.forest.wire_of(child, parent)
        if wire is not None:
            wire.pull(budget)
            _, target, way = wire.sides()[side]
            wire.deliver(way, target, count)

    def _send(
        self, place: int, destination: str, first: int, count: int, scope: int, expires_in: int = 0
    ) -> None:
        producer = self.producers[place]
        self.numbers = max(self.numbers, first + count - 1)
        numbers = range(first, first + count)
        payloads = [f"{producer.name} {destination} {number:06}".encode() for number in numbers]
        if destination.startswith("topic:"):
            reached = self._reaches(producer.site.name, destination, scope)
            self.reached.update(dict.fromkeys(payloads, reached))
        producer.send(destination, *payloads, scope=scope, expires_in=expires_in)

    def _reaches(self, entry: str, destination: str, scope: int) -> set[str]:
        """The sites of durable subscribers that a topic's message is for."""
        return EVERYWHERE if scope else SUBTREE_AND_ABOVE[entry]

    def _acknowledge(self, place: int, count: int) -> None:
        self.consumers[place].acknowledge(count)

    def _everything(self) -> None:
        self.forest.step()

    def _client(self, place: int) -> None:
        """A client comes, or goes."""
        client = [*self.consumers, *self.producers][place]
        if client.connection is None:
            client.connect()
        else:
            client.disconnect()

    def _dial(self) -> None:
        self.forest.dial_all()

    def _cut(self, child: str, parent: str, *lost: str) -> None:
        wire = self.forest.wire_of(child, parent)
        if wire is not None:
            self.forest.cut(wire, lost)

    def _split(self, child: str, parent: str) -> None:
        self._cut(child, parent)
        self.forest.cut_off.append({child, parent})

    def _join(self) -> None:
        self.forest.cut_off.clear()

    def _time(self, seconds: float) -> None:
        self.forest.pass_time(seconds)

    def _crash(self, name: str) -> None:
        if self.forest[name].running:
            self.forest[name].crash()

    def _stop(self, name: str) -> None:
        if self.forest[name].running:
            self.forest[name].stop()

    def _boot(self, name: str) -> None:
        if not self.forest[name].running:
            self.forest[name].boot()

    def _move(self, name: str, parent: str) -> None:
        self._crash(name)
        self.forest[name].parent = parent
        self.moved[name] = self.numbers

    def _backup(self, name: str) -> None:
        self.backups[name] = self.forest[name].disk.backup()

    def _restore(self, name: str) -> None:
        if name in self.backups and self.lossy <= {name}:
            self._crash(name)
            self.forest[name].disk = self.backups.pop(name)
            self._lose(name)

    def _replace(self, name: str) -> None:
        self._crash(name)
        self.forest[name].disk = Disk()
        self._lose(name)

    def _lose(self, name: str) -> None:
        """State of a site is gone: what was sent before may be."""
        self.lossy.add(name)
        self.lost_before = self.numbers

    # --- the account

    def finish(self) -> None:
        for site in self.forest.sites.values():
            if not site.running:
                site.boot()
        for client in [*self.consumers, *self.producers]:
            client.connect()
        for consumer in self.consumers:
            consumer.auto = True
        self._join()
        self._settle()
        HistoryAccount(
            forest=self.forest,
            kinds=self.kinds,
            consumers=self.consumers,
            producers=self.producers,
            reached=self.reached,
            lossy=self.lossy,
            lost_before=self.lost_before,
            moved=self.moved,
        ).check()
        sites = list(self.forest.sites.values())
        check_routes(sites)
        check_interest(sites)

    def _settle(self) -> None:
        self.forest.heal(90.0)

    actions: ClassVar[dict[str, Callable[..., None]]] = {
        "turn": _turn,
        "packets": _packets,
        "send": _send,
        "acknowledge": _acknowledge,
        "everything": _everything,
        "client": _client,
        "dial": _dial,
        "cut": _cut,
        "split": _split,
        "join": _join,
        "time": _time,
        "crash": _crash,
        "stop": _stop,
        "boot": _boot,
        "move": _move,
        "backup": _backup,
        "restore": _restore,
        "replace": _replace,
    }
