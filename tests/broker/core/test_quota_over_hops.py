"""A session's quota holds where its messages wait; a full queue elsewhere makes them wait here."""

from itertools import pairwise

import pytest

from broker.core.settings import CoreSettings, QueuePolicy
from simulation.clients import Producer
from simulation.forest import Forest
from treeconnector.link import LinkSettings

QUOTA, ROOM = 10, 20
WAY = ("hq", "uk", "north", "york")


def chain(hops: int, links: LinkSettings | None = None, quota: int = QUOTA) -> Forest:
    """A line of nodes with york at its end; 'orders' has room for a few at HQ. All else has its defaults."""
    forest = Forest(CoreSettings(queue_quota=quota), links or LinkSettings())
    names = [*WAY[:hops], "york"]
    forest.add("hq", policies=(QueuePolicy(pattern="orders", max_messages=ROOM),))
    for parent, name in pairwise(names):
        forest.add(name, parent, "leaf" if name == "york" else "branch")
    for _ in range(hops):
        forest.dial_all()
        forest.settle()
    return forest


def orders(forest: Forest, name: str, called: str = "orders") -> int:
    """How many wait in the queue at this node?"""
    queue = forest[name].core.custody.queues.get(f"queue:{called}")
    return 0 if queue is None else queue.messages


def send(forest: Forest, producer: Producer, count: int, to: str = "orders") -> int:
    """How many of these enter at york?"""
    refused = forest["york"].core.message_admission.refused
    before = refused["QUEUE_FULL"]
    for number in range(count):
        producer.send(f"queue:{to}", b"%d" % number)
        forest.settle()
    return count - (refused["QUEUE_FULL"] - before)


@pytest.mark.parametrize("hops", [1, 2, 3])
@pytest.mark.parametrize("links", [LinkSettings(), LinkSettings(window_bundles=8)], ids=["default", "narrow"])
def test_a_producer_is_refused_once_the_queue_is_full_where_it_lies_and_its_quota_is_used_up(
    hops: int, links: LinkSettings
) -> None:
    forest = chain(hops, links)
    producer = forest.producer("york")
    entered = send(forest, producer, 300)
    assert ROOM + QUOTA <= entered <= ROOM + QUOTA + hops * 2
    assert orders(forest, "york") == QUOTA
    reader = forest.consumer("hq", "queue:orders")
    forest.settle(5.0)
    assert len(reader.payloads) == entered
    producer.send("queue:orders", b"again")
    forest.settle(1.0)
    assert reader.payloads[-1] == b"again"


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_of_a_burst_no_more_goes_up_than_the_windows_take(hops: int) -> None:
    window = 4
    forest = chain(hops, LinkSettings(window_bundles=window), quota=1000)
    producer = forest.producer("york")
    for number in range(300):
        producer.send("queue:orders", b"%d" % number)
        forest.sites["york"].run()
    forest.settle(5.0)
    assert all(orders(forest, name) <= 2 * window for name in WAY[1:hops])
    assert orders(forest, "hq") <= ROOM + 2 * window
    assert orders(forest, "york") >= 300 - ROOM - hops * 2 * window


@pytest.mark.parametrize("lost", ["line", "node above"])
def test_a_line_that_comes_back_brings_one_bundle_to_a_full_queue(lost: str) -> None:
    """However often it breaks: what was held before goes on only once the queue has room."""
    forest = chain(1, quota=1000)
    send(forest, forest.producer("york"), 300)
    full = orders(forest, "hq")
    for breaks in range(1, 6):
        wire = forest.wire_of("york")
        assert wire is not None
        forest.cut(wire)
        if lost == "node above":
            forest["hq"].crash()
            forest["hq"].boot()
        forest.settle(1.0)
        forest.heal(5.0)
        assert orders(forest, "hq") == full + breaks
        assert orders(forest, "york") == 300 - full - breaks
    reader = forest.consumer("hq", "queue:orders")
    forest.settle(5.0)
    assert reader.payloads == [b"%d" % number for number in range(300)]


def test_a_node_that_starts_again_brings_one_bundle_to_each_full_queue_below_it() -> None:
    """It has forgotten what the other asked it to keep: each start brought a whole window."""
    full_ones = ("orders", "prices", "sales")
    policies = tuple(QueuePolicy(pattern=name, max_messages=ROOM) for name in full_ones)
    forest = Forest(CoreSettings(queue_quota=1000), LinkSettings())
    forest.add("hq")
    forest.add("bath", "hq", "leaf", policies=policies)
    forest.heal(5.0)
    readers = [forest.consumer("bath", f"queue:{name}", name, credit=1, auto=False) for name in full_ones]
    forest.settle(1.0)
    producer = forest.producer("hq")
    for number in range(100):
        for name in full_ones:
            producer.send(f"queue:{name}", b"%d" % number)
        forest.settle()
    full = [orders(forest, "bath", name) for name in full_ones]
    for starts in range(1, 4):
        forest["hq"].crash()
        forest["hq"].boot()
        forest.heal(5.0)
        assert [orders(forest, "bath", name) for name in full_ones] == [each + starts for each in full]
    for reader in readers:
        reader.disconnect()
    for name in full_ones:
        late = forest.consumer("bath", f"queue:{name}", "late")
        forest.settle(10.0)
        assert sorted(late.payloads, key=int) == [b"%d" % number for number in range(100)]


