"""Whole simulated trees against a model of the routing: where each message may end, and nowhere else.

The model knows the tree, who reads what, and the rules; it has no tables. It speaks dCache's words: a local
cell always wins; then an alias; a well-known name through the queue routes below, any of them; `cell@node`
through the domain routes; then the default, which is the parent; then the dumpster. A message for one start
of a node takes the way to its name, or is dead.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from sapwood.protocol import bundles
from sapwood.protocol.bundles import Scope
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest
from treeconnector.patterns import matches

CELLS = ("a", "b", "c")
PATTERNS = ("t/x", "t/+", "#", "u/x")
TOPICS = ("t/x", "t/y", "u/x")
NOWHERE = "01234567-89ab-cdef-0123-456789abcdef"
LOST = "lost"


class Tree(NamedTuple):
    """`parents`: of each node but the first, by number. `again`: nodes that have started a second time."""

    parents: tuple[int, ...]
    readers: frozenset[tuple[int, str]]
    subscribers: frozenset[tuple[int, str]]
    aliases: dict[tuple[int, str], tuple[str, int]]
    again: frozenset[int]
    dumpster: bool

    @property
    def size(self) -> int:
        return len(self.parents) + 1

    def parent(self, node: int) -> int | None:
        return self.parents[node - 1] if node else None

    def children(self, node: int) -> list[int]:
        return [child for child in range(1, self.size) if self.parent(child) == node]

    def below(self, node: int) -> Iterator[int]:
        """The node and all below it."""
        yield node
        for child in self.children(node):
            yield from self.below(child)

    def above(self, node: int) -> Iterator[int]:
        parent = self.parent(node)
        if parent is not None:
            yield parent
            yield from self.above(parent)


class Sent(NamedTuple):
    """`to`: a node's number, None = a well-known name. `which`: 'name', 'now', 'before' or 'nobody'."""

    at: int
    cell: str
    to: int | None
    which: str


class Published(NamedTuple):
    at: int
    topic: str
    scope: Scope


class End(NamedTuple):
    """`what`: 'read', 'waits', 'dead' or 'dumped'. `cell`: the name that it is read or waits under."""

    what: str
    node: int
    cell: str


