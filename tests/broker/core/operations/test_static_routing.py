"""Static routes in trees of real cores: what takes them, what survives a restart, what goes with whom."""

import pytest

from broker.core.errors import BadRequest, NotFound, SwitchError
from broker.core.settings import QueuePolicy
from sapwood.protocol.destinations import queue
from simulation.forest import Forest
from treeconnector.static_routes import StaticKind


def numbers(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


@pytest.fixture
def forest(fork: Forest) -> Forest:
    return fork


def test_an_alias_leads_to_another_address_through_the_tree(forest: Forest) -> None:
    consumer = forest.consumer("york", "queue:checkout")
    forest.settle()
    forest["hq"].core.static_routing.add("alias", "till", "checkout")
    producer = forest.producer("south")
    producer.send("queue:till", *numbers(3))
    forest.settle()
    assert len(consumer.payloads) == 3


def test_what_waits_under_a_new_alias_goes_on(forest: Forest) -> None:
    consumer = forest.consumer("south", "queue:checkout")
    forest.producer("hq").send("queue:till", *numbers(2))
    forest.settle()
    assert not consumer.payloads
    forest["hq"].core.static_routing.add("alias", "till", "checkout@south")
    forest.settle()
    assert len(consumer.payloads) == 2
    assert forest["hq"].waiting() == 0


def test_a_local_cell_wins_over_its_alias_until_it_goes(forest: Forest) -> None:
    here, there = forest.consumer("hq", "queue:till"), forest.consumer("south", "queue:checkout")
    forest.settle()
    forest["hq"].core.static_routing.add("alias", "till", "checkout")
    forest.producer("hq").send("queue:till", *numbers(1))
    forest.settle()
    assert (len(here.payloads), len(there.payloads)) == (1, 0)
    here.disconnect()
    forest.settle()
    forest.producer("hq", "second").send("queue:till", *numbers(1))
    forest.settle()
    assert (len(here.payloads), len(there.payloads)) == (1, 1)


def test_an_exact_route_comes_before_what_consumers_said(forest: Forest) -> None:
    north, south = forest.consumer("york", "queue:till"), forest.consumer("south", "queue:till")
    forest.settle()
    forest["hq"].core.static_routing.add("exact", "till", "south")
    forest.producer("hq").send("queue:till", *numbers(20))
    forest.settle()
    assert (len(north.payloads), len(south.payloads)) == (0, 20)


def test_a_default_route_that_is_down_is_skipped_while_another_is_up(forest: Forest) -> None:
    core = forest["hq"].core
    for name in ("north", "south"):
        core.static_routing.add("default", "", name)
    forest["north"].core.static_routing.add("alias", "lost", "found@north")
    forest["south"].core.static_routing.add("alias", "lost", "found@south")
    chosen = core.lookup.way(queue("lost")).gateways[0]
    wire = forest.wire_of(chosen)
    assert wire is not None
    forest.cut(wire)
    forest.settle()
    (other,) = {"north", "south"} - {chosen}
    forest.producer("hq").send("queue:lost", *numbers(2))
    forest.settle()
    assert forest[other].core.custody.queue_for(queue("found", other)).messages == 2
    forest.dial(chosen)
    forest.settle()
    assert core.lookup.way(queue("lost")).gateways == (chosen,)


def test_what_is_for_a_node_above_goes_up_whatever_default_leads_down(forest: Forest) -> None:
    forest["north"].core.static_routing.add("default", "", "york")
    queues = [queue(f"answers-{number}", "hq") for number in range(20)]
    consumers = [forest.consumer("hq", f"queue:{each.name}") for each in queues]
    producer = forest.producer("north")
    for each in queues:
        producer.send(str(each), b"x")
    forest.settle()
    assert [len(each.payloads) for each in consumers] == [1] * len(queues)
    assert forest["york"].core.counters["in"] == 0


def test_no_default_takes_what_nodes_ask_each_other(forest: Forest) -> None:
    """Else a default that leads in a circle could not be seen, or removed, from another node."""
    core = forest["north"].core
    core.static_routing.add("default", "", "york")
    for number in range(20):
        assert core.lookup.way(queue(f"System.{number}", "south")).gateways == ("hq",)
    ways = {core.lookup.way(queue(f"answers-{number}", "south")).gateways for number in range(20)}
    assert ways == {("hq",), ("york",)}


def test_the_dumpster_takes_what_nothing_else_does_and_keeps_its_address(forest: Forest) -> None:
    hq = forest["hq"]
    forest.producer("york").send("queue:nobody", *numbers(2))
    forest.producer("york", "second").send("queue:till@nowhere", *numbers(1))
    forest.settle()
    hq.core.static_routing.add("dumpster", "", "lost")
    forest.producer("south").send("queue:noone", *numbers(1))
    forest.settle()
    lost = hq.core.custody.queue_for(queue("lost"))
    addresses = [str(copy.stored.header.destination) for copy in lost.waiting]
    assert sorted(addresses) == ["queue:nobody", "queue:noone", "queue:till@nowhere"]
    assert lost.messages == 4
    hq.crash()
    hq.boot()
    forest.dial_all()
    forest.settle()
    lost = hq.core.custody.queue_for(queue("lost"))
    assert lost.messages == 4
    consumer = forest.consumer("hq", "queue:lost")
    forest.settle()
    assert len(consumer.payloads) == 4
    assert hq.waiting() == 0


def test_the_dumpster_stays_where_it_is_and_takes_no_queue_that_was_made_here(forest: Forest) -> None:
    elsewhere = forest.consumer("south", "queue:lost")
    reader = forest.consumer("hq", "queue:orders")
    forest.settle()
    reader.disconnect()
    forest["hq"].core.static_routing.add("dumpster", "", "lost")
    forest.producer("hq").send("queue:orders", *numbers(1))
    forest.producer("hq", "second").send("queue:nobody", *numbers(1))
    forest.settle()
    assert not elsewhere.payloads
    assert forest["hq"].core.custody.queue_for(queue("orders")).messages == 1
    assert forest["hq"].core.custody.queue_for(queue("lost")).messages == 1


def test_a_full_dumpster_takes_no_more_and_what_is_for_nobody_waits(forest: Forest) -> None:
    hq = forest["hq"].core
    hq.static_routing.add("dumpster", "", "lost")
    most = hq.settings.policy(queue("lost")).max_messages
    lost = hq.custody.queue_for(queue("lost"))
    lost.messages += most
    forest.producer("south").send("queue:nobody", *numbers(2))
    forest.settle()
    assert hq.custody.queue_for(queue("nobody")).messages == 2
    lost.messages -= most
    forest.producer("south", "second").send("queue:nobody", *numbers(1))
    forest.settle()
    assert (hq.custody.queue_for(queue("nobody")).messages, lost.messages) == (0, 3)


def test_a_neighbour_that_was_held_back_goes_on_when_an_alias_makes_room() -> None:
    forest = Forest()
    hq = forest.add("hq", policies=(QueuePolicy(pattern="till", max_messages=2),))
    forest.add("york", "hq")
    forest.dial_all()
    forest.settle()
    for name in ("one", "another", "third"):
        forest.producer("york", name).send("queue:till", *numbers(2))
        forest.settle()
    till = hq.core.custody.queue_for(queue("till"))
    assert set(till.held_back) == {"york"}
    assert till.messages < 6
    consumer = forest.consumer("hq", "queue:checkout")
    hq.core.static_routing.add("alias", "till", "checkout")
    forest.settle()
    assert len(consumer.payloads) == 6
    assert not till.held_back


def test_static_routes_outlive_a_restart_and_go_with_their_neighbour(forest: Forest) -> None:
    hq = forest["hq"]
    words = [
        ("exact", "till@york", "north"),
        ("alias", "a", "b"),
        ("default", "", "north"),
        ("dumpster", "", "lost"),
    ]
    for each in words:
        hq.core.static_routing.add(*each)
    forest.settle()
    before = list(hq.core.table.static)
    hq.crash()
    hq.boot()
    assert list(hq.core.table.static) == before
    assert len(before) == 4
    hq.core.relocation.forget(hq.core.neighbours["north"], moved=False)
    forest.settle()
    assert [route.kind for route in hq.core.table.static] == [StaticKind.ALIAS, StaticKind.DUMPSTER]
    hq.crash()
    hq.boot()
    assert [route.kind for route in hq.core.table.static] == [StaticKind.ALIAS, StaticKind.DUMPSTER]


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        (("exact", "till", "york"), NotFound, "hq has no neighbour 'york': it has north, south"),
        (("alias", "till", "System@york"), SwitchError, "queue:System@york is the nodes' own"),
        (("alias", "lm", "till"), SwitchError, "queue:lm is the nodes' own"),
        (("dumpster", "", "System.x"), SwitchError, "the nodes' own"),
        (("queue", "till", "north"), BadRequest, "are not set by hand"),
        (("exact", "till@hq", "north"), SwitchError, "queue:till@hq is here"),
        (("exact", "till@", "north"), BadRequest, "is no node name"),
    ],
)
def test_mistakes_are_said(
    forest: Forest, words: tuple[str, str, str], error: type[SwitchError], text: str
) -> None:
    with pytest.raises(error, match=text):
        forest["hq"].core.static_routing.add(*words)