def test_a_core_brings_no_window_to_a_queue_that_is_full_for_another_which_is_killed() -> None:
    """The other core of two knew nothing of it: 80 came into a queue of 20."""
    forest = Forest(CoreSettings(queue_quota=1000), LinkSettings())
    forest.add_mesh("c1", "c2")
    forest.add("york", "c1", "leaf")
    forest.add("bath", "c1", "leaf", policies=(QueuePolicy(pattern="orders", max_messages=ROOM),))
    forest.heal(5.0)
    reader = forest.consumer("bath", "queue:orders", credit=1, auto=False)
    forest.settle(1.0)
    send(forest, forest.producer("york"), 300)
    full = orders(forest, "bath")
    assert full < 2 * ROOM
    (victim,) = (name for name in ("c1", "c2") if orders(forest, name))
    for kills in range(1, 4):
        forest[victim].crash()
        forest.settle(3.0)
        forest[victim].boot()
        forest.heal(5.0)
        assert orders(forest, "bath") <= full + kills
    reader.disconnect()
    late = forest.consumer("bath", "queue:orders", "late")
    forest.settle(10.0)
    assert sorted(late.payloads, key=int) == [b"%d" % number for number in range(300)]
    assert not any(forest[name].core.neighbours["bath"].peer_holds for name in ("c1", "c2"))


def test_a_line_that_comes_back_tries_a_destination_where_there_is_room_again() -> None:
    forest = chain(1, quota=1000)
    send(forest, forest.producer("york"), 100)
    wire = forest.wire_of("york")
    assert wire is not None
    forest.cut(wire)
    forest.settle(1.0)
    reader = forest.consumer("hq", "queue:orders")
    forest.heal(5.0)
    assert reader.payloads == [b"%d" % number for number in range(100)]
    assert not forest["york"].core.neighbours["hq"].peer_holds


def test_what_was_held_for_a_node_above_goes_on_where_a_reader_comes_on_the_way() -> None:
    forest = chain(3)
    producer = forest.producer("york")
    entered = send(forest, producer, 100)
    reader = forest.consumer("north", "queue:orders")
    forest.settle(5.0)
    assert send(forest, producer, 100) == 100
    assert len(reader.payloads) >= entered - ROOM


@pytest.mark.parametrize("gone", ["expired", "purged"])
def test_what_was_held_goes_on_where_a_reader_comes_after_the_nodes_own_messages_have_gone(gone: str) -> None:
    """york below north below uk below hq, and bath below uk: uk has nothing to route again for bath."""
    forest = chain(3)
    forest.add("bath", "uk", "leaf")
    forest.dial_all()
    stuck = forest.consumer("hq", "queue:orders", "stuck", auto=False)
    forest.settle(1.0)
    producer = forest.producer("york")
    for number in range(100):
        expires = 20_000 if gone == "expired" and number < ROOM + 3 else 0
        producer.send("queue:orders", b"%d" % number, expires_in=expires)
        forest.settle()
    removal = forest["uk"].core.removal
    assert orders(forest, "uk") == 1
    if gone == "expired":
        forest.settle(30.0)
    else:
        waiting = removal.empty_queue("orders")
        assert removal.purge(waiting.take(10)) == 1
    assert (orders(forest, "uk"), orders(forest, "york") > 5) == (0, True)
    reader = forest.consumer("bath", "queue:orders")
    forest.settle(60.0)
    assert orders(forest, "hq") == ROOM == len(stuck.payloads)
    assert orders(forest, "york") == orders(forest, "north") == 0
    assert len(reader.payloads) >= QUOTA - 1
    assert send(forest, producer, 100) == 100


def test_what_was_held_for_a_node_above_goes_on_when_its_line_is_lost() -> None:
    forest = chain(3)
    producer = forest.producer("york")
    send(forest, producer, 100)
    wire = forest.wire_of("uk")
    assert wire is not None
    forest.cut(wire)
    forest.settle(30.0)
    assert orders(forest, "york") == 0, "they go as far up as they can"
    assert send(forest, producer, 100) == 100
    forest.heal(30.0)
    send(forest, producer, 100)
    assert orders(forest, "york") == QUOTA
    assert orders(forest, "hq") <= ROOM + 2 * forest.links.window_bundles


