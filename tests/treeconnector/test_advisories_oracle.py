"""Whole trees of tables, interests and advisories in memory, against an oracle that knows every consumer.

The network below joins the real pieces by queues that keep order, loses what is in flight when a link is
cut, resynchronises by digest and snapshot, and restarts nodes from the rows that they kept. After quiet,
every table must be what the oracle derives from the consumers that there are, and nothing else.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sapwood.protocol.destinations import Destination, Kind, domain, queue, topic
from treeconnector.advisories import Advertiser, Applied, Backlog, Down, Held, Up
from treeconnector.frames import Advice
from treeconnector.interests import Interests
from treeconnector.relations import Relation
from treeconnector.routes import LOCAL, Route, RoutingTable

KEYS = [
    topic("prices/#"),
    topic("prices/+"),
    topic("prices/uk"),
    topic("#"),
    topic("a/#/b"),
    queue("orders"),
    queue("returns"),
    queue("prices/uk"),
]
REATTACH_TIME = 60.0
READS = 1


class Row(NamedTuple):
    """Stands for the node's `RouteRow`."""

    kind: str
    name: str
    gateway: str
    live: int
    origin: str
    cause: str
    reads: int
    declined: int


class Begin(NamedTuple):
    count: int


class End(NamedTuple):
    digest: bytes


Packet = list[Advice] | Begin | End
Disk = dict[tuple[str, str, str], Row]
Tables = dict[str, dict[Destination, dict[str, bool]]]


class Tree:
    """Names and parents. The first name is the root."""

    def __init__(self, parents: dict[str, str]) -> None:
        self.parents = parents
        self.children: dict[str, list[str]] = {name: [] for name in parents}
        for name, parent in parents.items():
            if parent:
                self.children[parent].append(name)

    def ancestors(self, name: str) -> list[str]:
        found = []
        while self.parents[name]:
            name = self.parents[name]
            found.append(name)
        return found

    def below(self, name: str) -> list[str]:
        """A node and all its descendants."""
        found = [name]
        for each in found:
            found.extend(self.children[each])
        return found

    def related(self, one: str, other: str) -> bool:
        return one == other or one in self.ancestors(other) or other in self.ancestors(one)


def regular(*fan_outs: int, leaf_on_root: bool = False) -> Tree:
    """A tree with so many children at each level."""
    parents = {"n": ""}
    level = ["n"]
    for fan_out in fan_outs:
        level = [f"{parent}.{index}" for parent in level for index in range(fan_out)]
        parents.update({name: name.rpartition(".")[0] for name in level})
    if leaf_on_root:
        parents["n.leaf"] = "n"
    return Tree(parents)


def irregular(rng: random.Random, size: int, depth: int) -> Tree:
    parents, depths = {"n0": ""}, {"n0": 0}
    for index in range(1, size):
        parent = rng.choice([name for name, at in depths.items() if at < depth])
        parents[f"n{index}"] = parent
        depths[f"n{index}"] = depths[parent] + 1
    return Tree(parents)


def oracle(tree: Tree, consumers: dict[str, dict[Destination, set[str]]]) -> Tables:
    """What each table must be: from first principles, node by node."""
    wanted = {name: {key for key, ids in consumers[name].items() if ids} for name in tree.parents}
    subtree: dict[str, set[Destination]] = {}
    for name in reversed(tree.below(next(iter(tree.parents)))):
        subtree[name] = {domain(name)} | wanted[name]
        for child in tree.children[name]:
            subtree[name] |= subtree[child]
    tables: Tables = {}
    for name, parent in tree.parents.items():
        table: dict[Destination, dict[str, bool]] = {}
        for key in wanted[name] | {domain(name)}:
            table.setdefault(key, {})[LOCAL] = True
        for child in tree.children[name]:
            for key in subtree[child]:
                table.setdefault(key, {})[child] = True
        for key in set().union(*(wanted[each] for each in tree.ancestors(name))):
            table.setdefault(key, {})[parent] = True
        tables[name] = table
    return tables


