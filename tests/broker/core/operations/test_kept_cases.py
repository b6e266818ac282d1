"""dCache's cases of a routing table and of single routes, kept as cases of behaviour in trees of cores."""

import pytest

from broker.core.errors import BadRequest, SwitchError
from sapwood.protocol.destinations import Destination, domain, parse, queue
from sapwood.protocol.errors import RouteError
from simulation.forest import Forest
from treeconnector.routes import RoutingTable
from treeconnector.static_routes import StaticKind, StaticRoute, static_route

EVERYWHERE = {"north", "south", "west"}

# --- one route, as it is written


@pytest.mark.parametrize(
    ("words", "destination", "to"),
    [
        (("exact", "a@b", "gateway"), queue("a", "b"), "gateway"),
        (("exact", "a", "gateway"), queue("a"), "gateway"),
        (("exact", "a@local", "gateway"), queue("a"), "gateway"),
        (("alias", "a@b", "other"), queue("a", "b"), "queue:other"),
        (("default", "", "gateway"), None, "gateway"),
        (("dumpster", "", "lost"), None, "lost"),
    ],
)
def test_a_route_knows_what_it_is_for_and_where_it_leads(
    words: tuple[str, str, str], destination: Destination | None, to: str
) -> None:
    assert static_route(*words) == StaticRoute(StaticKind(words[0]), destination, to)


