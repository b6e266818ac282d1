"""What is looked after once a second."""

import secrets
from copy import copy

import pytest

from broker.core.settings import QueuePolicy
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag, Header, Message
from sapwood.protocol.destinations import Kind, queue
from simulation.forest import Forest


def test_what_expires_while_it_waits_is_buried_and_the_rest_keeps_its_order(forest: Forest) -> None:
    hq = forest.add("hq")
    producer = forest.producer("hq")
    for number in range(6):
        producer.send("queue:sales", b"%d" % number, expires_in=500 if number % 2 else 0)
        forest.settle()
    forest.settle(2.0)
    assert sorted(message.payload for note, message in hq.dead() if note == "EXPIRED") == [b"1", b"3", b"5"]
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    assert reader.payloads == [b"0", b"2", b"4"]


# --- hold time


def test_at_the_root_a_queue_s_message_that_nobody_takes_is_held_and_then_buried(forest: Forest) -> None:
    hq = forest.add("hq", hold_time=10.0)
    producer = forest.producer("hq")
    producer.send("queue:nobody", b"one")
    forest.settle(8.0)
    assert (hq.waiting(), hq.dead()) == (1, [])
    forest.settle(4.0)
    assert [(note, message.payload) for note, message in hq.dead()] == [("QUEUE_DOES_NOT_EXIST", b"one")]
    assert hq.waiting() == 0


def test_below_the_root_it_waits_for_a_parent_that_is_away(forest: Forest) -> None:
    hq = forest.add("hq")
    york = forest.add("york", "hq", hold_time=10.0)
    forest.dial_all()
    forest.settle(1.0)
    hq.crash()
    forest.producer("york").send("queue:sales", b"one")
    forest.settle(30.0)
    assert (york.waiting(), york.dead()) == (1, [])


def test_before_a_parent_was_ever_met_nothing_is_given_up(forest: Forest) -> None:
    york = forest.add("york", "hq", hold_time=10.0)
    producer = forest.producer("york")
    producer.send("queue:sales", b"one")
    producer.send("queue:nobody@york", b"for this node")
    forest.settle(30.0)
    assert [message.payload for _, message in york.dead()] == [b"for this node"], "nobody above takes that"
    york.crash()
    york.boot()
    forest.settle(30.0)
    sales = forest.consumer("york", "queue:sales")
    forest.settle(1.0)
    assert sales.payloads == [b"one"]


def test_a_queue_that_the_site_s_file_keeps_at_home_exists(forest: Forest) -> None:
    home = (QueuePolicy(Kind.QUEUE, "till", home=True),)
    hq = forest.add("hq", hold_time=10.0, policies=home)
    forest.producer("hq").send("queue:till", b"one")
    forest.settle(30.0)
    assert (hq.waiting(), hq.dead()) == (1, [])


@pytest.mark.parametrize("address", ["queue:sales", "queue:sales@hq"])
def test_a_queue_that_was_created_keeps_its_messages(forest: Forest, address: str) -> None:
    hq = forest.add("hq", hold_time=10.0)
    reader = forest.consumer("hq", "queue:sales")
    reader.disconnect()
    forest.producer("hq").send(address, b"one")
    forest.settle(30.0)
    assert (hq.waiting(), hq.dead()) == (1, [])


# --- bounds of the dead letters


def bury(forest: Forest, *payloads: bytes) -> None:
    """One dead letter for each, in this order."""
    producer = forest.producer("hq", "undertaker")
    for payload in payloads:
        producer.send("queue:late", payload, expires_in=1)
        forest.settle(2.0)
    producer.disconnect()


def test_dead_letters_are_bounded_by_number_the_oldest_go_and_are_counted(forest: Forest) -> None:
    hq = forest.add("hq", dead_messages=2)
    bury(forest, b"1", b"2", b"3")
    forest.settle(2.0)
    assert [message.payload for _, message in hq.dead()] == [b"2", b"3"]
    assert hq.core.counters["dead_overflow"] == 1