def dim(tree: Tree, tables: Tables, down: set[str]) -> Tables:
    """The same tables where the links of the children in `down` are dormant."""
    for name in reversed(tree.below(next(iter(tree.parents)))):
        for key, gateways in tables[name].items():
            for child in tree.children[name]:
                if child in gateways and key.kind != Kind.TOPIC:
                    below = tables[child][key]
                    gateways[child] = child not in down and any(
                        live for gateway, live in below.items() if gateway != name
                    )
    return tables


def rows_of(tables: Tables) -> set[tuple[str, Destination, str]]:
    """Routes that cost an advisory: learned ones, domain routes apart."""
    return {
        (name, key, gateway)
        for name, table in tables.items()
        for key, gateways in table.items()
        for gateway in gateways
        if gateway != LOCAL and key.kind != Kind.DOMAIN
    }


class Node:
    """One node as its core would drive it; `disk` is all that survives a restart."""

    def __init__(
        self, tree: Tree, name: str, linger: float, now: float, disk: dict[tuple[str, ...], Row]
    ) -> None:
        self.name = name
        self.disk = disk
        self.table = RoutingTable()
        if tree.parents[name]:
            self.table.relate(tree.parents[name], Relation.PARENT)
        self.interests = Interests(self.table, name, REATTACH_TIME)
        self.table.put(Route(domain(name), LOCAL, True, name, "start", READS))
        neighbours = [*tree.children[name], *filter(None, [tree.parents[name]])]
        self.held = {neighbour: Held(self.table, neighbour) for neighbour in neighbours}
        for neighbour, held in self.held.items():
            held.restore(row for row in disk.values() if row.gateway == neighbour)
        local = [Destination(Kind(row.kind), row.name) for row in disk.values() if row.gateway == LOCAL]
        self.interests.recover(local, now)
        self.up = Advertiser(self.table, Up(), name, linger) if tree.parents[name] else None
        self.down = Advertiser(self.table, Down(), name, linger) if tree.children[name] else None

    def keep(self, gateway: str, applied: Applied) -> None:
        assert not applied.declined
        for key in applied.gone:
            del self.disk[key.kind, key.name, gateway]
        for route, declined in applied.kept:
            self.keep_route(route, declined)

    def keep_route(self, route: Route, declined: bool = False) -> None:
        key = route.key
        self.disk[key.kind, key.name, route.gateway] = Row(
            key.kind, key.name, route.gateway, route.live, route.origin, route.cause, route.reads, declined
        )

    def forget(self, key: Destination) -> None:
        del self.disk[key.kind, key.name, LOCAL]


class Stream:
    """One direction of a link: packets on the wire, and a snapshot that is under way."""

    def __init__(self, teller: str, listener: str) -> None:
        self.teller = teller
        self.listener = listener
        self.wire: deque[Packet] = deque()
        self.snapshot: deque[Packet] = deque()
        self.backlog = Backlog()

    def say(self, advices: list[Advice]) -> None:
        if self.snapshot:
            self.backlog.add(advices)
        elif advices:
            self.wire.append(advices)

    def begin(self, advertiser: Advertiser, batch: int) -> None:
        advices = advertiser.snapshot()
        batches = [advices[at : at + batch] for at in range(0, len(advices), batch)]
        self.snapshot = deque([Begin(len(advices)), *batches, End(advertiser.digest)])

    def pump(self) -> None:
        """One packet of the snapshot goes onto the wire; behind its end, what was held."""
        if self.snapshot:
            self.wire.append(self.snapshot.popleft())
            if not self.snapshot and self.backlog:
                self.wire.append(self.backlog.drain())

    def lose(self) -> None:
        self.wire.clear()
        self.snapshot.clear()
        self.backlog = Backlog()


class Link:
    def __init__(self, child: str, parent: str) -> None:
        self.child = child
        self.parent = parent
        self.is_up = False
        self.streams = (Stream(child, parent), Stream(parent, child))


