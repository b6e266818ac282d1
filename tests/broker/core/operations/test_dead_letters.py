"""Dead letters given back: routed again, marked where they may come twice, kept where they cannot go."""

from random import Random

import pytest

from broker.core.rows import BundleRow
from broker.core.settings import Overflow, QueuePolicy
from sapwood.protocol.destinations import Destination, Kind
from simulation.forest import Forest
from simulation.site import Site

EVERY = -1


def give_back(site: Site, bits: int = EVERY) -> int:
    site.core.advance(site.now)
    return site.core.dead_letters.give_back([(copy, bits) for copy in site.core.custody.dead.waiting])


def reasons(site: Site) -> list[tuple[str, bytes]]:
    return [(note.partition(":")[0], message.payload) for note, message in site.dead()]


def test_what_nobody_took_is_taken_once_somebody_reads(forest: Forest) -> None:
    hq = forest.add("hq", hold_time=5.0)
    forest.producer("hq").send("queue:sales", b"a", b"b")
    forest.settle(10.0)
    assert reasons(hq) == [("QUEUE_DOES_NOT_EXIST", b"a"), ("QUEUE_DOES_NOT_EXIST", b"b")]
    assert give_back(hq) == 2
    assert (hq.core.counters["dead_returned"], reasons(hq)) == (2, [])
    forest.settle(2.0)
    hq.crash()
    hq.boot()
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == [b"a", b"b"]
    assert not any(receipt.flagged for receipt in reader.receipts)


def test_a_crash_before_the_commit_leaves_it_among_the_dead(forest: Forest) -> None:
    hq = forest.add("hq", hold_time=5.0)
    forest.producer("hq").send("queue:sales", b"a")
    forest.settle(10.0)
    assert give_back(hq) == 1
    hq.crash()
    hq.boot()
    assert reasons(hq) == [("QUEUE_DOES_NOT_EXIST", b"a")]
    assert hq.waiting() == 0


def test_it_finds_its_way_through_the_tree(forest: Forest) -> None:
    hq, _ = forest.add("hq", hold_time=5.0), forest.add("york", "hq")
    forest.producer("hq").send("queue:sales", b"a")
    forest.settle(10.0)
    forest.dial_all()
    reader = forest.consumer("york", "queue:sales")
    forest.settle()
    assert reader.payloads == []
    assert give_back(hq) == 1
    forest.settle()
    assert reader.payloads == [b"a"]
    assert hq.waiting() == 0


@pytest.mark.parametrize("overflow", list(Overflow))
def test_an_operator_fills_no_queue_beyond_what_it_may_hold(forest: Forest, overflow: Overflow) -> None:
    """Of two bundles of four as many come back as there is room for; what goes elsewhere waits for none."""
    policy = QueuePolicy(pattern="sales", max_messages=5, overflow=overflow)
    hq = forest.add("hq", hold_time=5.0, policies=(policy,))
    producer = forest.producer("hq")
    for payloads in ((b"0", b"1", b"2", b"3"), (b"4", b"5", b"6", b"7")):
        producer.send("queue:sales", *payloads)
        forest.settle(10.0)
    producer.send("queue:other", b"8")
    forest.settle(10.0)
    assert len(hq.dead()) == 9
    hq.core.advance(hq.now)
    some = hq.core.dead_letters.give_back_some([(letter, EVERY) for letter in hq.core.custody.dead.waiting])
    assert (some.messages, some.why) == (6, "QUEUE_FULL: queue:sales has no room for more")
    assert [payload for _, payload in reasons(hq)] == [b"5", b"6", b"7"]
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    some = hq.core.dead_letters.give_back_some([(letter, EVERY) for letter in hq.core.custody.dead.waiting])
    forest.settle()
    assert (some.messages, some.why) == (3, "")
    assert reader.payloads == [b"%d" % n for n in range(8)]


