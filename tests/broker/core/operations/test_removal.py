"""What an operator takes away is gone, is counted, and takes nothing else with it."""

from collections.abc import Iterable

import pytest

from broker.core.errors import InDelivery, NotFound, SwitchError
from broker.core.messages.queue import QueueEntry
from broker.core.rows import BundleRow, CopyRow, QueueRow, SubscriptionRow
from broker.core.sessions.sessions import Connection
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import queue, topic
from sapwood.protocol.session_frames import EndSubscription, ReadingEnded
from simulation.forest import Forest
from simulation.site import Site

PAYLOADS = [b"%d" % number for number in range(20)]


def delete(site: Site, name: str) -> tuple[int, int]:
    site.core.advance(site.now)
    doomed = site.core.removal.delete_queue(name)
    return site.core.removal.discard(doomed.take(len(doomed))), doomed.consumers


def rows(site: Site) -> tuple[int, int, int]:
    return tuple(len(site.disk.tables[table]) for table in (QueueRow, BundleRow, CopyRow))  # type: ignore[return-value]


def ended(consumer: object, frames: Iterable[object]) -> list[ReadingEnded]:
    return [frame for frame in frames if isinstance(frame, ReadingEnded)]


def test_a_deleted_queue_is_gone_from_memory_and_disk(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales")
    reader.disconnect()
    forest.producer("hq").send("queue:sales", *PAYLOADS)
    forest.settle()
    assert rows(hq) == (1, 1, 1)
    assert delete(hq, "sales") == (20, 0)
    forest.settle(2.0)
    assert rows(hq) == (0, 0, 0)
    assert hq.core.counters["deleted"] == 20
    assert "queue:sales" not in hq.core.custody.queues
    assert sum(hq.core.custody.spools.values()) == 0
    hq.crash()
    hq.boot()
    assert hq.waiting() == 0


def test_its_readers_end_and_their_interest_is_withdrawn_up_to_the_root(forest: Forest) -> None:
    hq, york = forest.add("hq"), forest.add("york", "hq")
    forest.dial_all()
    frames: list[object] = []
    reader = forest.consumer("york", "queue:sales", auto=False)
    before = reader.arrived
    assert reader.connection is not None
    reader.connection.send = lambda frame: (
        frames.append(frame) if isinstance(frame, ReadingEnded) else before(frame)
    )
    forest.settle()
    assert queue("sales") in hq.core.table
    forest.producer("york").send("queue:sales", *PAYLOADS)
    forest.settle()
    assert len(reader.open) == 20
    assert delete(york, "queue:sales") == (20, 1)
    forest.settle(2.0)
    assert queue("sales") not in hq.core.table
    assert queue("sales") not in york.core.interests
    assert [(frame.subscription, frame.code) for frame in ended(reader, frames)] == [(7, "QUEUE_DELETED")]
    assert york.waiting() == hq.waiting() == 0
    reader.acknowledge(20)
    forest.settle()
    assert york.core.counters["acknowledged"] == 0


def test_what_comes_after_the_deletion_stays(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    producer.send("queue:sales", *PAYLOADS)
    forest.settle()
    doomed = hq.core.removal.delete_queue("sales")
    producer.send("queue:sales", b"new")
    forest.settle()
    assert hq.core.removal.discard(doomed.take(10)) == 20
    forest.settle()
    assert hq.waiting() == 1
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == [b"new"]


def test_a_crash_in_the_middle_of_a_deletion_gives_the_rest_back(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    for payload in PAYLOADS:
        producer.send("queue:sales", payload)
        forest.settle()
    doomed = hq.core.removal.delete_queue("sales")
    assert hq.core.removal.discard(doomed.take(5)) == 5
    forest.settle()
    hq.crash()
    hq.boot()
    assert hq.waiting() == 15


def test_messages_that_rest_go_as_well(forest: Forest) -> None:
    hq, york = forest.add("hq"), forest.add("york", "hq", linger=100.0)
    forest.add("bath", "hq")
    forest.dial_all()
    reader = forest.consumer("york", "queue:sales", auto=False)
    forest.settle()
    forest.producer("hq").send("queue:sales", *PAYLOADS)
    forest.settle()
    forest.consumer("bath", "queue:sales", auto=False)
    forest.settle()
    reader.disconnect()
    forest.settle()
    place = york.core.custody.queues["queue:sales"]
    assert place.resting
    assert delete(york, "sales")[0] == 20
    forest.settle(40.0)
    assert york.waiting() == hq.waiting() == 0


def test_the_same_queue_by_its_node_s_name_goes_too(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    producer.send("queue:sales", b"a")
    producer.send("queue:sales@hq", b"b")
    producer.send("queue:sales@york", b"c")
    forest.settle()
    assert delete(hq, "sales") == (2, 0)
    assert delete(hq, "sales@york") == (1, 0)
    with pytest.raises(NotFound, match="sales"):
        delete(hq, "sales")


def test_a_transient_queue_can_be_deleted_before_its_session_ends(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    name = hq.core.switch.create(producer.connection, "")
    producer.send(f"queue:{name}", b"a")
    forest.settle()
    assert delete(hq, name) == (1, 0)
    producer.disconnect()
    forest.settle(2.0)
    assert hq.core.custody.queues.keys() == {"dead"}


@pytest.mark.parametrize("name", ["nothing", "a@b@c", "queue:", "topic:x@york", "../x"])
def test_what_is_not_there_is_not_found(forest: Forest, name: str) -> None:
    with pytest.raises(NotFound):
        forest.add("hq").core.removal.delete_queue(name)


def test_the_node_s_own_queue_is_refused(forest: Forest) -> None:
    with pytest.raises(SwitchError, match="own"):
        forest.add("hq").core.removal.delete_queue("System")


# --- one message


def test_one_waiting_message_is_deleted_and_the_others_stay(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:sales", b"a", b"b", b"c")
    forest.settle()
    (copy,) = hq.core.custody.queues["queue:sales"].waiting
    hq.core.removal.delete_message(copy, 1)
    with pytest.raises(NotFound):
        hq.core.removal.delete_message(copy, 1)
    with pytest.raises(NotFound):
        hq.core.removal.delete_message(copy, 3)
    forest.settle()
    hq.crash()
    hq.boot()
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == [b"a", b"c"]


def test_the_last_message_takes_its_bundle_with_it(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:sales", b"a", b"b")
    forest.settle()
    place = hq.core.custody.queues["queue:sales"]
    (copy,) = place.waiting
    hq.core.removal.delete_message(copy, 0)
    hq.core.removal.delete_message(copy, 1)
    assert (len(place.waiting), place.messages) == (0, 0)
    forest.settle()
    assert rows(hq) == (0, 0, 0)
    assert hq.core.counters["deleted"] == 2


def test_a_message_that_a_reader_has_is_refused(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales", auto=False)
    forest.producer("hq").send("queue:sales", b"a")
    forest.settle()
    (given,) = hq.core.switch.sessions["consumer"].unacked.of(None)
    with pytest.raises(InDelivery, match="reader has that message"):
        hq.core.removal.delete_message(given.entry, 0)
    reader.acknowledge(1)
    forest.settle()
    assert hq.core.counters["acknowledged"] == 1


# --- subscriptions


def test_a_durable_subscription_is_ended_by_its_session(forest: Forest) -> None:
    hq, york = forest.add("hq"), forest.add("york", "hq")
    forest.dial_all()
    reader = forest.consumer("york", "topic:prices/#", durable="daily")
    forest.settle()
    reader.disconnect()
    forest.producer("york").send("topic:prices/a", *PAYLOADS)
    forest.settle()
    assert york.waiting() == 20
    client = forest.producer("york", "consumer")
    client.say(EndSubscription(5, "other"))
    assert [failure.code for failure in client.failures] == ["NOT_FOUND"]
    client.say(EndSubscription(6, "daily"))
    forest.settle(2.0)
    assert york.waiting() == 0
    assert york.core.counters["unsubscribed"] == 20
    assert topic("prices/#") not in hq.core.table
    assert not york.disk.tables[SubscriptionRow]


def test_a_subscription_that_is_read_ends_for_its_reader_as_well(forest: Forest) -> None:
    york = forest.add("york")
    frames: list[object] = []
    reader = forest.consumer("york", "topic:prices/#", durable="daily", auto=False)
    assert reader.connection is not None
    reader.connection.send = frames.append
    forest.producer("york").send("topic:prices/a", *PAYLOADS)
    forest.settle()
    (subscription,) = york.core.topics.subscriptions.values()
    assert york.core.removal.end_subscription(subscription) == 20
    assert [frame.code for frame in ended(reader, frames)] == ["SUBSCRIPTION_ENDED"]
    forest.settle()
    assert (york.waiting(), york.core.counters["unsubscribed"]) == (0, 20)
    assert topic("prices/#") not in york.core.table


def test_what_a_session_leaves_goes_a_part_at_a_time(forest: Forest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.core.operations.removal.PART", 10)
    hq = forest.add("hq")
    switch, line = hq.core.switch, Connection(lambda frame: None, "test", "http")
    switch.login(line, "leaving")
    names = [switch.create(line, "") for _ in range(2)]
    for number in range(30):
        switch.send(line, names[number % 2], Message(b"%d" % number), lambda error: None)
        forest.settle()
    assert (hq.waiting(), rows(hq)[2]) == (30, 30)
    parts = []
    discard = hq.core.removal.discard

    def counted(copies: list[QueueEntry], counter: str) -> int:
        parts.append(len(copies))
        return discard(copies, counter)

    monkeypatch.setattr(hq.core.removal, "discard", counted)
    switch.close(line)
    assert parts == [10]
    switch.login(Connection(lambda frame: None, "test", "http"), "another")
    forest.settle(1.0)
    assert (sum(parts), max(parts)) == (30, 10)
    assert (hq.waiting(), rows(hq)[2], hq.core.counters["transient_ended"]) == (0, 0, 30)
    assert not [name for name in hq.core.custody.queues if "transient-" in name]


def test_what_a_session_left_and_a_crash_interrupted_is_gone_after_the_start(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker.core.operations.removal.PART", 1)
    hq = forest.add("hq")
    switch, line = hq.core.switch, Connection(lambda frame: None, "test", "http")
    switch.login(line, "leaving")
    name = switch.create(line, "")
    for number in range(5):
        switch.send(line, name, Message(b"%d" % number), lambda error: None)
        forest.settle()
    switch.close(line)
    hq.crash()
    hq.boot()
    forest.settle(2.0)
    assert (hq.waiting(), rows(hq)) == (0, (0, 0, 0))


def test_a_purge_takes_what_waits_and_leaves_readers_what_they_have(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales", credit=3, auto=False)
    producer = forest.producer("hq")
    producer.send("queue:sales", *PAYLOADS)
    producer.send("queue:sales", b"later")
    forest.settle()
    assert len(reader.open) == 3
    taken = hq.core.removal.empty_queue("sales")
    producer.send("queue:sales", b"new")
    assert taken.purged + hq.core.removal.purge(taken.take(10)) == 18
    forest.settle()
    assert (hq.waiting(), hq.core.counters["deleted"]) == (4, 18)
    reader.acknowledge(3)
    forest.settle()
    assert reader.payloads == [*PAYLOADS[:3], b"new"]
    hq.crash()
    hq.boot()
    assert hq.waiting() == 1


def test_a_reader_that_goes_in_the_middle_of_a_purge_loses_nothing_that_it_had(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales", credit=3, auto=False)
    forest.producer("hq").send("queue:sales", *PAYLOADS)
    forest.settle()
    taken = hq.core.removal.empty_queue("sales")
    reader.disconnect()
    forest.settle()
    assert taken.purged + hq.core.removal.purge(taken.take(10)) == 17
    forest.settle()
    again = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert again.payloads == list(PAYLOADS[:3])


def test_a_crash_in_the_middle_of_a_purge_gives_the_rest_back(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    for payload in PAYLOADS:
        producer.send("queue:sales", payload)
        forest.settle()
    taken = hq.core.removal.empty_queue("sales")
    assert hq.core.removal.purge(taken.take(5)) == 5
    forest.settle()
    hq.crash()
    hq.boot()
    assert hq.waiting() == 15