class Network:
    """A tree of nodes. `told`: advisories received since the last look, domain routes apart."""

    def __init__(self, tree: Tree, linger: float = 0.0, batch: int = 3) -> None:
        self.tree = tree
        self.linger = linger
        self.batch = batch
        self.now = 0.0
        self.told: list[tuple[str, Advice]] = []
        self.snapshots = 0
        self.relations = {name: {name, *tree.ancestors(name), *tree.below(name)} for name in tree.parents}
        self.consumers: dict[str, dict[Destination, set[str]]] = {name: {} for name in tree.parents}
        self.away: list[tuple[str, Destination, str]] = []
        self.nodes = {name: Node(tree, name, linger, 0.0, {}) for name in tree.parents}
        self.links = {child: Link(child, parent) for child, parent in tree.parents.items() if parent}
        self.events = 0
        for name in tree.parents:
            self.connect(name)
        self.settle()

    # What happens to consumers

    def cause(self) -> str:
        self.events += 1
        return f"event-{self.events}"

    def add(self, name: str, key: Destination, consumer: str) -> None:
        self.consumers[name].setdefault(key, set()).add(consumer)
        if (name, key, consumer) in self.away:
            self.away.remove((name, key, consumer))
        self._attach(name, key, consumer)

    def _attach(self, name: str, key: Destination, consumer: str) -> None:
        node = self.nodes[name]
        route = node.interests.add(key, consumer, self.cause(), self.now)
        if route is not None:
            node.keep_route(route)
        self.flush(node)

    def remove(self, name: str, key: Destination, consumer: str) -> None:
        self.consumers[name].get(key, set()).discard(consumer)
        if (name, key, consumer) in self.away:
            self.away.remove((name, key, consumer))
            return
        node = self.nodes[name]
        if node.interests.remove(key, consumer, self.cause(), self.now):
            node.forget(key)
        self.flush(node)

    # What happens to links and nodes

    def cut(self, child: str) -> None:
        link = self.links.get(child)
        if link is None or not link.is_up:
            return
        link.is_up = False
        for stream in link.streams:
            stream.lose()
            self.nodes[stream.listener].held[stream.teller].abandon_snapshot()

    def connect(self, child: str) -> None:
        link = self.links.get(child)
        if link is None or link.is_up:
            return
        link.is_up = True
        parent = self.nodes[link.parent]
        parent.held[child].set_live()
        for stream in link.streams:
            advertiser = self.advertiser(stream)
            held = self.nodes[stream.listener].held[stream.teller]
            if (advertiser.count, advertiser.digest) != (held.count, held.digest):
                self.snapshots += 1
                stream.begin(advertiser, self.batch)
        self.flush(self.nodes[child])
        self.flush(parent)

    def make_dormant(self, child: str) -> None:
        link = self.links.get(child)
        if link is not None and not link.is_up:
            parent = self.nodes[link.parent]
            parent.held[child].set_dormant()
            self.flush(parent)

    def restart(self, name: str, stay_away: Iterable[str] = ()) -> None:
        """SIGKILL and start. Consumers come back later, those in `stay_away` never."""
        for each in (name, *self.tree.children[name]):
            self.cut(each)
        self.away = [each for each in self.away if each[0] != name]
        for key, ids in self.consumers[name].items():
            ids.difference_update(stay_away)
            self.away.extend((name, key, consumer) for consumer in sorted(ids))
        self.nodes[name] = Node(self.tree, name, self.linger, self.now, self.nodes[name].disk)

    def come_back(self, count: int = 1 << 30) -> None:
        for _ in range(min(count, len(self.away))):
            self._attach(*self.away.pop())

    # Time and packets

    def advertiser(self, stream: Stream) -> Advertiser:
        node = self.nodes[stream.teller]
        found = node.up if self.tree.parents[stream.teller] == stream.listener else node.down
        assert found is not None
        return found

    def flush(self, node: Node) -> None:
        """Say what is due. While the parent is away, what it should hear waits in the advertiser."""
        if node.up is not None and self.links[node.name].is_up:
            self.links[node.name].streams[0].say(node.up.take(self.now))
        if node.down is not None:
            advices = node.down.take(self.now)
            for child in self.tree.children[node.name] if advices else ():
                if self.links[child].is_up:
                    self.links[child].streams[1].say(advices)

    def streams(self) -> Iterator[Stream]:
        for link in self.links.values():
            if link.is_up:
                yield from link.streams

    def deliver(self, stream: Stream) -> bool:
        """One packet arrives; False where there is none."""
        stream.pump()
        if not stream.wire:
            return False
        node = self.nodes[stream.listener]
        held = node.held[stream.teller]
        packet = stream.wire.popleft()
        match packet:
            case Begin():
                held.begin_snapshot()
            case End(digest):
                node.keep(stream.teller, held.end_snapshot())
                assert held.digest == digest
            case _:
                self.listen(stream, packet)
                node.keep(stream.teller, held.apply(packet, self.now))
        self.flush(node)
        return True

    def listen(self, stream: Stream, advices: list[Advice]) -> None:
        for advice in advices:
            if advice.kind != Kind.DOMAIN:
                self.told.append((stream.listener, advice))
            spilled = advice.origin and advice.origin not in self.relations[stream.listener]
            assert not spilled, f"{advice} at {stream.listener}"

    def run(self) -> None:
        """Until nothing is on its way."""
        streams = list(self.streams())
        while sum(self.deliver(stream) for stream in streams):
            pass

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes.values():
            for key in node.interests.expire(self.now):
                node.forget(key)
            self.flush(node)

    def settle(self) -> None:
        """Everything is connected, everybody is back, all times have passed."""
        self.come_back()
        for child in self.links:
            self.connect(child)
        self.run()
        while (deadline := self.next_deadline()) is not None:
            self.advance(max(0.0, deadline - self.now))
            self.run()

    def next_deadline(self) -> float | None:
        found = [
            source.next_deadline()
            for node in self.nodes.values()
            for source in (node.interests, node.up, node.down)
            if source is not None
        ]
        return min((deadline for deadline in found if deadline is not None), default=None)

    def cost(self) -> int:
        """Advisories since the last call."""
        count = len(self.told)
        self.told.clear()
        return count

    # Comparing

    def tables(self) -> Tables:
        return {
            name: {
                key: {gateway: route.live for gateway, route in node.table.gateways(key).items()}
                for key in node.table
            }
            for name, node in self.nodes.items()
        }

    def check(self) -> None:
        """Every table equals the oracle's, every pair of ends agrees, and what is on disk gives the same."""
        expected = oracle(self.tree, self.consumers)
        found = self.tables()
        for name, table in expected.items():
            assert found[name] == table, name
        for stream in self.streams():
            held = self.nodes[stream.listener].held[stream.teller]
            advertiser = self.advertiser(stream)
            assert (held.count, held.digest) == (advertiser.count, advertiser.digest)
        for name, node in self.nodes.items():
            kept = {(Destination(Kind(row.kind), row.name), row.gateway) for row in node.disk.values()}
            assert kept == {(route.key, route.gateway) for route in node.table.routes()} - {
                (domain(name), LOCAL)
            }


