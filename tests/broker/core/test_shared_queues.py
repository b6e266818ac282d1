"""A queue that is read in several stores: what comes from one of them goes to another at once."""

import pytest

from broker.core.settings import QueuePolicy
from simulation.clients import Producer, SimulatedConsumer
from simulation.forest import Forest

LATE = 30.0


@pytest.fixture
def producer(forest: Forest) -> Producer:
    """In store a, whose reader has gone; what it offers lingers. Store b takes two messages at a time."""
    forest.add("hq")
    forest.add("a", "hq", linger=LATE)
    forest.add("b", "hq", policies=(QueuePolicy(pattern="shared", max_messages=2),))
    forest.dial_all()
    forest.settle()
    gone = forest.consumer("a", "queue:shared", "gone")
    forest.consumer("b", "queue:shared", "reader", auto=False, credit=2)
    forest.settle()
    gone.disconnect()
    assert set(forest["hq"].core.table.gateways(gone.destination)) == {"a", "b"}
    return forest.producer("a")


def reader(forest: Forest) -> SimulatedConsumer:
    found = next(client for client in forest.clients if client.name == "reader")
    assert isinstance(found, SimulatedConsumer)
    return found


def test_what_comes_from_one_goes_to_the_other_without_a_rest(forest: Forest, producer: Producer) -> None:
    reader(forest).auto = True
    for number in range(20):
        producer.send("queue:shared", b"%d" % number)
        forest.settle()
    assert sorted(reader(forest).payloads, key=int) == [b"%d" % number for number in range(20)]
    assert forest["hq"].core.counters["rerouted"] == 0


def test_it_waits_for_the_other_that_is_full_and_does_not_go_back(forest: Forest, producer: Producer) -> None:
    hq = forest["hq"]
    for number in range(20):
        producer.send("queue:shared", b"%d" % number)
        forest.settle(0.1)
    forest.settle(LATE / 2)
    assert hq.waiting() >= 15
    assert (hq.core.counters["rerouted"], forest["a"].waiting()) == (0, 0)
    reader(forest).auto = True
    forest.settle(1.0)
    assert sorted(reader(forest).payloads, key=int) == [b"%d" % number for number in range(20)]


def test_it_goes_back_when_the_other_one_is_away(forest: Forest, producer: Producer) -> None:
    forest["b"].crash()
    back = forest.consumer("a", "queue:shared", "back")
    back.disconnect()
    producer.send("queue:shared", b"one")
    forest.settle(0.1)
    back.connect()
    forest.settle(1.0)
    assert back.payloads == [b"one"]
