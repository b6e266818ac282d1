"""Random histories of topics that go everywhere: the account of `simulation.chaos`, and the lines crossed.

Readers come and go, one of them moves with its store from region to region, and its messages must all come.
Once all is quiet each node that publishes knows whether anybody off the way wants a topic, and then a message
crosses exactly the lines between the place where it enters and its readers.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

from simulation.actions import Action
from simulation.chaos import TREE, Chaos, Tree
from simulation.clients import SimulatedConsumer
from simulation.invariants import check_interest, parents_of
from simulation.site import Site

_TOPICS = ("topic:t/a", "topic:t/b", "topic:u/c")
_PASSERS_BY = (("hq", "topic:u/#"), ("r2", "topic:t/b"), ("s1", "topic:+/c"), ("s3", "topic:t/b"))

Lines = set[tuple[str, str]]
"""Lower and upper end."""


class Interest(Chaos):
    """One history: see the module, and `Chaos`."""

    settings = replace(Chaos.settings, advise_down="none")
    destinations = _TOPICS

    def __init__(self, seed: int, kinds: frozenset[str], steps: int = 250, tree: Tree = TREE) -> None:
        self._chance = Random(seed)
        super().__init__(seed, kinds, steps, tree=tree)

    def _consumers(self) -> list[SimulatedConsumer]:
        """The first stays, and moves with its store."""
        made = [self._consumer("s2", "topic:t/a", durable="d")]
        return made + [self._consumer(site, pattern) for site, pattern in _PASSERS_BY]

    def _reaches(self, entry: str, destination: str, scope: int) -> set[str]:
        """Of those whose messages are counted, who go to one place and stay."""
        return super()._reaches(entry, destination, scope) if destination == _TOPICS[0] else set()

    def _choose_send(self) -> Action:
        action = super()._choose_send()
        return Action(action.what, (*action.arguments[:-1], 1))

    def _choose_move(self) -> Action:
        return Action("move", ("s2", self.random.choice(["r1", "r2", "hq"])))

    def _choices(self) -> list[tuple[int, Callable[[], Action | None]]]:
        return [*super()._choices(), (8, self._choose_reader)]

    def _choose_reader(self) -> Action:
        return Action("client", (self.random.randrange(1, len(self.consumers)),))

    # --- once all is quiet

    def finish(self) -> None:
        super().finish()
        for reader in self.consumers[1:]:
            if self._chance.random() < 0.5:
                reader.disconnect()
        self.forest.settle(3.0)
        sites = list(self.forest.sites.values())
        for producer in self.producers:
            for topic in self.destinations:
                self._publish_quietly(producer.site, topic, sites)
        check_interest(sites)

    def _publish_quietly(self, entry: Site, topic: str, sites: list[Site]) -> None:
        """One message: exactly its readers get it, and it takes their lines and no others."""
        payload = f"p-quiet {topic} {entry.name}".encode()
        writer = next(each for each in self.producers if each.site is entry)
        before = _sent(sites)
        writer.send(topic, payload, scope=1)
        self.forest.settle(1.0)
        got = {reader.site.name for reader in self.consumers if payload in reader.payloads}
        wanted = {site.name for site in sites if _reads(site, topic.removeprefix("topic:"))}
        assert got == wanted, f"{payload!r} came to {sorted(got)}, and not to just {sorted(wanted)}"
        crossed = {line for line, count in _sent(sites).items() if count != before[line]}
        if not any(site.mesh for site in sites):
            expected = _between({entry.name, *wanted}, sites)
            assert crossed == expected, f"{payload!r} crossed {sorted(crossed)}, not {sorted(expected)}"


def _reads(site: Site, topic: str) -> bool:
    return bool(site.core.table.match(topic).local)


def _sent(sites: Iterable[Site]) -> dict[tuple[str, str], int]:
    """Messages that have crossed each line, either way."""
    by_name = {site.name: site.core for site in sites}
    return {
        (name, parent.name): parent.counters["out"] + by_name[parent.name].neighbours[name].counters["out"]
        for name, core in by_name.items()
        for parent in core.context.parents.values()
    }


def _between(names: set[str], sites: list[Site]) -> Lines:
    """The lines of the smallest part of a tree in which all these nodes stand."""
    by_name = {site.name: site for site in sites}
    ways = {name: _way_up(by_name[name], by_name) for name in names}
    lines = {line for way in ways.values() for line in way}
    return {line for line in lines if not all(line in way for way in ways.values())}


def _way_up(site: Site, by_name: dict[str, Site]) -> Lines:
    found: Lines = set()
    while above := parents_of(site, by_name):
        found.add((site.name, above[0].name))
        site = above[0]
    return found