# Exact counts

TREES = [
    regular(3),
    regular(2, 3),
    regular(3, 2, leaf_on_root=True),
    regular(2, 2, 2),
    regular(1, 2, 1, 3, leaf_on_root=True),
    regular(2, 1, 2, 2, 2),
    irregular(random.Random(5), 40, 5),
]


@pytest.mark.parametrize("linger", [0.0, 10.0])
@pytest.mark.parametrize("tree", TREES, ids=lambda tree: f"{len(tree.parents)}-nodes")
def test_a_consumer_costs_its_depth_and_its_descendants(tree: Tree, linger: float) -> None:
    network = Network(tree, linger)
    network.cost()
    for name in tree.parents:
        for key in (topic("prices/#"), queue("orders")):
            expected = len(tree.ancestors(name)) + len(tree.below(name)) - 1
            network.add(name, key, "first")
            network.run()
            heard = sorted(listener for listener, _ in network.told)
            assert heard == sorted([*tree.ancestors(name), *tree.below(name)[1:]])
            assert {(advice.op, advice.origin) for _, advice in network.told} == {("add", name)}
            assert network.cost() == expected
            network.check()
            network.add(name, key, "second")
            network.remove(name, key, "first")
            network.settle()
            assert network.cost() == 0
            network.remove(name, key, "second")
            network.run()
            assert network.cost() == (0 if linger else expected)
            network.settle()
            assert network.cost() == (expected if linger else 0)
            network.check()


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: f"{len(tree.parents)}-nodes")
def test_a_further_consumer_costs_only_the_links_that_do_not_know_yet(tree: Tree) -> None:
    """And its going only those that nobody else needs: whatever the order, one advisory a changed row."""
    rng = random.Random(len(tree.parents))
    network = Network(tree)
    network.cost()
    before = rows_of(network.tables())
    for _ in range(150):
        name, key, consumer = rng.choice(list(tree.parents)), rng.choice(KEYS), rng.choice("abc")
        if rng.random() < 0.55:
            network.add(name, key, consumer)
        else:
            network.remove(name, key, consumer)
        network.run()
        after = rows_of(oracle(tree, network.consumers))
        assert network.cost() == len(before ^ after)
        before = after
    network.check()


