"""A consumer that has gone is missed once: its own node waits for its return, and nobody else does.

All nodes have the settings that a user gets.
"""

import pytest

from broker.core.settings import CoreSettings
from sapwood.protocol.destinations import queue
from simulation.clients import SimulatedConsumer
from simulation.forest import Forest

LINGER = CoreSettings().linger
STOCK = queue("stock")


@pytest.fixture
def tree() -> Forest:
    """HQ, two regions with a store each."""
    forest = Forest(CoreSettings())
    forest.add("hq")
    for region, store in (("north", "york"), ("south", "leeds")):
        forest.add(region, "hq", "branch")
        forest.add(store, region)
    forest.dial_all()
    forest.settle()
    return forest


def served(tree: Forest, site: str, name: str) -> SimulatedConsumer:
    found = tree.consumer(site, "queue:stock", name)
    tree.settle()
    return found


def test_no_message_waits_for_a_consumer_that_has_gone_while_another_is_there(tree: Forest) -> None:
    gone = served(tree, "york", "gone")
    gone.disconnect()
    there = served(tree, "leeds", "there")
    producer = tree.producer("hq")
    for number in range(20):
        producer.send("queue:stock", b"%d" % number)
        tree.settle()
    tree.settle(1.0)
    assert sorted(there.payloads, key=int) == [b"%d" % number for number in range(20)]
    assert set(tree["hq"].core.table.gateways(STOCK)) == {"south"}


def test_a_consumer_that_returns_finds_its_route_where_it_was(tree: Forest) -> None:
    gone = served(tree, "york", "gone")
    told = tree["york"].core.advertising.told["up"]
    gone.disconnect()
    tree.settle(LINGER - 1)
    gone.connect()
    tree.settle(2 * LINGER)
    assert tree["york"].core.advertising.told["up"] == told
    assert set(tree["hq"].core.table.gateways(STOCK)) == {"north"}


def test_a_removal_lingers_at_the_consumers_node_and_nowhere_else(tree: Forest) -> None:
    served(tree, "york", "gone").disconnect()
    tree.settle(LINGER - 1)
    assert set(tree["hq"].core.table.gateways(STOCK)) == {"north"}
    tree.settle(2.0)
    assert not tree["hq"].core.table.gateways(STOCK)


def test_a_removal_goes_down_without_a_linger_of_each_node(tree: Forest) -> None:
    served(tree, "hq", "gone").disconnect()
    tree.settle(LINGER - 1)
    assert set(tree["york"].core.table.gateways(STOCK)) == {"north"}
    tree.settle(2.0)
    assert not tree["york"].core.table.gateways(STOCK)
