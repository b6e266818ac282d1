"""What readers may have been given before a crash says so when it comes again; what they had not does not."""

import pytest

from simulation.clients import SimulatedConsumer
from simulation.forest import Forest


@pytest.fixture
def store(forest: Forest) -> Forest:
    forest.add("hq")
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle(1.0)
    return forest


def again(forest: Forest) -> None:
    """The store's node is killed, and comes again."""
    forest["york"].crash()
    forest["york"].boot()
    forest.dial_all()
    forest.settle(2.0)


def flags(reader: SimulatedConsumer) -> list[tuple[bytes, bool]]:
    return [(receipt.payload, receipt.flagged) for receipt in reader.receipts]


def test_what_was_given_before_its_commit_comes_again_as_a_maybe(store: Forest) -> None:
    """Only the parent had it on disk: it has numbers of before the crash, and others have not."""
    reader = store.consumer("york", "queue:sales", auto=False)
    store.settle(1.0)
    producer = store.producer("hq")
    producer.send("queue:sales", b"one")
    for _ in range(10):
        store["hq"].run()
        for wire in store.wires:
            wire.pull()
            for _, target, way in wire.sides():
                wire.deliver(way, target)
    assert flags(reader) == [(b"one", False)]
    again(store)
    second = store.consumer("york", "queue:sales", "second")
    store.settle(1.0)
    producer.send("queue:sales", b"two")
    store.settle(1.0)
    assert flags(second) == [(b"one", True), (b"two", False)]


def test_what_was_given_before_its_commit_is_a_maybe_though_the_store_has_forgotten_its_parent(
    forest: Forest,
) -> None:
    """It was below another region meanwhile, so it comes back as one that was never here."""
    forest.add("hq")
    north, york = forest.add("north", "hq", "branch"), forest.add("york", "north")
    forest.add("south", "hq", "branch")
    forest.heal(2.0)
    reader = forest.consumer("york", "queue:sales", auto=False)
    forest.settle(1.0)
    forest.producer("north").send("queue:sales", b"one")
    wire = forest.wire_of("york")
    assert wire is not None
    for _ in range(3):
        north.run()
        wire.pull()
        wire.deliver(wire.sides()[1][2], york)
    assert flags(reader) == [(b"one", False)]
    north.crash()
    for parent in ("south", "north"):
        york.crash()
        york.parent = parent
        york.boot()
        forest.dial("york")
        forest.settle()
    second = forest.consumer("york", "queue:sales", "second")
    forest.heal(5.0)
    assert flags(second) == [(b"one", True)]


def test_what_was_given_after_its_commit_comes_again_as_a_maybe(store: Forest) -> None:
    reader = store.consumer("york", "queue:sales", auto=False)
    store.producer("york").send("queue:sales", b"one")
    for _ in range(3):
        store["york"].run()
    assert flags(reader) == [(b"one", False)]
    again(store)
    second = store.consumer("york", "queue:sales", "second")
    store.settle(1.0)
    assert flags(second) == [(b"one", True)]


def test_what_waited_and_was_then_given_comes_again_as_a_maybe(store: Forest) -> None:
    producer = store.producer("york")
    store.consumer("york", "queue:sales").disconnect()
    for number in range(100):
        producer.send("queue:sales@york", b"%d" % number)
        store.settle()
    reader = store.consumer("york", "queue:sales", credit=10, auto=False)
    for _ in range(3):
        store["york"].run()
    given = {receipt.payload for receipt in reader.receipts}
    again(store)
    second = store.consumer("york", "queue:sales", "second")
    store.settle(1.0)
    flagged = {payload for payload, flag in flags(second) if flag}
    assert len(second.receipts) == 100
    assert len(given) >= 10
    assert given <= flagged
    assert len(flagged) < 50


def test_what_nobody_was_given_is_no_maybe(store: Forest) -> None:
    store.consumer("york", "queue:sales").disconnect()
    store.producer("york").send("queue:sales@york", b"one")
    store.producer("hq").send("queue:sales@york", b"two")
    store.settle(1.0)
    again(store)
    reader = store.consumer("york", "queue:sales")
    store.settle(1.0)
    assert sorted(flags(reader)) == [(b"one", False), (b"two", False)]


def test_after_a_stop_that_ended_well_nothing_is_in_doubt(store: Forest) -> None:
    """What the parent had under way then never was here."""
    york = store["york"]
    store.consumer("york", "queue:sales").disconnect()
    store.settle(1.0)
    store.producer("hq").send("queue:sales@york", b"one")
    for _ in range(3):
        store["hq"].run()
    assert store["hq"].core.neighbours["york"].outbox
    york.stop()
    york.boot()
    store.dial_all()
    store.settle(2.0)
    reader = store.consumer("york", "queue:sales")
    store.settle(1.0)
    assert flags(reader) == [(b"one", False)]
    again(store)
    assert york.core.neighbours["hq"].doubted > 0


def test_a_stop_that_ended_well_settles_no_doubt_of_before(store: Forest) -> None:
    """The parent was away meanwhile, and has not sent again what it had under way at the crash."""
    reader = store.consumer("york", "queue:sales", auto=False)
    store.settle(1.0)
    store.producer("hq").send("queue:sales", b"one")
    hq, york, wire = store["hq"], store["york"], store.wire_of("york")
    assert wire is not None
    for _ in range(3):
        hq.run()
        wire.pull()
        wire.deliver(wire.sides()[1][2], york)
    assert flags(reader) == [(b"one", False)]
    hq.crash()
    york.crash()
    york.boot()
    york.stop()
    york.boot()
    second = store.consumer("york", "queue:sales", "second")
    store.heal(5.0)
    assert flags(second) == [(b"one", True)]


def test_nothing_is_given_before_that_is_on_disk_whoever_else_comes(forest: Forest) -> None:
    """A second reader comes while the commit is under way that says that the first may have the message."""
    hq = forest.add("hq")
    forest.producer("hq").send("queue:sales", b"sold")
    forest.settle(1.0)
    first = forest.consumer("hq", "queue:sales", "first", auto=False)
    assert hq.take()
    second = forest.consumer("hq", "queue:sales", "second", auto=False)
    assert not first.receipts + second.receipts
    hq.write()
    hq.report()
    assert [receipt.payload for receipt in first.receipts + second.receipts] == [b"sold"]