def test_another_leaf_of_the_same_branch_costs_one() -> None:
    network = Network(regular(2, 3))
    network.add("n.0.0", topic("prices/#"), "first")
    network.run()
    network.cost()
    network.add("n.0.1", topic("prices/#"), "second")
    network.run()
    assert network.cost() == 1
    network.add("n.1.0", topic("prices/#"), "third")
    network.run()
    assert network.cost() == 2


def test_patterns_count_as_written() -> None:
    """No covering: a/# does not spare a/b its own advisory."""
    network = Network(regular(2, 2))
    network.cost()
    for pattern in ("a/#", "a/b", "a/+", "#"):
        network.add("n.0.0", topic(pattern), "consumer")
        network.run()
        assert network.cost() == 2


def test_a_quick_reconnect_costs_nothing() -> None:
    network = Network(regular(2, 2), linger=10.0)
    network.add("n.0.0", queue("orders"), "consumer")
    network.run()
    network.cost()
    for _ in range(5):
        network.remove("n.0.0", queue("orders"), "consumer")
        network.run()
        network.advance(9.5)
        network.run()
        network.add("n.0.0", queue("orders"), "consumer")
        network.run()
    network.settle()
    assert network.cost() == 0
    network.check()


def test_a_restart_of_a_middle_node_tells_nobody_anything() -> None:
    network = Network(regular(2, 3))
    for name in network.tree.parents:
        network.add(name, topic(f"news/{name}"), "consumer")
    network.run()
    network.cost()
    network.snapshots = 0
    network.restart("n.0")
    network.settle()
    assert (network.cost(), network.snapshots) == (0, 0)
    network.check()


def test_what_changed_while_a_link_was_down_is_told_when_it_is_back() -> None:
    """Increments only: what the parent holds is what it had been told, so no snapshot is needed upward."""
    network = Network(regular(2, 3))
    network.add("n.0.0", queue("orders"), "old")
    network.run()
    network.cut("n.0.0")
    network.cost()
    network.snapshots = 0
    network.remove("n.0.0", queue("orders"), "old")
    network.add("n.0.0", queue("returns"), "new")
    network.connect("n.0.0")
    network.settle()
    assert (network.cost(), network.snapshots) == (4, 0)
    network.check()


