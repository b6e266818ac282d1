"""What the node counts of itself: nothing is lost between coming in and going out."""

import pytest

from broker.core.messages.tally import count_of, mean_of
from broker.core.sessions.sessions import Connection
from broker.histogram import Histogram
from sapwood.protocol.bundles import Message
from sapwood.protocol.destinations import queue
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.link import LinkSettings

PAYLOADS = [b"%d" % number for number in range(40)]


def pair(forest: Forest) -> tuple[Site, Site]:
    hq, york = forest.add("hq"), forest.add("york", "hq")
    forest.dial_all()
    forest.settle()
    return hq, york


def test_what_came_in_is_there_or_has_left(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales", auto=False)
    forest.producer("hq").send("queue:sales", *PAYLOADS)
    forest.settle()
    place = hq.core.custody.queues["queue:sales"]
    assert (place.tally.entered, place.left, place.messages) == (40, 0, 40)
    reader.acknowledge(15)
    forest.settle()
    assert (place.tally.entered, place.left, place.messages) == (40, 15, 25)
    assert [hq.core.counters[name] for name in ("entered", "delivered", "acknowledged")] == [40, 40, 15]


def test_latency_is_from_arrival_to_acknowledgement(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales", auto=False)
    forest.producer("hq").send("queue:sales", *PAYLOADS)
    forest.settle()
    place = hq.core.custody.queues["queue:sales"]
    assert mean_of(place.tally.latency) is None
    forest.pass_time(3.0)
    reader.acknowledge(40)
    assert count_of(place.tally.latency) == count_of(hq.core.statistics.latency) == 40
    assert mean_of(place.tally.latency) == pytest.approx(3.0)
    assert hq.core.statistics.latency.counts[hq.core.statistics.latency.bounds.index(5.0)] == 40


def test_the_latency_that_is_shown_is_that_of_late(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales", auto=False)
    tally = hq.core.custody.queue_for(queue("sales")).tally
    writer = forest.producer("hq")
    writer.send("queue:sales", *PAYLOADS)
    forest.settle()
    assert tally.latency_s is None
    forest.pass_time(100.0)
    reader.acknowledge(40)
    assert tally.latency_s == pytest.approx(100.0)
    for _ in range(30):
        forest.settle(1.0)
        writer.send("queue:sales", b"quick")
        forest.settle()
        reader.acknowledge(1)
    forest.settle(1.0)
    assert tally.latency_s is not None
    assert tally.latency_s < 5.0 < 50.0 < (mean_of(tally.latency) or 0.0)
    quiet = tally.latency_s
    forest.settle(60.0)
    assert tally.latency_s == pytest.approx(quiet)


def test_a_link_has_rates_at_both_ends_and_in_its_status(forest: Forest) -> None:
    hq, york = pair(forest)
    forest.consumer("hq", "queue:sales")
    writer = forest.producer("york")
    forest.settle()
    for _ in range(20):
        writer.send("queue:sales", *PAYLOADS)
        forest.settle(1.0)
    (down,), up = hq.core.context.children(), york.core.parent
    assert up is not None
    for rate in (down.status(hq.now)["in_per_s"], up.status(york.now)["out_per_s"]):
        assert rate == pytest.approx(40.0, rel=0.25)
    assert (down.flow.out_per_s, up.flow.in_per_s) == (0.0, 0.0)
    forest.settle(120.0)
    assert (down.flow.in_per_s, up.flow.out_per_s) == (0.0, 0.0)


def test_what_expired_is_counted_out_of_its_queue_and_into_the_dead_letters(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:sales", b"a", b"b", expires_in=1000)
    forest.producer("hq", "other").send("queue:sales", b"c")
    forest.settle(5.0)
    reader = forest.consumer("hq", "queue:sales")
    forest.settle()
    place = hq.core.custody.queues["queue:sales"]
    assert reader.payloads == [b"c"]
    assert (place.tally.entered, place.left, place.messages) == (3, 3, 0)
    assert hq.core.custody.dead.tally.entered == hq.core.custody.dead.messages == 2


def test_a_part_of_a_bundle_that_is_buried_is_counted_once(forest: Forest) -> None:
    hq = forest.add("hq", max_deliveries=1)
    reader = forest.consumer("hq", "queue:sales", auto=False, credit=1)
    forest.producer("hq").send("queue:sales", *PAYLOADS)
    forest.settle()
    reader.disconnect()
    forest.settle()
    place, dead = hq.core.custody.queues["queue:sales"], hq.core.custody.dead
    assert (place.tally.entered, place.left, place.messages) == (40, 1, 39)
    assert (dead.tally.entered, dead.left, dead.messages) == (1, 0, 1)


def test_rates_rise_and_die_away_and_cost_nothing_then(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.consumer("hq", "queue:sales")
    producer = forest.producer("hq")
    for _ in range(30):
        producer.send("queue:sales", *PAYLOADS)
        forest.settle(1.0)
    place, rates = hq.core.custody.queues["queue:sales"], hq.core.statistics.rates
    assert place.tally.in_per_s == pytest.approx(40, rel=0.2)
    assert place.tally.out_per_s == pytest.approx(40, rel=0.2)
    assert rates.entered_per_s == pytest.approx(40, rel=0.2)
    assert rates.acknowledged_per_s == pytest.approx(40, rel=0.2)
    assert hq.core.custody.stirred == [place]
    forest.settle(90.0)
    assert place.tally.in_per_s == place.tally.out_per_s == hq.core.statistics.rates.entered_per_s == 0
    assert hq.core.custody.stirred == []


def test_what_was_there_at_the_start_did_not_come_in(forest: Forest) -> None:
    hq = forest.add("hq")
    forest.producer("hq").send("queue:sales", *PAYLOADS)
    forest.settle()
    hq.crash()
    hq.boot()
    place = hq.core.custody.queues["queue:sales"]
    assert (place.tally.entered, place.left, place.messages) == (0, 0, 40)
    forest.consumer("hq", "queue:sales")
    forest.settle()
    assert (place.tally.entered, place.left, place.messages) == (0, 40, 0)


def test_links_count_messages_and_bytes_over_all_their_lives(forest: Forest) -> None:
    hq, york = pair(forest)
    forest.producer("hq").send("queue:prices@york", *PAYLOADS)
    forest.settle()
    down, up = hq.core.neighbours["york"], york.core.neighbours["hq"]
    assert (down.counters["out"], up.counters["in"]) == (40, 40)
    assert (hq.core.counters["out"], york.core.counters["in"]) == (40, 40)
    assert down.bytes_out == up.bytes_in > 100
    assert down.heard_at is not None
    before = down.bytes_out
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    assert (down.bytes_out, down.heard_at) == (before, None)
    forest.heal(5.0)
    assert down.bytes_out > before


def test_how_old_the_oldest_is_that_a_link_has_not_passed_on(forest: Forest) -> None:
    links = LinkSettings(window_bundles=1, keep_alive=5.0, dead_after=2.0, handshake_timeout=5.0)
    hq, _ = forest.add("hq", links=links), forest.add("york", "hq", links=links)
    forest.consumer("york", "topic:prices", "reader")
    forest.dial_all()
    forest.settle()
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    neighbour = hq.core.neighbours["york"]
    assert neighbour.oldest() is None
    sent = hq.now
    forest.producer("hq").send("topic:prices", b"a")
    forest.settle()
    forest.pass_time(7.0)
    assert neighbour.oldest() == pytest.approx(sent)
    assert neighbour.status(hq.now)["spool_oldest_s"] == pytest.approx(7.0)


def test_a_connection_counts_what_it_sent_and_was_given(forest: Forest) -> None:
    hq = forest.add("hq")
    reader = forest.consumer("hq", "queue:sales")
    producer = forest.producer("hq")
    forest.pass_time(4.0)
    producer.send("queue:sales", *PAYLOADS)
    forest.settle()
    assert producer.connection is not None
    assert reader.connection is not None
    assert (producer.connection.messages_in, producer.connection.messages_out) == (40, 0)
    assert (reader.connection.messages_in, reader.connection.messages_out) == (0, 40)
    assert producer.connection.heard == hq.now


def test_a_fetching_connection_counts_as_well(forest: Forest) -> None:
    hq = forest.add("hq")
    connection = Connection(lambda frame: None, "127.0.0.1:1", "http")
    switch = hq.core.switch
    switch.login(connection, "till")
    switch.create(connection, "sales")
    switch.subscribe(connection, "sales")
    switch.send(connection, "sales", Message(b"abc"), lambda error: None)
    forest.settle()
    assert len(switch.transfer(connection, -1)) == 1
    assert (connection.messages_in, connection.messages_out) == (1, 1)
    assert (connection.bytes_in, connection.bytes_out) == (3, 3)


def test_a_histogram_s_mean_is_of_all_that_it_saw() -> None:
    histogram = Histogram((1.0, 2.0))
    assert (count_of(histogram), mean_of(histogram), count_of(None), mean_of(None)) == (0, None, 0, None)
    for value in (1.0, 1.5, 6.5):
        histogram.observe(value)
    assert histogram.counts == [1, 1, 1]
    assert (count_of(histogram), mean_of(histogram)) == (3, 3.0)
