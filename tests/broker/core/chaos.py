"""Random histories of a tree, and the account that must hold at their end.

`Chaos(seed)` builds a tree, lets anything happen to it in small steps (turns cut into take, write and
report; packets one by one; crashes between any two of them), heals it and checks: every confirmed message
was delivered or is a dead letter that says why; a second delivery is flagged, or its node crashed before
the acknowledgement was on disk; messages of one producer come in order where nothing broke it.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from forest import QUICK, Consumer, Forest, Receipt, Site

from treeconnector.bundles import Flag

TREE = [
    ("hq", "", "root"),
    ("r1", "hq", "branch"),
    ("r2", "hq", "branch"),
    ("s1", "r1", "leaf"),
    ("s2", "r1", "leaf"),
    ("s3", "r2", "leaf"),
]

EVERYWHERE = {"hq", "s2", "s3"}
SUBTREE_AND_ABOVE = {"hq": {"hq", "s2", "s3"}, "r1": {"hq", "s2"}, "s1": {"hq"}, "s3": {"hq", "s3"}}
"""Which sites of the topic's three subscribers a message reaches, by where it enters."""


class Chaos:
    """One history. `kinds`: which of the rarer things may happen: 'crash', 'move', 'restore', 'replace'.

    `linger`: seconds for which a route that has gone is offered still.
    """

    def __init__(self, seed: int, kinds: frozenset[str], steps: int = 300, linger: float = 0.0) -> None:
        self.random = random.Random(seed)
        self.kinds = kinds
        self.steps = steps
        self.forest = Forest(replace(QUICK, max_deliveries=1000, linger=linger))
        self.trace: list[str] = []
        for name, parent, role in TREE:
            self.forest.add(name, parent, role)
        self.forest.heal(1.0)
        self.producers = [self.forest.producer(name, f"p-{name}") for name in ("hq", "r1", "s1", "s3")]
        self.consumers = [
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
        self.destinations = [
            "queue:one",
            "queue:two",
            "queue:up",
            "queue:shared",
            "queue:cell@s2",
            "topic:t/a",
        ]
        self.numbers = 0
        self.reached: dict[bytes, set[str]] = {}
        self.backups: dict[str, object] = {}
        self.lossy: set[str] = set()
        self.lost_before = 0
        self.forest.settle(2.0)

    def _consumer(self, site: str, destination: str, durable: str = "") -> Consumer:
        name = f"c-{site}-{destination}"
        made: Consumer = self.forest.consumer(site, destination, name, auto=False, durable=durable, credit=7)
        return made

    # --- what may happen

    def run(self) -> None:
        for _ in range(self.steps):
            self._step()
        self.finish()

    def _step(self) -> None:
        choices: list[tuple[int, Callable[[], None]]] = [
            (30, self._turn),
            (30, self._packets),
            (12, self._send),
            (12, self._acknowledge),
            (6, self._everything),
            (5, self._consumer_comes_or_goes),
            (4, self._dial),
            (3, self._cut),
            (4, self._time),
        ]
        if "crash" in self.kinds:
            choices += [(4, self._crash), (6, self._boot)]
        if "move" in self.kinds:
            choices += [(1, self._move)]
        if "restore" in self.kinds:
            choices += [(2, self._backup), (1, self._restore)]
        if "replace" in self.kinds:
            choices += [(1, self._replace)]
        weights, calls = zip(*choices, strict=True)
        self.random.choices(calls, weights)[0]()
        self.forest.reap()

    def _note(self, text: str) -> None:
        self.trace.append(f"{len(self.trace)} {self.forest.now:.1f} {text}")

    def _site(self) -> Site:
        return self.random.choice(list(self.forest.sites.values()))

    def _turn(self) -> None:
        site = self._site()
        what = self.random.choice(["take", "write", "report", "run"])
        if getattr(site, what)():
            self._note(f"{site.name} {what}")

    def _packets(self) -> None:
        if not self.forest.wires:
            return
        wire = self.random.choice(self.forest.wires)
        wire.pull(self.random.choice([1, 100, 1 << 18]))
        _, target, way = self.random.choice(wire.sides())
        if wire.deliver(way, target, self.random.choice([1, 2, 1 << 30])):
            self._note(f"packets to {target.name} over {wire}")

    def _send(self) -> None:
        producer = self.random.choice(self.producers)
        destination = self.random.choice(self.destinations)
        count = self.random.choice([1, 2, 5, 20])
        payloads = []
        for _ in range(count):
            self.numbers += 1
            payloads.append(f"{producer.name} {destination} {self.numbers:06}".encode())
        self._note(f"{producer.name} sends {count} to {destination}: {payloads[0].decode()}…")
        scope = self.random.choice([0, 1])
        if destination.startswith("topic:"):
            reached = EVERYWHERE if scope else SUBTREE_AND_ABOVE[producer.site.name]
            self.reached.update(dict.fromkeys(payloads, reached))
        producer.send(destination, *payloads, scope=scope)

    def _acknowledge(self) -> None:
        consumer = self.random.choice(self.consumers)
        if consumer.open and consumer.connection is not None:
            count = self.random.randint(1, len(consumer.open))
            self._note(f"{consumer.name} acknowledges {count} of {len(consumer.open)}")
            consumer.acknowledge(count)

    def _everything(self) -> None:
        self._note("everything once")
        self.forest.step()

    def _consumer_comes_or_goes(self) -> None:
        client = self.random.choice([*self.consumers, *self.producers])
        if client.connection is None:
            if client.site.running:
                self._note(f"{client.name} comes")
                client.connect()
        else:
            self._note(f"{client.name} goes")
            client.disconnect()

    def _dial(self) -> None:
        if self.forest.dial_all():
            self._note("dial")

    def _cut(self) -> None:
        if self.forest.wires:
            wire = self.random.choice(self.forest.wires)
            lost = self.random.choice([{"up"}, {"down"}, {"up", "down"}, set()])
            self._note(f"cut {wire} losing {sorted(lost)}")
            self.forest.cut(wire, lost)

    def _time(self) -> None:
        seconds = self.random.choice([0.01, 0.1, 0.5, 2.0])
        self._note(f"{seconds} s pass")
        self.forest.pass_time(seconds)

    def _crash(self) -> None:
        site = self._site()
        if site.running:
            self._note(f"{site.name} crashes, turn={site.turn is not None} written={site.written}")
            site.crash()

    def _boot(self) -> None:
        site = self._site()
        if not site.running:
            self._note(f"{site.name} boots")
            site.boot()

    def _move(self) -> None:
        site = self.forest.sites[self.random.choice(["s1", "s2", "s3"])]
        self._note(f"{site.name} moves from {site.parent}")
        if site.running:
            site.crash()
        site.parent = self.random.choice(["r1", "r2", "hq"])

    def _backup(self) -> None:
        site = self._site()
        self._note(f"backup of {site.name}")
        self.backups[site.name] = site.disk.backup()

    def _restore(self) -> None:
        """Put a backup back; of one site only: two that go back to one moment agree with each other."""
        site = self._site()
        if site.name in self.backups and self.lossy <= {site.name}:
            self._note(f"{site.name} is restored")
            if site.running:
                site.crash()
            disk = self.backups.pop(site.name)
            site.disk = disk  # type: ignore[assignment]
            self._lose(site)

    def _replace(self) -> None:
        site = self._site()
        self._note(f"{site.name} is replaced")
        if site.running:
            site.crash()
        site.disk = type(site.disk)()
        self._lose(site)

    def _lose(self, site: Site) -> None:
        """State of a site is gone: what was sent before may be."""
        self.lossy.add(site.name)
        self.lost_before = self.numbers

    # --- the account

    def finish(self) -> None:
        self._note("heal")
        for site in self.forest.sites.values():
            if not site.running:
                site.boot()
        for client in [*self.consumers, *self.producers]:
            client.connect()
        for consumer in self.consumers:
            consumer.auto = True
        self.forest.heal(90.0)
        self._check_all_confirmed()
        self._check_nothing_waits()
        self._check_no_dead_letters()
        self._check_delivered()
        self._check_twice()
        self._check_order()

    def _check_order(self) -> None:
        """Messages of one producer come to one consumer in order, where none was given again or rerouted."""
        if self.kinds - {"crash"}:
            return
        for consumer in self.consumers:
            last: dict[tuple[str, str], bytes] = {}
            for receipt in consumer.receipts:
                if receipt.flagged or receipt.flags & Flag.REROUTED or receipt.again:
                    continue
                producer, destination, _ = receipt.payload.decode().split(" ")
                before = last.get((producer, destination), b"")
                assert before < receipt.payload, f"{consumer.name}: {receipt.payload!r} came after {before!r}"
                last[producer, destination] = receipt.payload

    def _check_all_confirmed(self) -> None:
        for producer in self.producers:
            assert not producer.under_way, f"{producer}: {list(producer.under_way)[:5]} not confirmed"
            assert not producer.rejected, producer.rejected

    def _check_nothing_waits(self) -> None:
        for site in self.forest.sites.values():
            places = {
                name: place.messages
                for name, place in site.core.custody.places.items()
                if place.messages and name != "dead"
            }
            assert not places, f"{site.name} still keeps {places}"
            assert sum(site.core.custody.spools.values()) >= 0

    def _check_no_dead_letters(self) -> None:
        for site in self.forest.sites.values():
            dead = site.dead()
            assert not dead, f"{site.name}: {len(dead)} dead letters: {dead[0]}"

    def _check_delivered(self) -> None:
        for producer in self.producers:
            for destination, payload in producer.confirmed:
                if int(payload.split(b" ")[-1]) <= self.lost_before:
                    continue
                for readers in self._readers(str(destination), payload):
                    came = [r for reader in readers for r in reader.receipts if r.payload == payload]
                    who = [reader.name for reader in readers]
                    assert any(receipt.acknowledged for receipt in came), f"{payload!r} never came to {who}"

    def _readers(self, destination: str, payload: bytes) -> list[list[Consumer]]:
        """Groups of consumers of which one must have a message."""
        if destination.startswith("topic:"):
            subscribers = [each for each in self.consumers if each.durable]
            if "replace" in self.kinds or ("move" in self.kinds and self.reached[payload] != EVERYWHERE):
                return []
            return [[each] for each in subscribers if each.site.name in self.reached[payload]]
        name = destination.partition("@")[0]
        return [[consumer for consumer in self.consumers if str(consumer.destination) == name]]

    def _check_twice(self) -> None:
        """Each further delivery to the same group says so, or the one before was lost with its node."""
        for name in {str(consumer.destination) for consumer in self.consumers}:
            if name.startswith("queue:"):
                self._check_group([c for c in self.consumers if str(c.destination) == name])
        for consumer in self.consumers:
            if consumer.durable:
                self._check_group([consumer])
                if not self.kinds & {"move"}:
                    beyond = [p for p in consumer.payloads if consumer.site.name not in self.reached[p]]
                    assert not beyond, f"{consumer.name} was given {beyond[0]!r}, which does not go so far"

    def _check_group(self, consumers: list[Consumer]) -> None:
        if self.lossy & {"hq", "r1", "r2"}:
            return  # what a child sends again to a parent that forgot it is new to both
        seen: dict[bytes, list[tuple[Consumer, Receipt]]] = {}
        for consumer in consumers:
            for receipt in consumer.receipts:
                seen.setdefault(receipt.payload, []).append((consumer, receipt))
        for payload, receipts in seen.items():
            if len(receipts) > 1:
                unexcused = [
                    receipt
                    for consumer, receipt in receipts
                    if not receipt.lost and not receipt.flagged and consumer.site.name not in self.lossy
                ]
                said = [(c.name, r) for c, r in receipts]
                assert len(unexcused) <= 1, f"{payload!r} came {len(receipts)} times: {said}"