def test_an_absent_store_makes_its_queues_dormant_and_not_its_topics() -> None:
    network = Network(regular(2, 2))
    for key in (queue("orders"), topic("prices/#")):
        network.add("n.0.0", key, "consumer")
    network.add("n.0.1", queue("returns"), "consumer")
    network.add("n.0.0", queue("returns"), "consumer")
    network.run()
    network.cut("n.0.0")
    network.cost()
    network.make_dormant("n.0.0")
    network.run()
    assert [(listener, advice.op, advice.key) for listener, advice in network.told] == [
        ("n", "dormant", queue("orders"))
    ]
    at_root, at_branch = network.nodes["n"].table, network.nodes["n.0"].table
    assert at_root.gateways(queue("orders"))["n.0"].live is False
    assert at_root.gateways(queue("returns"))["n.0"].live is True
    assert at_root.gateways(topic("prices/#"))["n.0"].live is True
    assert at_branch.gateways(domain("n.0.0"))["n.0.0"].live is False
    network.cost()
    network.connect("n.0.0")
    network.run()
    assert [advice.op for _, advice in network.told] == ["live"]
    network.check()


@pytest.mark.parametrize("linger", [0.0, 10.0])
def test_queues_and_domains_are_live_where_a_consumer_can_be_reached(linger: float) -> None:
    """Links go down and come back, nodes restart; the consumers stay the same."""
    rng = random.Random(7)
    network = Network(irregular(rng, 40, 4), linger)
    names = list(network.tree.parents)
    for _ in range(80):
        network.add(rng.choice(names), rng.choice(KEYS), "consumer")
    network.settle()
    for _ in range(150):
        for name in rng.sample(names, 3):
            rng.choice([network.cut, network.connect, network.connect, network.restart])(name)
        network.come_back()
        for child, link in network.links.items():
            if not link.is_up:
                network.make_dormant(child)
        network.run()
        down = {child for child, link in network.links.items() if not link.is_up}
        assert network.tables() == dim(network.tree, oracle(network.tree, network.consumers), down)
    network.settle()
    network.check()


# Random faults


class Chaos:
    """Random things happen to a network; the same seed, the same things."""

    def __init__(self, network: Network, rng: random.Random) -> None:
        self.network = network
        self.rng = rng
        self.names = list(network.tree.parents)
        self.deeds = [self.add] * 8 + [self.remove] * 7 + [self.cut, self.connect, self.connect]
        self.deeds += [self.restart, self.come_back, self.dormant, self.advance] + [self.deliver] * 6

    def step(self) -> None:
        self.rng.choice(self.deeds)()

    def name(self) -> str:
        return self.rng.choice(self.names)

    def add(self) -> None:
        self.network.add(self.name(), self.rng.choice(KEYS), self.rng.choice("ab"))

    def remove(self) -> None:
        name = self.name()
        wanted = [(key, each) for key, ids in self.network.consumers[name].items() for each in sorted(ids)]
        if wanted:
            self.network.remove(name, *self.rng.choice(wanted))

    def cut(self) -> None:
        self.network.cut(self.name())

    def connect(self) -> None:
        down = [child for child, link in self.network.links.items() if not link.is_up]
        if down:
            self.network.connect(self.rng.choice(down))

    def restart(self) -> None:
        self.network.restart(self.name(), stay_away=self.rng.choice(("", "a", "ab")))

    def come_back(self) -> None:
        self.network.come_back(self.rng.randrange(1, 20))

    def dormant(self) -> None:
        down = [child for child, link in self.network.links.items() if not link.is_up]
        if down:
            self.network.make_dormant(self.rng.choice(down))

    def advance(self) -> None:
        self.network.advance(self.rng.choice((0.1, 5.0, 11.0, 61.0)))

    def deliver(self) -> None:
        streams = list(self.network.streams())
        for stream in self.rng.sample(streams, min(len(streams), self.rng.randrange(1, 60))):
            for _ in range(self.rng.randrange(1, 4)):
                self.network.deliver(stream)


