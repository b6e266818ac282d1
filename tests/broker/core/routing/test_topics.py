"""How far a topic message goes (rule 11), and what it does not do on its way."""

import pytest

from broker.core.settings import QueuePolicy
from sapwood.protocol.bundles import Scope
from sapwood.protocol.destinations import Kind
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest

TREE = (QueuePolicy(Kind.TOPIC, "prices/#", Scope.TREE),)
SITES = ("hq", "north", "south", "york", "durham", "bath")


def chain(forest: Forest, policies: tuple[QueuePolicy, ...]) -> None:
    """HQ, two regions, two stores in the north, one in the south."""
    forest.add("hq", policies=policies)
    for region in ("north", "south"):
        forest.add(region, "hq", "branch", policies=policies)
    for store, region in (("york", "north"), ("durham", "north"), ("bath", "south")):
        forest.add(store, region, policies=policies)
    forest.dial_all()
    forest.settle(3.0)


def readers(forest: Forest, *sites: str) -> dict[str, SimulatedConsumer]:
    made = {site: forest.consumer(site, "topic:prices/#", name=f"reader at {site}") for site in sites}
    forest.settle(1.0)
    return made


def who_got(forest: Forest, found: dict[str, SimulatedConsumer], at: str) -> set[str]:
    """Publish once at `at`: who got it? Nobody gets it twice."""
    forest.producer(at, f"writer at {at}").send("topic:prices/tea", b"tea")
    forest.settle(2.0)
    assert all(reader.payloads in ([], [b"tea"]) for reader in found.values())
    return {site for site, reader in found.items() if reader.payloads}


@pytest.mark.parametrize(
    ("at", "reached"),
    [
        ("york", {"york", "north", "hq"}),
        ("north", {"north", "york", "durham", "hq"}),
        ("hq", set(SITES)),
    ],
)
def test_vertical_is_the_subtree_of_the_entry_node_and_its_ancestors(
    forest: Forest, at: str, reached: set[str]
) -> None:
    chain(forest, ())
    assert who_got(forest, readers(forest, *SITES), at) == reached


@pytest.mark.parametrize("at", SITES)
def test_tree_reaches_every_subscriber_once(forest: Forest, at: str) -> None:
    chain(forest, TREE)
    assert who_got(forest, readers(forest, *SITES), at) == set(SITES)


@pytest.mark.parametrize("listeners", [("bath",), ("durham",), ("durham", "bath")])
def test_tree_does_not_depend_on_who_else_listens(forest: Forest, listeners: tuple[str, ...]) -> None:
    chain(forest, TREE)
    assert who_got(forest, readers(forest, *listeners), "york") == set(listeners)


def test_scope_is_decided_where_a_message_enters(forest: Forest) -> None:
    chain(forest, ())
    forest.add("leeds", "north", policies=TREE)
    forest.dial_all()
    forest.settle(2.0)
    assert who_got(forest, readers(forest, "bath", "durham"), "leeds") == {"bath", "durham"}


def test_vertical_goes_up_only_as_far_as_an_ancestor_wants_it(forest: Forest) -> None:
    chain(forest, ())
    found = readers(forest, "north", "bath")
    assert who_got(forest, found, "york") == {"north"}
    assert forest["hq"].core.counters["in"] == 0


def test_what_nobody_wants_is_complete_and_counted(forest: Forest) -> None:
    chain(forest, ())
    forest.producer("york").send("topic:prices/tea", b"tea")
    forest.settle(1.0)
    assert sum(site.waiting() for site in forest.sites.values()) == 0
    assert forest["york"].core.counters["unmatched"] == 1