def test_the_parent_is_a_default_by_itself_and_twice_is_once_too_often(forest: Forest) -> None:
    routing = forest["north"].core.static_routing
    with pytest.raises(SwitchError, match="the parent 'hq' is a default route already"):
        routing.add("default", "", "hq")
    routing.add("alias", "a", "b@north")
    with pytest.raises(SwitchError, match="the route alias queue:a -> queue:b@north is there already"):
        routing.add("alias", "a", "b@north")
    routing.remove("alias", "a", "b@north")
    with pytest.raises(NotFound, match="there is no route alias queue:a"):
        routing.remove("alias", "a", "b@north")
    assert repr(routing).startswith("<StaticRouting of north <StaticRoutes exact=0")


def test_queues_of_one_zone_are_preferred_while_they_are_up() -> None:
    forest = Forest()
    hq = forest.add("hq")
    for name in ("north", "south"):
        forest.add(name, "hq")
    forest.dial_all()
    forest.settle()
    north, south = forest.consumer("north", "queue:till"), forest.consumer("south", "queue:till")
    forest.settle()
    hq.core.lookup.zone = "uk"
    hq.core.neighbours["south"].detail.zone = "uk"
    forest.producer("hq").send("queue:till", *numbers(10))
    forest.settle()
    assert (len(north.payloads), len(south.payloads)) == (0, 10)
    wire = forest.wire_of("south")
    assert wire is not None
    forest.cut(wire)
    forest.producer("hq", "second").send("queue:till", *numbers(10))
    forest.settle()
    assert len(north.payloads) == 10