def test_what_comes_back_under_an_alias_fills_no_queue_either(forest: Forest) -> None:
    hq = forest.add("hq", hold_time=5.0, policies=(QueuePolicy(pattern="sales", max_messages=3),))
    producer = forest.producer("hq")
    for number in range(5):
        producer.send("queue:sell", b"%d" % number)
        forest.settle(10.0)
    hq.core.static_routing.add("alias", "sell", "sales")
    some = hq.core.dead_letters.give_back_some([(letter, EVERY) for letter in hq.core.custody.dead.waiting])
    assert (some.messages, some.why) == (3, "QUEUE_FULL: queue:sales has no room for more")


def test_a_full_disk_takes_no_letters_back(forest: Forest) -> None:
    hq = forest.add("hq", hold_time=5.0)
    forest.producer("hq").send("queue:sales", b"a")
    forest.settle(10.0)
    (letter,) = hq.core.custody.dead.waiting
    hq.core.message_admission.disk_room = 0.0
    some = hq.core.dead_letters.give_back_some([(letter, EVERY)])
    assert (some.messages, len(hq.dead())) == (0, 1)
    assert "the disk of node hq is nearly full" in some.why


def test_one_message_of_a_bundle_is_given_back_alone(forest: Forest) -> None:
    hq = forest.add("hq", hold_time=5.0)
    forest.producer("hq").send("queue:sales", b"a", b"b", b"c")
    forest.settle(10.0)
    assert give_back(hq, 0b010) == 1
    assert give_back(hq, 0b010) == 0
    assert [payload for _, payload in reasons(hq)] == [b"a", b"c"]
    assert (hq.core.custody.dead.messages, hq.waiting()) == (2, 1)
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == [b"b"]
    hq.crash()
    hq.boot()
    assert [payload for _, payload in reasons(hq)] == [b"a", b"c"]
    reader.connect()
    assert give_back(hq) == 2
    forest.settle()
    assert reader.payloads == [b"b", b"a", b"c"]


def test_each_message_of_a_bundle_takes_its_own_room_alone(forest: Forest) -> None:
    """A bundle of very many parts is not copied whole for each."""
    hq, payloads = forest.add("hq", hold_time=5.0), [Random(n).randbytes(1000) for n in range(100)]
    forest.producer("hq").send("queue:sales", *payloads)
    forest.settle(10.0)
    whole = sum(len(row.body) for row in hq.disk.rows(BundleRow))
    for at in range(len(payloads)):
        assert give_back(hq, 1 << at) == 1
    forest.settle()
    assert hq.waiting() == len(payloads)
    assert sum(len(row.body) for row in hq.disk.rows(BundleRow)) < 3 * whole
    hq.crash()
    hq.boot()
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert sorted(reader.payloads) == sorted(payloads)


def test_what_was_with_a_reader_too_often_comes_back_marked(forest: Forest) -> None:
    hq = forest.add("hq", max_deliveries=1)
    first = forest.consumer("hq", "queue:sales", auto=False)
    forest.producer("hq").send("queue:sales", b"a")
    forest.settle()
    first.disconnect()
    forest.settle()
    assert reasons(hq) == [("TOO_MANY_DELIVERIES", b"a")]
    assert give_back(hq) == 1
    reader = forest.consumer("hq", "queue:sales", "second")
    forest.settle()
    assert [(receipt.payload, receipt.flagged) for receipt in reader.receipts] == [(b"a", True)]


