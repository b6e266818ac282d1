"""Where a queue's messages go, and where they stay."""

import secrets

import pytest

from broker.core.routing.forwarding import SHARED
from broker.core.settings import QueuePolicy
from sapwood.protocol.destinations import Kind
from simulation.forest import Forest
from simulation.site import Site
from treeconnector.link import LinkSettings

HOME = (QueuePolicy(Kind.QUEUE, "till/#", home=True),)


def pair(forest: Forest, hq: dict[str, object] | None = None, york: dict[str, object] | None = None) -> Site:
    made = forest.add("hq", **(hq or {}))
    forest.add("york", "hq", **(york or {}))
    forest.dial_all()
    forest.settle(1.0)
    return made


def test_a_queue_at_home_stays_on_its_node(forest: Forest) -> None:
    pair(forest, york={"policies": HOME})
    forest.consumer("york", "queue:till", name="creator").disconnect()
    reader = forest.consumer("hq", "queue:till")
    producer = forest.producer("york")
    producer.send("queue:till", b"stays")
    producer.send("queue:sales", b"goes")
    forest.settle(2.0)
    assert reader.payloads == []
    assert forest["york"].waiting() == 1
    here = forest.consumer("york", "queue:till", name="here")
    forest.settle(1.0)
    assert here.payloads == [b"stays"]


def test_a_queue_at_home_stays_before_anybody_has_created_it_and_after_a_start(forest: Forest) -> None:
    pair(forest, york={"policies": HOME})
    away = forest.consumer("hq", "queue:till/1")
    forest.settle(1.0)
    forest.producer("york").send("queue:till/1", b"stays")
    forest.settle(1.0)
    forest["york"].crash()
    forest["york"].boot()
    forest.heal()
    assert (away.payloads, forest["york"].waiting()) == ([], 1)
    here = forest.consumer("york", "queue:till/1", name="here")
    forest.settle(1.0)
    assert (here.payloads, away.payloads) == ([b"stays"], [])


def test_at_home_here_does_not_keep_what_is_directed_elsewhere(forest: Forest) -> None:
    pair(forest, york={"policies": HOME})
    away = forest.consumer("hq", "queue:till/1")
    forest.settle(1.0)
    forest.producer("york").send("queue:till/1@hq", b"goes")
    forest.settle(1.0)
    assert away.payloads == [b"goes"]


def test_creating_a_queue_is_not_interest_reading_it_is(forest: Forest) -> None:
    hq = pair(forest)
    reader = forest.consumer("york", "queue:till")
    forest.settle(1.0)
    reader.unsubscribe()
    forest.settle(1.0)
    forest.producer("hq").send("queue:till", b"one")
    forest.settle(1.0)
    assert (hq.waiting(), forest["york"].waiting()) == (1, 0)


@pytest.mark.parametrize("live", [True, False])
def test_nothing_disappears_behind_an_absent_store_while_another_serves(forest: Forest, live: bool) -> None:
    hq = pair(forest)
    forest.add("bath", "hq")
    forest.dial_all()
    forest.consumer("york", "queue:orders", name="york")
    forest.settle(1.0)
    forest["york"].crash()
    forest.settle(2.0)
    other = forest.consumer("bath", "queue:orders", name="bath") if live else None
    forest.settle(1.0)
    producer = forest.producer("hq")
    for number in range(10):
        producer.send("queue:orders", b"%d" % number)
        forest.settle()
    if other is not None:
        assert other.payloads == [b"%d" % number for number in range(10)]
    else:
        assert hq.waiting() == 10


@pytest.mark.parametrize(("above", "below"), [("hq", "york"), ("york", "hq")])
def test_a_full_spool_makes_the_sender_keep_what_it_has_and_go_on_later(
    forest: Forest, above: str, below: str
) -> None:
    """`below` is where too much arrives: up at HQ, or down at york. It looks once a second."""
    limit: dict[str, object] = {"spool_up" if below == "hq" else "spool_down": 4000}
    pair(forest, **{below: limit})
    reader = forest.consumer(below, "queue:sales", auto=False, credit=1)
    forest.settle(1.0)
    producer = forest.producer(above)
    payloads = [secrets.token_bytes(1000) for _ in range(60)]
    for payload in payloads:
        producer.send("queue:sales", payload)
        forest.settle(0.2)
    forest.settle(3.0)
    assert len(producer.confirmed) == 60
    assert 0 < forest[below].waiting() < 30
    assert forest[above].waiting() > 30
    link = forest[above].core.neighbours[below]
    assert (link.up, link.state) == (True, "blocked")
    assert below in link.why
    while reader.open:
        reader.acknowledge(1)
        forest.settle(1.1)
    assert reader.payloads == payloads