class Model:
    """Walks through the rules from node to node; where several would do, through all of them."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    def ends(self, sent: Sent) -> set[End]:
        if sent.which == "nobody" or (sent.which == "before" and sent.to in self.tree.again):
            return {End("dead", sent.at, sent.cell)}
        return self.walk(sent.at, sent.cell, sent.to, sent.which == "name" or sent.to is None)

    def walk(self, at: int, cell: str, to: int | None, plain: bool) -> set[End]:
        """`plain`: the address says no incarnation, so aliases for names apply."""
        tree = self.tree
        if to in (None, at) and (at, cell) in tree.readers:
            return {End("read", at, cell)}
        if to is None and plain and (at, cell) in tree.aliases:
            cell, to = tree.aliases[at, cell]
            return self.walk(at, cell, to, plain)
        if to == at:
            return {End("waits", at, cell)}
        ways = [child for child in tree.children(at) if self.has(child, cell, to)]
        if ways:
            return set().union(*(self.walk(child, cell, to, plain) for child in ways))
        parent = tree.parent(at)
        if parent is not None:
            return self.walk(parent, cell, to, plain)
        return {End("dumped", at, LOST) if tree.dumpster else End("waits", at, cell)}

    def has(self, child: int, cell: str, to: int | None) -> bool:
        """Would a message for this address find what it looks for below?"""
        below = list(self.tree.below(child))
        return to in below if to is not None else any((node, cell) in self.tree.readers for node in below)

    def hearers(self, published: Published) -> list[tuple[int, str]]:
        """Each subscription that gets a copy, once."""
        reach = set(range(self.tree.size))
        if published.scope == Scope.VERTICAL:
            reach = {*self.tree.below(published.at), *self.tree.above(published.at)}
        return sorted(
            (node, pattern)
            for node, pattern in self.tree.subscribers
            if node in reach and matches(pattern, published.topic)
        )


@st.composite
def trees(draw: Any) -> Tree:
    size = draw(st.integers(2, 6))
    nodes = st.integers(0, size - 1)
    parents = tuple(draw(st.integers(0, number)) for number in range(size - 1))
    aliases = st.dictionaries(
        st.tuples(nodes, st.just("c")), st.tuples(st.sampled_from(("a", "b")), nodes), max_size=2
    )
    return Tree(
        parents,
        draw(st.frozensets(st.tuples(nodes, st.sampled_from(CELLS)), max_size=5)),
        draw(st.frozensets(st.tuples(nodes, st.sampled_from(PATTERNS)), max_size=5)),
        draw(aliases),
        draw(st.frozensets(nodes, max_size=2)),
        draw(st.booleans()),
    )


@st.composite
def cases(draw: Any) -> tuple[Tree, list[Sent], list[Published]]:
    tree = draw(trees())
    nodes = st.integers(0, tree.size - 1)
    cells = st.sampled_from(CELLS)
    known = st.builds(Sent, nodes, cells, st.none(), st.just("name"))
    directed = st.builds(Sent, nodes, cells, nodes, st.sampled_from(("name", "now", "before", "nobody")))
    scopes = st.sampled_from((Scope.VERTICAL, Scope.TREE))
    published = st.builds(Published, nodes, st.sampled_from(TOPICS), scopes)
    return tree, draw(st.lists(known | directed, max_size=8)), draw(st.lists(published, max_size=4))


class Grown:
    """The tree as real cores. `before`: the first incarnation of each node."""

    def __init__(self, tree: Tree) -> None:
        self.tree, self.forest = tree, Forest()
        for node in range(tree.size):
            parent = tree.parent(node)
            role = "branch" if parent is not None and tree.children(node) else ""
            self.forest.add(self.name(node), "" if parent is None else self.name(parent), role)
        self.forest.dial_all()
        self.forest.settle(1.0)
        self.before = [self.own(node) for node in range(tree.size)]
        for node in tree.again:
            self.forest[self.name(node)].crash()
            self.forest[self.name(node)].boot()
        self.forest.heal(8.0)
        self.set_routes()
        self.readers = {(node, cell): self.reader(node, f"queue:{cell}") for node, cell in tree.readers}
        self.hearers = {(node, each): self.reader(node, f"topic:{each}") for node, each in tree.subscribers}
        self.forest.settle(1.0)

    @staticmethod
    def name(node: int) -> str:
        return f"node-{node}"

    def own(self, node: int) -> str:
        return self.forest[self.name(node)].core.logical_addresses.own

    def reader(self, node: int, destination: str) -> SimulatedConsumer:
        return self.forest.consumer(self.name(node), destination, f"{node} {destination}")

    def set_routes(self) -> None:
        for (node, cell), (other, to) in self.tree.aliases.items():
            routing = self.forest[self.name(node)].core.static_routing
            routing.add("alias", cell, f"{other}@{self.name(to)}")
        if self.tree.dumpster:
            self.forest[self.name(0)].core.static_routing.add("dumpster", "", LOST)

    def address(self, sent: Sent) -> str:
        if sent.to is None:
            return f"queue:{sent.cell}"
        which = {"name": self.name(sent.to), "now": self.own(sent.to), "before": self.before[sent.to]}
        return f"queue:{sent.cell}@{which.get(sent.which, NOWHERE)}"

    def send(self, sent: list[Sent], published: list[Published]) -> None:
        producers = [self.forest.producer(self.name(node), f"p{node}") for node in range(self.tree.size)]
        for number, each in enumerate(sent):
            producers[each.at].send(self.address(each), b"%d" % number)
            self.forest.settle()
        for number, topic in enumerate(published):
            producers[topic.at].send(f"topic:{topic.topic}", b"t%d" % number, scope=int(topic.scope))
            self.forest.settle()
        self.forest.settle(15.0)

    def ends(self) -> dict[int, list[End]]:
        """Where each queue message is now, by its number."""
        found: dict[int, list[End]] = {}
        for (node, cell), consumer in self.readers.items():
            for payload in consumer.payloads:
                found.setdefault(int(payload), []).append(End("read", node, cell))
        for node in range(self.tree.size):
            site = self.forest[self.name(node)]
            for why, message in site.dead():
                assert why == "UNKNOWN_INCARNATION"
                found.setdefault(int(message.payload), []).append(End("dead", node, ""))
            for place in site.core.custody.queues.values():
                if place.messages and place is not site.core.custody.dead:
                    self.waiting(site, node, place, found)
        return found

    @staticmethod
    def waiting(site: Any, node: int, place: Any, found: dict[int, list[End]]) -> None:
        for copy in (*place.waiting, *place.resting.values()):
            what = "dumped" if place.destination.name == LOST else "waits"
            for message in bundles.unpack(copy.stored.header, site.core.custody.body(copy)):
                found.setdefault(int(message.payload), []).append(End(what, node, place.destination.name))


@settings(max_examples=60)
@given(cases())
def test_each_message_ends_where_the_model_says(case: tuple[Tree, list[Sent], list[Published]]) -> None:
    tree, sent, published = case
    grown, model = Grown(tree), Model(tree)
    grown.send(sent, published)
    found = grown.ends()
    assert sorted(found) == list(range(len(sent))), "each is somewhere"
    for number, each in enumerate(sent):
        (end,) = found[number]
        allowed = model.ends(each)
        if end.what == "dead":
            assert {one.what for one in allowed} == {"dead"}, (each, end, allowed)
        else:
            assert end in allowed, (each, end, allowed)
    for number, topic in enumerate(published):
        payload = b"t%d" % number
        heard = sorted(
            key for key, hearer in grown.hearers.items() for one in hearer.payloads if one == payload
        )
        assert sorted(heard) == model.hearers(topic), topic