@pytest.mark.parametrize("together", [True, False])
def test_an_alias_leads_round_no_quota_and_no_bound_of_its_queue_where_messages_enter(together: bool) -> None:
    """Nor do both names in one turn of the loop."""
    forest = Forest(CoreSettings(queue_quota=QUOTA), LinkSettings())
    hq = forest.add("hq", policies=(QueuePolicy(pattern="orders", max_messages=ROOM),))
    forest.settle()
    hq.core.static_routing.add("alias", "sell", "orders")
    for name in ("one", "another", "third"):
        producer = forest.producer("hq", name)
        for number in range(30):
            for to in ("queue:sell", "queue:orders"):
                producer.send(to, b"%d" % number)
                if not together:
                    forest.settle()
        forest.settle()
        assert len(producer.rejected) >= 60 - QUOTA
        assert {reject.code for reject in producer.rejected} == {"QUEUE_FULL"}
        limits = f"max_messages is {ROOM}, max_bytes {4 * 1024**3}, and queue_quota {QUOTA} "
        assert all(limits in reject.text for reject in producer.rejected)
    assert orders(forest, "hq") <= ROOM
    assert orders(forest, "hq", "sell") == 0


@pytest.mark.parametrize("at", ["hq", "uk", "york"])
def test_a_queue_is_held_under_its_alias_as_well_wherever_that_is_set(at: str) -> None:
    forest = chain(2)
    forest[at].core.static_routing.add("alias", "sell", "orders")
    producer = forest.producer("york")
    entered = send(forest, producer, 100, "sell")
    assert ROOM + QUOTA <= entered <= ROOM + QUOTA + 4
    assert orders(forest, "york", "orders" if at == "york" else "sell") == QUOTA
    reader = forest.consumer("hq", "queue:orders")
    forest.settle(5.0)
    assert len(reader.payloads) == entered
    assert send(forest, producer, 50, "sell") == 50
    assert len(reader.payloads) == entered + 50


def test_a_hold_under_an_alias_ends_with_the_alias() -> None:
    forest = chain(2)
    routing = forest["hq"].core.static_routing
    routing.add("alias", "sell", "orders")
    producer = forest.producer("york")
    send(forest, producer, 100, "sell")
    assert orders(forest, "york", "sell") == QUOTA
    routing.remove("alias", "sell", "orders")
    forest.settle(5.0)
    assert orders(forest, "york", "sell") == 0
    assert orders(forest, "hq", "sell") > QUOTA
    assert orders(forest, "hq") >= ROOM


def test_a_hold_for_a_node_above_ends_where_an_alias_leads_to_another_queue() -> None:
    forest = chain(3)
    producer = forest.producer("york")
    entered = send(forest, producer, 100)
    forest["uk"].core.static_routing.add("alias", "orders", "others")
    reader = forest.consumer("hq", "queue:others")
    forest.settle(5.0)
    assert len(reader.payloads) == entered - ROOM
    assert orders(forest, "york") == orders(forest, "north") == 0
    assert send(forest, producer, 100) == 100


def test_very_many_full_queues_end_no_link_and_what_is_not_held_goes_on() -> None:
    """Their names are as long as names may be, so that their bytes count, not their number."""
    forest = Forest(CoreSettings(), LinkSettings())
    forest.add("hq", policies=(QueuePolicy(pattern="#", max_messages=1),))
    forest.add("uk", "hq", "branch")
    forest.add("york", "uk", "leaf")
    for _ in range(2):
        forest.dial_all()
        forest.settle()
    wire, producer = forest.wire_of("uk"), forest.producer("york")
    queues = [f"queue:{number:05d}{chr(0x1F600) * 245}" for number in range(4000)]
    for start in range(0, len(queues), 50):
        for queue in queues[start : start + 50]:
            producer.send(queue, b"1")
        forest.settle()
    forest.settle(5.0)
    assert forest.wire_of("uk") is wire
    held = forest["hq"].core.neighbours["uk"].we_hold
    assert 1000 < len(held) < len(queues)
    assert forest["uk"].core.neighbours["hq"].peer_holds.destinations == held.destinations
    for queue in (queues[0], queues[-1]):
        producer.send(queue, b"2")
    forest.settle(1.0)
    waiting = forest["hq"].core.custody.queues
    assert [waiting[queue].messages for queue in (queues[0], queues[-1])] == [1, 2]
    reader = forest.consumer("hq", queues[0])
    forest.settle(3.0)
    assert reader.payloads == [b"1", b"2"]
    assert queues[0] not in held


def test_a_branch_goes_on_with_other_queues() -> None:
    forest = chain(3)
    producer = forest.producer("york")
    send(forest, producer, 100)
    for number in range(50):
        producer.send("queue:parcels", b"%d" % number)
        forest.settle()
    assert forest["hq"].core.custody.queues["queue:parcels"].messages == 50
    assert orders(forest, "york") == QUOTA
