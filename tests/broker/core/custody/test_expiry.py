"""Copies whose time runs out, whatever becomes of them before."""

import pytest

from broker.core import housekeeping
from broker.core.custody import expiry
from broker.core.custody.expiry import Expiry
from broker.core.messages.queue import QueueEntry, StoredBundle
from sapwood.protocol.bundles import Header
from sapwood.protocol.destinations import queue
from simulation.forest import Forest

PLACE = Forest().add("hq").core.custody.queue_for(queue("q"))


def made(row: int, milliseconds: int) -> QueueEntry:
    header = Header(id=b"i" * 16, destination=queue("q"), expires_last=milliseconds)
    return QueueEntry(row, StoredBundle(row, header, b"", 0, 0.0), PLACE, "", 0.0)


def test_the_next_to_expire_comes_first_and_each_once() -> None:
    entered = Expiry()
    for row, time in enumerate((3000, 1000, 2000)):
        entered.add(made(row, time))
    assert entered.due(0.999, 10) == []
    assert [copy.row for copy in entered.due(2.0, 10)] == [1, 2]
    assert [copy.row for copy in entered.due(9.0, 10)] == [0]
    assert len(entered) == 0


def test_what_was_dealt_with_in_time_does_not_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "_FEW", 10)
    entered = Expiry()
    entered._room = 10
    kept = [made(row, 1 << 40) for row in range(5)]
    for copy in kept:
        entered.add(copy)
    for row in range(5, 1000):
        copy = made(row, 1 << 40)
        entered.add(copy)
        copy.done = copy.all
        assert len(entered) <= 12
    assert set(kept) <= {entry[2] for entry in entered._heap}


def test_so_many_at_once_and_the_others_at_the_next_sweep(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "PART", 2)
    hq = forest.add("hq")
    producer = forest.producer("hq")
    for number in range(5):
        producer.send("queue:sales", b"%d" % number, expires_in=100)
        forest.settle()
    forest.settle(1.2)
    assert len(hq.dead()) == 2
    forest.settle(2.2)
    assert sorted(message.payload for _, message in hq.dead()) == [b"%d" % number for number in range(5)]
    assert hq.waiting() == 0


def test_what_a_reader_had_expires_when_it_comes_back(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales", auto=False)
    forest.producer("hq").send("queue:sales", b"one", expires_in=100)
    forest.settle(3.0)
    assert (reader.payloads, hq.dead()) == ([b"one"], [])
    reader.disconnect()
    forest.settle(6.0)
    assert [note for note, _ in hq.dead()] == ["EXPIRED"]


def test_what_waited_over_a_start_expires(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:sales", b"one", expires_in=1500)
    forest.settle()
    hq.crash()
    hq.boot()
    forest.settle(3.0)
    assert [note for note, _ in hq.dead()] == ["EXPIRED"]


def test_time_runs_on_over_hops_for_messages_among_others_that_never_expire(forest: Forest) -> None:
    """Both are in one bundle, whose last message never expires."""
    forest.add("hq")
    forest.add("north", "hq", "branch")
    forest.add("york", "north")
    forest.heal(1.0)
    consumer = forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    producer = forest.producer("hq")
    producer.send("queue:prices", b"for ever")
    producer.send("queue:prices", b"for a while", expires_in=3000)
    forest.settle(10.0)
    forest.dial_all()
    forest.settle(2.0)
    assert consumer.payloads == [b"for ever"]
    dead = [letter for site in forest.sites.values() for letter in site.dead()]
    assert [(reason, message.payload) for reason, message in dead] == [("EXPIRED", b"for a while")]


def test_what_expired_in_an_outbox_is_not_delivered(forest: Forest) -> None:
    forest.add("hq")
    forest.add("york", "hq")
    forest.heal(1.0)
    consumer = forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    producer = forest.producer("hq")
    producer.send("queue:prices", b"for a while", expires_in=3000)
    forest["hq"].run()
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    forest.settle(10.0)
    forest.dial_all()
    forest.settle(2.0)
    assert consumer.payloads == []
    dead = [letter for site in forest.sites.values() for letter in site.dead()]
    assert [(reason, message.payload) for reason, message in dead] == [("EXPIRED", b"for a while")]