def test_what_expired_does_not_expire_again(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:sales", b"a", b"b", expires_in=1000)
    forest.settle(5.0)
    assert reasons(hq) == [("EXPIRED", b"a"), ("EXPIRED", b"b")]
    assert give_back(hq, 0b01) == 1
    forest.settle(5.0)
    hq.crash()
    hq.boot()
    forest.settle(5.0)
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == [b"a"]
    assert reasons(hq) == [("EXPIRED", b"b")]


def test_what_a_full_link_lost_goes_to_that_link_alone(forest: Forest) -> None:
    policy = QueuePolicy(kind=Kind.TOPIC, pattern="#", max_messages=2, overflow=Overflow.DROP_NEW)
    hq = forest.add("hq", policies=(policy,))
    forest.add("york", "hq")
    forest.add("leeds", "hq")
    readers = {name: forest.consumer(name, "topic:prices") for name in ("york", "leeds")}
    forest.dial_all()
    forest.settle()
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    producer = forest.producer("hq")
    for payload in (b"1", b"2", b"3", b"4"):
        producer.send("topic:prices", payload)
        forest.settle()
    lost = [payload for _, payload in reasons(hq)]
    assert lost
    hq.crash()
    hq.boot()
    full = hq.core.dead_letters.give_back_some([(letter, EVERY) for letter in hq.core.custody.dead.waiting])
    assert (full.messages, full.why) == (0, "QUEUE_FULL: link:york has no room for more")
    forest.heal(5.0)
    assert give_back(hq) == len(lost)
    forest.settle()
    assert sorted(readers["york"].payloads) == [b"1", b"2", b"3", b"4"]
    assert readers["leeds"].payloads == [b"1", b"2", b"3", b"4"]
    assert not any(receipt.flagged for receipt in readers["york"].receipts)


def test_a_subscription_s_letter_goes_to_that_subscription_alone(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.consumer("hq", "topic:prices", "one", durable="d").disconnect()
    other = forest.consumer("hq", "topic:prices", "two")
    forest.producer("hq").send("topic:prices", b"a", expires_in=1000)
    forest.settle(5.0)
    assert reasons(hq) == [("EXPIRED", b"a")]
    assert give_back(hq) == 1
    forest.settle()
    one = forest.consumer("hq", "topic:prices", "one", durable="d")
    forest.settle()
    assert (one.payloads, other.payloads) == ([b"a"], [b"a"])


def test_where_the_subscription_is_gone_it_is_published_again_and_marked(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.consumer("hq", "topic:prices", "one", durable="d").disconnect()
    forest.producer("hq").send("topic:prices", b"a", expires_in=1000)
    forest.settle(5.0)
    (subscription,) = hq.core.topics.subscriptions.values()
    hq.core.removal.end_subscription(subscription)
    assert give_back(hq) == 0
    assert reasons(hq) == [("EXPIRED", b"a")]
    other = forest.consumer("hq", "topic:prices", "two")
    assert give_back(hq) == 1
    forest.settle()
    assert [(receipt.payload, receipt.flagged) for receipt in other.receipts] == [(b"a", True)]


def test_what_no_place_can_be_named_after_stays(forest: Forest) -> None:
    hq = forest.add("hq", hold_time=5.0)
    forest.producer("hq").send("queue:sales", b"a")
    forest.settle(10.0)
    (letter,) = hq.core.custody.dead.waiting
    letter.stored.header.destination = Destination(Kind.QUEUE, "no name", "..")
    assert hq.core.dead_letters.give_back_some([(letter, EVERY)]).messages == give_back(hq) == 0
    forest.settle()
    assert hq.core.custody.dead.messages == 1
    assert not [name for name in hq.core.custody.queues if "no name" in name]


def test_letters_are_discarded_and_counted(forest: Forest) -> None:
    hq = forest.add("hq", hold_time=5.0)
    forest.producer("hq").send("queue:sales", b"a", b"b", b"c")
    forest.settle(10.0)
    (letter,) = hq.core.custody.dead.waiting
    assert hq.core.dead_letters.discard([(letter, 0b001)]) == 1
    assert [payload for _, payload in reasons(hq)] == [b"b", b"c"]
    assert hq.core.dead_letters.discard([(letter, EVERY)]) == 2
    assert hq.core.dead_letters.discard([(letter, EVERY)]) == 0
    assert hq.core.counters["dead_deleted"] == 3
    forest.settle()
    hq.crash()
    hq.boot()
    assert hq.dead() == []