def test_what_waits_for_readers_that_come_back_stays_when_its_store_moves(forest: Forest) -> None:
    """The new region never gave it, and would refuse it."""
    forest.add("hq")
    forest.add("north", "hq", "branch")
    south, york = forest.add("south", "hq", "branch"), forest.add("york", "north")
    forest.heal(2.0)
    reader = forest.consumer("york", "queue:sales", auto=False)
    forest.settle(1.0)
    forest.producer("north").send("queue:sales", b"one")
    forest.settle(1.0)
    york.crash()
    york.parent = "south"
    york.boot()
    forest.heal(2.0)
    assert (york.waiting(), south.dead()) == (1, [])
    reader.connect()
    forest.settle(1.0)
    assert [(each.payload, each.flagged) for each in reader.receipts] == [(b"one", False), (b"one", True)]


def test_what_finds_its_way_free_goes_straight_and_elsewhere_as_soon_as_the_way_is_another(
    forest: Forest,
) -> None:
    hq = pair(forest)
    forest.add("leeds", "hq")
    forest.dial_all()
    york = forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    producer = forest.producer("hq")
    for number in range(3):
        producer.send("queue:prices", b"%d" % number)
        forest.settle(0.2)
    queue = hq.core.custody.queues["queue:prices"]
    assert (queue.next_hop, queue.ways) == ("york", hq.core.table.version)
    assert (york.payloads, queue.tally.entered, queue.messages) == ([b"0", b"1", b"2"], 3, 0)
    leeds = forest.consumer("leeds", "queue:prices")
    york.disconnect()
    forest.settle(10.0)
    producer.send("queue:prices", b"3")
    forest.settle(1.0)
    assert (york.payloads[3:], leeds.payloads) == ([], [b"3"])


def test_what_waits_is_not_overtaken_by_what_would_find_its_way_free(forest: Forest) -> None:
    hq = pair(forest)
    reader = forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    producer = forest.producer("hq")
    producer.send("queue:prices", b"first")
    forest.settle(1.0)
    hq.core.neighbours["york"].peer_holds.add("queue:prices")
    producer.send("queue:prices", b"second")
    forest.settle(0.2)
    hq.core.neighbours["york"].peer_holds.clear()
    producer.send("queue:prices", b"third")
    forest.settle(1.0)
    assert reader.payloads == [b"first", b"second", b"third"]


def test_a_queue_is_forgotten_that_was_idle_at_two_looks(forest: Forest) -> None:
    hq = pair(forest)
    forest.consumer("york", "queue:prices")
    forest.settle(1.0)
    forest.producer("hq").send("queue:prices", b"goes")
    forest.settle(0.2)
    queues = hq.core.custody.queues
    assert "queue:prices" in queues
    forest.settle(3.0)
    assert "queue:prices" not in queues


def test_a_neighbour_is_given_no_more_than_its_part_of_what_another_takes_too() -> None:
    forest = Forest(links=LinkSettings(window_bundles=4 * SHARED))
    hq = forest.add("hq")
    for child in ("york", "bath"):
        forest.add(child, "hq")
        forest.dial_all()
        forest.consumer(child, "queue:shared", name=child)
    forest.consumer("york", "queue:york", name="alone")
    forest.settle(1.0)
    producer = forest.producer("hq")
    for number in range(2 * SHARED + 50):
        producer.send("queue:shared", b"%d" % number)
        hq.run()
    outboxes = [len(hq.core.neighbours[child].outbox) for child in ("york", "bath")]
    assert outboxes == [SHARED, SHARED]
    producer.send("queue:york", b"of one alone")
    hq.run()
    assert len(hq.core.neighbours["york"].outbox) == SHARED + 1
    forest.settle(2.0)
    assert hq.waiting() == 0