@pytest.mark.parametrize("linger", [0.0, 10.0])
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_after_quiet_every_table_is_that_of_a_fresh_network(depth: int, linger: float, seed: int) -> None:
    rng = random.Random(f"{depth} {linger} {seed}")
    network = Network(
        irregular(rng, rng.randrange(2, 5 + 8 * depth), depth), linger, batch=rng.randrange(1, 5)
    )
    chaos = Chaos(network, rng)
    for _ in range(10):
        for _ in range(rng.randrange(20, 300)):
            chaos.step()
        network.settle()
        network.check()


@pytest.mark.parametrize("linger", [0.0, 10.0])
def test_hundreds_of_nodes_thousands_of_steps(linger: float) -> None:
    rng = random.Random(2875)
    network = Network(irregular(rng, 300, 5), linger, batch=4)
    chaos = Chaos(network, rng)
    for _ in range(3):
        for _ in range(2500):
            chaos.step()
        network.settle()
        network.check()
    assert network.snapshots > 100


class TreeMachine(RuleBasedStateMachine):
    """Hypothesis looks for the shortest story that ends in a wrong table."""

    network: Network

    @initialize(
        parents=st.lists(st.integers(0, 100), min_size=1, max_size=7),
        linger=st.sampled_from([0.0, 10.0]),
        batch=st.integers(1, 3),
    )
    def plant(self, parents: list[int], linger: float, batch: int) -> None:
        names = [f"n{index}" for index in range(len(parents) + 1)]
        chosen = {"n0": ""} | {names[at + 1]: names[parent % (at + 1)] for at, parent in enumerate(parents)}
        self.network = Network(Tree(chosen), linger, batch)

    def name(self, index: int) -> str:
        names = list(self.network.tree.parents)
        return names[index % len(names)]

    @rule(at=st.integers(0, 7), key=st.sampled_from(KEYS[:4] + KEYS[5:7]), consumer=st.sampled_from("ab"))
    def add(self, at: int, key: Destination, consumer: str) -> None:
        self.network.add(self.name(at), key, consumer)

    @rule(at=st.integers(0, 7), key=st.sampled_from(KEYS[:4] + KEYS[5:7]), consumer=st.sampled_from("ab"))
    def remove(self, at: int, key: Destination, consumer: str) -> None:
        self.network.remove(self.name(at), key, consumer)

    @rule(at=st.integers(0, 7))
    def cut(self, at: int) -> None:
        self.network.cut(self.name(at))

    @rule(at=st.integers(0, 7))
    def connect(self, at: int) -> None:
        self.network.connect(self.name(at))

    @rule(at=st.integers(0, 7))
    def make_dormant(self, at: int) -> None:
        self.network.make_dormant(self.name(at))

    @rule(at=st.integers(0, 7), stay_away=st.sampled_from(["", "a", "ab"]))
    def restart(self, at: int, stay_away: str) -> None:
        self.network.restart(self.name(at), stay_away)

    @precondition(lambda self: self.network.away)
    @rule(count=st.integers(1, 4))
    def come_back(self, count: int) -> None:
        self.network.come_back(count)

    @rule(which=st.integers(0, 13), count=st.integers(1, 4))
    def deliver(self, which: int, count: int) -> None:
        streams = list(self.network.streams())
        for _ in range(count if streams else 0):
            self.network.deliver(streams[which % len(streams)])

    @rule(seconds=st.sampled_from([1.0, 11.0, 61.0]))
    def advance(self, seconds: float) -> None:
        self.network.advance(seconds)

    @rule()
    def quiet(self) -> None:
        self.network.settle()
        self.network.check()

    def teardown(self) -> None:
        if hasattr(self, "network"):
            self.quiet()


TestTreeMachine = TreeMachine.TestCase
TestTreeMachine.settings = settings(
    max_examples=120, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