@pytest.mark.parametrize("kind", ["queue", "domain", "topic", "*@*", ""])
def test_routes_that_follow_consumers_and_links_are_not_set_by_hand(kind: str) -> None:
    with pytest.raises(RouteError, match="not set by hand: expected exact, alias, default, dumpster"):
        static_route(kind, "a@b", "gateway")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("exact", "a@b", "gateway1"), ("exact", "a@b", "gateway2")),
        (("exact", "a@b", "gateway1"), ("exact", "a@c", "gateway1")),
        (("exact", "a@b", "gateway1"), ("exact", "c@b", "gateway1")),
        (("dumpster", "", "gateway1"), ("default", "", "gateway1")),
    ],
)
def test_routes_that_differ_in_anything_are_two(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    first, second = static_route(*one), static_route(*other)
    assert first != second
    assert len({first, second, static_route(*one)}) == 2


def test_a_queue_s_route_holds_for_any_node_and_a_node_s_for_any_cell() -> None:
    assert parse("queue:a@york").route_key == parse("queue:b@york").route_key == domain("york")
    assert parse("queue:a").route_key == queue("a")
    assert len({queue("york"), domain("york")}) == 2


# --- a table of them


@pytest.fixture
def tree() -> Forest:
    """hq over north and south; nobody reads anything yet."""
    made = Forest()
    made.add("hq")
    made.add("north", "hq", "branch")
    made.add("south", "hq", "branch")
    made.dial_all()
    made.settle(1.0)
    return made


def ways(forest: Forest, name: str, site: str = "hq") -> tuple[str, tuple[str, ...]]:
    _, how, gateways = forest[site].core.lookup.way(queue(name))
    return how, gateways


def queues(table: RoutingTable) -> list[str]:
    return [key.name for key in table if key.kind == "queue"]


def test_a_queue_s_route_comes_is_found_and_goes_with_its_consumer(tree: Forest) -> None:
    table = tree["hq"].core.table
    assert queues(table) == []
    consumer = tree.consumer("north", "queue:cell-a")
    tree.settle(1.0)
    assert queues(table) == ["cell-a"]
    assert ways(tree, "cell-a") == ("queue", ("north",))
    assert ways(tree, "cell-b") == ("none", ())
    consumer.disconnect()
    tree.settle(1.0)
    assert queues(table) == []
    assert ways(tree, "cell-a") == ("none", ())


def test_all_routes_through_a_gateway_go_with_it(tree: Forest) -> None:
    tree.consumer("north", "queue:cell-a")
    tree.settle(1.0)
    tree["hq"].core.static_routing.add("exact", "cell-b", "north")
    tree["hq"].core.static_routing.add("default", "", "north")
    link = tree["north"].core.neighbours["hq"].link
    assert link is not None
    tree["north"].core.admission.handle(link, link.goodbye("leaves"))
    tree.settle(1.0)
    assert not tree["hq"].core.table.routes_of("north")
    assert list(tree["hq"].core.table.static) == []


def test_of_several_routes_for_a_queue_all_are_used(tree: Forest) -> None:
    readers = [tree.consumer(name, "queue:cell-a") for name in ("north", "south")]
    tree.settle(1.0)
    for number in range(10):
        tree.producer("hq", f"p{number}").send("queue:cell-a", b"%d" % number)
        tree.settle()
    assert all(reader.payloads for reader in readers)
    assert sum(len(reader.payloads) for reader in readers) == 10


def test_of_several_defaults_one_address_always_takes_the_same(tree: Forest) -> None:
    assert not tree["hq"].core.table.static.defaults
    assert ways(tree, "cell-a") == ("none", ())
    for name in ("north", "south"):
        tree["hq"].core.static_routing.add("default", "", name)
    assert len({ways(tree, "cell-a") for _ in range(10)}) == 1
    assert {ways(tree, f"cell-{number}")[1] for number in range(20)} == {("north",), ("south",)}


def in_zones(zone: str) -> Forest:
    """hq in a zone, over north in uk, south in fr and west in none."""
    forest = Forest()
    forest.add("hq", zone=zone)
    for name, its_own in (("north", "uk"), ("south", "fr"), ("west", "")):
        forest.add(name, "hq", "branch", zone=its_own)
    forest.dial_all()
    forest.settle(1.0)
    return forest


def test_of_several_defaults_those_of_the_own_zone_are_taken() -> None:
    forest = in_zones("uk")
    for name in ("north", "south", "west"):
        forest["hq"].core.static_routing.add("default", "", name)
    assert {ways(forest, f"cell-{number}")[1] for number in range(20)} == {("north",)}
    wire = forest.wire_of("north")
    assert wire is not None
    forest.cut(wire)
    assert {ways(forest, f"cell-{number}")[1] for number in range(20)} == {("south",), ("west",)}


@pytest.mark.parametrize("zone", ["", "nl"])
def test_of_several_defaults_in_other_zones_one_address_always_takes_the_same(zone: str) -> None:
    forest = in_zones(zone)
    for name in ("north", "south", "west"):
        forest["hq"].core.static_routing.add("default", "", name)
    assert len({ways(forest, "cell-a") for _ in range(10)}) == 1
    assert {ways(forest, f"cell-{number}")[1] for number in range(40)} == {("north",), ("south",), ("west",)}


@pytest.mark.parametrize(
    ("zone", "taken"),
    [("uk", {"north"}), ("fr", {"south"}), ("", EVERYWHERE), ("nl", EVERYWHERE)],
)
def test_of_several_routes_for_a_queue_those_of_the_own_zone_are_taken(zone: str, taken: set[str]) -> None:
    forest = in_zones(zone)
    readers = {name: forest.consumer(name, "queue:cell-a") for name in EVERYWHERE}
    forest.settle(1.0)
    assert ways(forest, "cell-a") == ("queue", tuple(sorted(taken)))
    for number in range(12):
        forest.producer("hq", f"p{number}").send("queue:cell-a", b"%d" % number)
        forest.settle()
    assert {name for name, reader in readers.items() if reader.payloads} == taken
    assert sum(len(reader.payloads) for reader in readers.values()) == 12


def test_a_queue_read_in_another_zone_alone_is_served_there() -> None:
    forest = in_zones("uk")
    reader = forest.consumer("south", "queue:cell-a")
    forest.settle(1.0)
    forest.producer("hq", "p").send("queue:cell-a", b"over the border")
    forest.settle()
    assert reader.payloads == [b"over the border"]


@pytest.mark.parametrize(
    ("kind", "destination", "to"),
    [
        ("exact", "*@a", "north"),
        ("exact", "*", "north"),
        ("exact", "*@local", "north"),
        ("exact", "a@*", "north"),
        ("exact", "*@*", "north"),
        ("alias", "*@a", "b"),
        ("alias", "a", "*@b"),
        ("default", "*@*", "north"),
        ("dumpster", "", "*"),
    ],
)
def test_a_star_is_no_cell_and_no_node(tree: Forest, kind: str, destination: str, to: str) -> None:
    with pytest.raises(BadRequest):
        tree["hq"].core.static_routing.add(kind, destination, to)
    assert not list(tree["hq"].core.table.static)


def test_a_route_is_added_and_removed_once(tree: Forest) -> None:
    routing = tree["hq"].core.static_routing
    routing.add("exact", "cell-a", "north")
    with pytest.raises(SwitchError, match="is there already"):
        routing.add("exact", "cell-a", "north")
    routing.remove("exact", "cell-a", "north")
    with pytest.raises(SwitchError, match="there is no route"):
        routing.remove("exact", "cell-a", "north")
    with pytest.raises(BadRequest):
        routing.add("queue", "cell-a", "north")
