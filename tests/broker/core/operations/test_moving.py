"""Moved messages wait in the other queue, once, and leave the old one in the same transaction."""

from random import Random

import pytest

from broker.core.errors import QueueFull
from broker.core.messages.queue import QueueEntry
from broker.core.operations.moving import Move
from broker.core.settings import QueuePolicy
from sapwood.protocol.destinations import Destination, Kind, queue
from simulation.forest import Forest
from simulation.site import Site

EVERY = -1


def waiting(site: Site, name: str) -> list[QueueEntry]:
    return list(site.core.custody.queues[name].waiting)


def move(site: Site, name: str, to: Destination | None, bits: int = EVERY) -> Move:
    site.core.advance(site.now)
    return site.core.moving.move([(entry, bits) for entry in waiting(site, name)], to)


def test_moved_messages_are_read_from_the_other_queue_once(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:a", b"0", b"1", b"2", b"3")
    forest.settle()
    assert move(hq, "queue:a", queue("b"), 0b0101) == Move(2)
    forest.settle()
    one, other = forest.consumer("hq", "queue:a"), forest.consumer("hq", "queue:b")
    forest.settle()
    assert (one.payloads, other.payloads) == ([b"1", b"3"], [b"0", b"2"])
    assert hq.core.counters["moved"] == 2
    hq.crash()
    hq.boot()
    assert hq.waiting() == 0


def test_a_crash_before_the_commit_leaves_them_where_they_were(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:a", b"0", b"1")
    forest.settle()
    assert move(hq, "queue:a", queue("b")).messages == 2
    hq.crash()
    hq.boot()
    forest.settle()
    reader = forest.consumer("hq", "queue:a")
    forest.settle()
    assert reader.payloads == [b"0", b"1"]


def test_what_moved_has_survived_a_crash_after_the_commit(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:a", b"0", b"1")
    forest.settle()
    assert move(hq, "queue:a", queue("b"), 1).messages == 1
    forest.settle()
    hq.crash()
    hq.boot()
    one, other = forest.consumer("hq", "queue:a"), forest.consumer("hq", "queue:b")
    forest.settle()
    assert (one.payloads, other.payloads) == ([b"1"], [b"0"])


def test_they_go_on_to_where_they_came_from(forest: Forest) -> None:
    """They come to a node that has seen them before, and are no repetition there."""
    hq, _ = forest.add("hq"), forest.add("york", "hq")
    forest.dial_all()
    reader = forest.consumer("york", "queue:b")
    forest.settle()
    forest.producer("york").send("queue:a", b"0", b"1")
    forest.settle()
    assert move(hq, "queue:a", queue("b")).messages == 2
    forest.settle()
    assert reader.payloads == [b"0", b"1"]
    assert hq.waiting() == 0


def test_without_another_queue_they_wait_behind_all_others(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    for payload in (b"0", b"1", b"2"):
        producer.send("queue:a", payload)
        forest.settle()
    first = waiting(hq, "queue:a")[0]
    hq.core.advance(hq.now)
    assert hq.core.moving.move([(first, EVERY)], None).messages == 1
    forest.settle()
    reader = forest.consumer("hq", "queue:a")
    forest.settle()
    assert reader.payloads == [b"1", b"2", b"0"]


def test_a_full_queue_takes_none_and_the_rest_stays(forest: Forest) -> None:
    hq = forest.add("hq", policies=(QueuePolicy(Kind.QUEUE, "b", max_messages=2),))
    producer = forest.producer("hq")
    for payload in (b"0", b"1", b"2"):
        producer.send("queue:a", payload)
        forest.settle()
    found = move(hq, "queue:a", queue("b"))
    assert found.messages == 2
    assert found.why.startswith("QUEUE_FULL")
    with pytest.raises(QueueFull):
        move(hq, "queue:a", queue("b"))
    forest.settle()
    reader = forest.consumer("hq", "queue:a")
    forest.settle()
    assert reader.payloads == [b"2"]


def test_what_a_reader_has_stays_with_it(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:a", auto=False, credit=1)
    forest.settle()
    forest.producer("hq").send("queue:a", b"0", b"1", b"2")
    forest.settle()
    assert move(hq, "queue:a", queue("b")).messages == 2
    forest.settle()
    reader.acknowledge(1)
    forest.settle()
    other = forest.consumer("hq", "queue:b")
    forest.settle()
    assert (reader.payloads, other.payloads) == ([b"0"], [b"1", b"2"])
    assert hq.waiting() == 0


def test_a_moved_message_expires_when_it_would_have(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:a", b"0", expires_in=5000)
    forest.settle(3.0)
    assert move(hq, "queue:a", queue("b")).messages == 1
    forest.settle(3.0)
    assert [note.partition(":")[0] for note, _ in hq.dead()] == ["EXPIRED"]


def test_what_moves_one_by_one_takes_no_more_room_than_it_has(forest: Forest) -> None:
    hq = forest.add("hq")
    random = Random(1)
    payloads = [random.randbytes(1000) for _ in range(200)]
    forest.producer("hq").send("queue:a", *payloads)
    forest.settle()
    custody = hq.core.custody
    before = sum(custody.spools.values())
    for number in range(199):
        assert move(hq, "queue:a", queue("b"), 1 << number).messages == 1
        forest.settle()
    assert custody.queues["queue:b"].size < 199 * (1000 + 3 * 200)
    assert sum(custody.spools.values()) < 2 * before + 199 * 3 * 200
    reader = forest.consumer("hq", "queue:b")
    forest.settle()
    assert reader.payloads == payloads[:199]


def test_a_moved_message_waits_no_longer_than_its_own_time(forest: Forest) -> None:
    """Of its bundle another one lives on: it does not keep this one, nor does this one end it."""
    hq = forest.add("hq")
    producer = forest.producer("hq")
    producer.send("queue:a", b"short", expires_in=5000)
    producer.send("queue:a", b"long", expires_in=50_000)
    forest.settle(1.0)
    for entry in waiting(hq, "queue:a"):
        hq.core.advance(hq.now)
        assert hq.core.moving.move([(entry, 1 << entry.stored.header.count - 1)], queue("b")).messages == 1
    forest.settle(6.0)
    reader = forest.consumer("hq", "queue:b")
    forest.settle()
    assert reader.payloads == [b"long"]


@pytest.mark.parametrize("to", [queue("b"), None])
def test_a_full_disk_takes_none(forest: Forest, to: Destination | None) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:a", b"0" * 1000, b"1" * 1000, b"2" * 1000)
    forest.settle()
    admission = hq.core.message_admission
    admission.disk_room = 1.0
    assert move(hq, "queue:a", to, 1).messages == 1
    forest.settle()
    assert admission.disk_room <= 0
    with pytest.raises(QueueFull, match="disk"):
        hq.core.moving.move([(waiting(hq, "queue:a")[0], EVERY)], to)