def test_dead_letters_are_bounded_by_size(forest: Forest) -> None:
    hq = forest.add("hq", dead_bytes=2500)
    bury(forest, *(secrets.token_bytes(1000) for _ in range(3)))
    forest.settle(2.0)
    assert len(hq.dead()) == 2
    assert hq.core.counters["dead_overflow"] == 1


def test_dead_letters_are_bounded_by_age_in_running_time(forest: Forest) -> None:
    hq = forest.add("hq", dead_age=60.0)
    bury(forest, b"1")
    hq.crash()
    forest.now += 10_000.0
    hq.boot()
    forest.settle(30.0)
    assert len(hq.dead()) == 1
    forest.settle(40.0)
    assert hq.dead() == []
    assert hq.core.counters["dead_overflow"] == 1


# --- retention of routes and subscriptions


@pytest.mark.parametrize("parent_crashes", [False, True])
def test_routes_of_a_child_that_stays_away_end_after_their_retention(
    forest: Forest, parent_crashes: bool
) -> None:
    hq = forest.add("hq", route_retention=60.0)
    york = forest.add("york", "hq")
    forest.dial_all()
    forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    if parent_crashes:
        hq.crash()
        york.crash()
        hq.boot()
    else:
        york.crash()
    forest.settle(50.0)
    assert {str(key) for key in hq.core.table.routes_of("york")} == {"queue:prices", "domain:york"}
    forest.settle(20.0)
    assert hq.core.table.routes_of("york") == {}


def test_the_time_that_a_child_was_away_goes_on_over_a_restart(forest: Forest) -> None:
    hq = forest.add("hq", route_retention=60.0)
    york = forest.add("york", "hq")
    forest.dial_all()
    forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    york.crash()
    forest.settle(40.0)
    hq.crash()
    hq.boot()
    forest.settle(5.0)
    assert hq.core.table.routes_of("york") != {}
    forest.settle(30.0)
    assert hq.core.table.routes_of("york") == {}


def test_a_durable_subscription_without_its_reader_ends_after_its_retention(forest: Forest) -> None:
    hq = forest.add("hq", subscription_retention=60.0)
    reader = forest.consumer("hq", "topic:prices/#", durable="audit")
    forest.settle(1.0)
    reader.disconnect()
    forest.settle(50.0)
    assert len(hq.core.topics.subscriptions) == 1
    hq.crash()
    hq.boot()
    forest.settle(5.0)
    assert len(hq.core.topics.subscriptions) == 1
    forest.settle(70.0)
    assert not hq.core.topics.subscriptions
    assert not hq.core.table.match("prices/tea").gateways


# --- ids of what may come twice


@pytest.mark.parametrize(("later", "again"), [(30.0, False), (100.0, True)])
def test_a_duplicate_is_known_within_the_window_and_not_after_it(
    forest: Forest, later: float, again: bool
) -> None:
    hq = forest.add("hq", dedup_window=60.0)
    forest.add("york", "hq")
    forest.dial_all()
    reader = forest.consumer("hq", "queue:sales")
    forest.settle(1.0)
    payload = bundles.encode_message(Message(b"sold"))
    header = Header(
        id=b"i" * 16,
        destination=queue("sales"),
        flags=Flag.PERSISTENT | Flag.MAYBE_DUPLICATE,
        count=1,
        size=len(payload),
        origin="york",
    )

    def arrive() -> None:
        hq.core.arrivals.from_neighbour(hq.core.neighbours["york"], copy(header), payload)
        forest.settle(0.5)

    arrive()
    arrive()
    assert reader.payloads == [b"sold"]
    forest.settle(later)
    hq.core.arrivals.from_neighbour(hq.core.neighbours["york"], copy(header), payload)
    forest.settle(1.0)
    assert reader.payloads == ([b"sold", b"sold"] if again else [b"sold"])
    assert hq.core.counters["duplicates_dropped"] == (1 if again else 2)
