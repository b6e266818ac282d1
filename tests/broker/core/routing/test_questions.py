"""Random trees in which nodes ask, start again and lose lines: who hears of it, and that nothing is stale."""

from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.links.neighbour import Neighbour
from broker.core.policy import Policy
from sapwood.protocol.names import incarnation_text
from simulation.forest import Forest
from treeconnector import link_events as events


class Step(NamedTuple):
    """`what`: 'name', 'incarnation' (`node` asks for that of `of`), 'restart', 'announce' or 'cut'."""

    what: str
    node: int
    of: int


class Heard(NamedTuple):
    node: int
    by: str
    event: events.Event


class Ear(Policy):
    """Notes what neighbours say to one node."""

    def __init__(self, node: int, heard: list[Heard]) -> None:
        self.node = node
        self.heard = heard

    def said(self, neighbour: Neighbour, event: events.Event) -> None:
        self.heard.append(Heard(self.node, neighbour.name, event))


class Watched:
    """A tree of real cores that notes what each hears about addresses. `told`: what was said to whom."""

    def __init__(self, parents: tuple[int, ...]) -> None:
        self.parents = parents
        self.size = len(parents) + 1
        self.forest = Forest()
        self.heard: list[Heard] = []
        self.told: set[tuple[int, str, bytes]] = set()
        for node in range(self.size):
            parent = "" if node == 0 else self.name(parents[node - 1])
            role = "branch" if node and node in parents else ""
            self.forest.add(self.name(node), parent, role)
            self.listen(node)
        self.forest.heal(8.0)

    @staticmethod
    def name(node: int) -> str:
        return f"node-{node}"

    def core(self, node: int) -> Any:
        return self.forest[self.name(node)].core

    def chain(self, node: int) -> list[int]:
        return [node] if node == 0 else [node, *self.chain(self.parents[node - 1])]

    def listen(self, node: int) -> None:
        self.core(node).policies.add([Ear(node, self.heard)])

    def do(self, step: Step) -> set[int]:
        """Returns the nodes that may hear of it: those between the node, the root, and who is asked for."""
        above = set(self.chain(step.node))
        core = self.core(step.node)
        match step.what:
            case "restart":
                self.forest[self.name(step.node)].crash()
                self.forest[self.name(step.node)].boot()
                self.listen(step.node)
                self.forest.heal(8.0)
            case "cut":
                wire = self.forest.wire_of(self.name(step.node))
                if wire is not None:
                    self.forest.cut(wire)
                self.forest.heal(8.0)
            case "announce":
                core.logical_addresses.announce([f"wss://line-{step.of}:7600/link"])
                self.forest.settle(3.0)
            case _:
                key = self.name(step.of) if step.what == "name" else self.core(step.of).logical_addresses.own
                answers: list[str] = []
                core.logical_addresses.look_up(
                    key, lambda entry, why: answers.append(entry and entry.found.name)
                )
                self.forest.settle(3.0)
                assert answers == [self.name(step.of)], "everybody is found"
        return above | set(self.chain(step.of))

    def check(self, allowed: set[int]) -> None:
        """What was heard in one step was heard by few, and what was taken back had been said."""
        for node, by, event in self.heard:
            match event:
                case events.PeerAsks(keys):
                    assert node in allowed
                    assert len(keys) == 1
                case events.PeerHas(found):
                    self.told |= {(node, by, each.incarnation) for each in found}
                case events.PeerInvalidates(incarnations):
                    for incarnation in incarnations:
                        assert (node, by, incarnation) in self.told, "taken back where it was never said"
                        self.told.discard((node, by, incarnation))
        questions = sum(isinstance(each.event, events.PeerAsks) for each in self.heard)
        assert questions <= 2 * self.size
        self.heard.clear()

    def check_caches(self) -> None:
        """While all links are up, nobody believes what is over."""
        now = {self.name(node): self.core(node).logical_addresses.own for node in range(self.size)}
        for node in range(self.size):
            for entry in self.core(node).logical_addresses.cache:
                text = incarnation_text(entry.found.incarnation)
                assert text == now[entry.found.name], f"{self.name(node)} believes {entry!r}"
        root = {entry.found.name for entry in self.core(0).logical_addresses.cache}
        assert root == set(now) - {self.name(0)}, "the root knows all"


@st.composite
def cases(draw: Any) -> tuple[tuple[int, ...], list[Step]]:
    size = draw(st.integers(2, 7))
    nodes = st.integers(0, size - 1)
    parents = tuple(draw(st.integers(0, number)) for number in range(size - 1))
    ask = st.builds(Step, st.sampled_from(("name", "incarnation")), nodes, nodes)
    change = st.builds(Step, st.sampled_from(("restart", "announce", "cut")), nodes, st.integers(0, 3))
    return parents, draw(st.lists(ask | change, min_size=1, max_size=8))


@settings(max_examples=40)
@given(cases())
def test_few_hear_of_it_and_nothing_is_stale(case: tuple[tuple[int, ...], list[Step]]) -> None:
    parents, steps = case
    watched = Watched(parents)
    watched.check(set())
    for step in steps:
        allowed = watched.do(step if step.of < watched.size else step._replace(of=0))
        watched.check(allowed)
        watched.check_caches()
