"""Two or three nodes that are one root, or one branch: who links with whom, and what goes which way."""

from dataclasses import replace

import pytest
from departing import depart

from broker.core.links.neighbour import Neighbour
from sapwood.protocol.bundles import Flag
from sapwood.protocol.destinations import queue
from simulation.forest import Forest
from simulation.invariants import check_routes
from simulation.site import Site
from treeconnector.frames import Member
from treeconnector.hellos import MAX_MESH
from treeconnector.relations import Relation
from treeconnector.static_routes import chosen_default

CORES = ("c1", "c2", "c3")


@pytest.fixture
def forest() -> Forest:
    """Three roots that are one, two regions, a store in each, and a store that is linked with the roots."""
    made = Forest()
    made.add_mesh(*CORES)
    for name, parent, role in (
        ("north", "c1", "branch"),
        ("south", "c2", "branch"),
        ("york", "north", "leaf"),
        ("bath", "south", "leaf"),
        ("shop", "c3", "leaf"),
    ):
        made.add(name, parent, role)
    made.heal(5)
    return made


def links(site: Site, relation: Relation) -> list[str]:
    """The neighbours of that relation whose links are up."""
    found = site.core.neighbours.values()
    return sorted(each.name for each in found if each.relation is relation and each.up)


def isolate(forest: Forest, name: str, *others: str) -> None:
    """Cut the lines between a node and some others, for good."""
    for other in others:
        forest.cut_off.append({name, other})
        for wire in (forest.wire_of(name, other), forest.wire_of(other, name)):
            if wire is not None:
                forest.cut(wire)


def core_for(destination: str, cores: tuple[str, ...] = CORES) -> str:
    return chosen_default(queue(destination), cores)


# --- who links with whom


def test_the_smaller_name_dials_and_every_child_links_with_all(forest: Forest) -> None:
    for name in CORES:
        others = [other for other in CORES if other != name]
        assert links(forest[name], Relation.MESH) == others
        assert links(forest[name], Relation.CHILD) == ["north", "shop", "south"]
        assert all(forest.wire_of(name, other) is not None for other in others if name < other)
    for name in ("north", "south", "shop"):
        assert links(forest[name], Relation.PARENT) == list(CORES)
    assert forest["york"].core.ancestry.chain == ["york", "north", "c1"]
    assert forest["bath"].core.ancestry.chain == ["bath", "south", "c1"]
    assert not any(site.errors for site in forest.sites.values())
    check_routes(list(forest.sites.values()))


def test_what_is_wanted_is_known_where_it_can_be_used_and_nowhere_else(forest: Forest) -> None:
    forest.consumer("york", "queue:till")
    forest.consumer("c2", "queue:hq")
    forest.consumer("c3", "topic:news/#")
    forest.settle(1)
    check_routes(list(forest.sites.values()))
    assert "till" not in {key.name for key in forest["south"].core.table}
    assert set(forest["north"].core.table.gateways(queue("hq"))) == {"c2"}
    assert forest["bath"].core.advertising.heard["mesh"] == 0


def test_a_root_joins_at_run_time_and_everybody_links_with_it(forest: Forest) -> None:
    forest.add("c0", "", "root", mesh=["c2"])
    forest.heal(5)
    assert links(forest["c0"], Relation.MESH) == list(CORES)
    assert links(forest["c0"], Relation.CHILD) == ["north", "shop", "south"]
    assert forest["york"].core.ancestry.chain == ["york", "north", "c0"]
    reader = forest.consumer("york", "queue:till")
    forest.settle(1)
    forest.producer("c0").send("queue:till", b"from the new one")
    forest.settle(1)
    assert reader.payloads == [b"from the new one"]
    check_routes(list(forest.sites.values()))


def test_a_root_that_stood_alone_becomes_one_of_two() -> None:
    forest = Forest()
    forest.add("hq")
    forest.add("store", "hq")
    forest.heal(2)
    forest.add("hq-2", "", "root", mesh=["hq"])
    forest.heal(3)
    assert links(forest["store"], Relation.PARENT) == ["hq", "hq-2"]
    forest["hq"].crash()
    forest["hq"].boot()
    forest.heal(3)
    assert forest["hq"].core.mesh.members == {"hq-2": []}
    assert links(forest["hq"], Relation.MESH) == ["hq-2"]
    check_routes(list(forest.sites.values()))


def test_a_child_is_told_of_a_core_that_joined_while_its_own_link_came_up() -> None:
    forest = Forest()
    forest.add("c1")
    forest.add("york", "c1")
    slow = forest.dial("york")
    assert slow is not None
    forest.wires.remove(slow)
    forest.cut_off.append({"york", "c1"})
    forest.add("c2", mesh=["c1"])
    forest.dial_all()
    forest.settle()
    assert links(forest["c1"], Relation.MESH) == ["c2"]
    forest.wires.append(slow)
    forest.settle()
    assert list(forest["york"].core.mesh.parents_to_dial()) == ["c2", "c1"]


def test_cores_that_a_registry_names_become_one_root_and_nobody_is_told_of_others() -> None:
    forest = Forest()
    for name in CORES:
        forest.add(name)
    forest.add("york", "c2")
    registered = {name: [f"wss://{name}:7600/link"] for name in (*CORES, "mallory")}
    for name in CORES:
        forest[name].core.mesh.registered(registered)
    forest.heal(5)
    for name in CORES:
        assert links(forest[name], Relation.MESH) == [other for other in CORES if other != name]
        assert "mallory" not in forest[name].core.mesh.members
        assert name == "mallory" or "mallory" in forest[name].core.mesh.to_dial()
    assert links(forest["york"], Relation.PARENT) == list(CORES)
    assert "mallory" not in forest["york"].core.mesh.parents_to_dial()
    check_routes(list(forest.sites.values()))


def test_a_core_that_was_forgotten_is_not_dialled_though_the_registry_names_it() -> None:
    forest = Forest()
    forest.add_mesh("c1", "c2")
    forest.heal(3)
    forest["c1"].core.mesh.registered({"c2": ["wss://c2:7600/link"]})
    forest["c2"].crash()
    forest["c1"].core.mesh.left("c2")
    assert forest["c1"].core.mesh.to_dial() == {}


def test_what_goes_up_stays_in_the_zone_while_a_parent_of_it_is_up() -> None:
    forest = Forest()
    forest.add("c1", mesh=["c2"], zone="uk")
    forest.add("c2", mesh=["c1"], zone="fr")
    forest.add("york", "c1 c2", zone="uk")
    forest.add("nancy", "c1 c2", zone="fr")
    forest.add("nowhere", "c1 c2")
    forest.heal(3)
    names = [f"q{number}" for number in range(20)]

    def ways(name: str) -> set[str]:
        core = forest[name].core
        asked = {core.lookup.parent_for(queue(each)) for each in names}
        gateways = {gateway for each in names for gateway in core.lookup.way(queue(each)).gateways}
        assert {parent.name for parent in asked if parent is not None} == gateways
        return gateways

    assert (ways("york"), ways("nancy"), ways("nowhere")) == ({"c1"}, {"c2"}, {"c1", "c2"})
    isolate(forest, "york", "c1")
    assert ways("york") == {"c2"}, "another zone rather than a line that is down"
    forest.cut_off.clear()
    forest.heal(3)
    assert ways("york") == {"c1"}


def test_of_several_lines_to_one_branch_that_of_the_own_zone_is_taken() -> None:
    forest = Forest()
    forest.add("hq", zone="uk")
    forest.add("w1", "hq", "branch", mesh=["w2"], zone="fr")
    forest.add("w2", "hq", "branch", mesh=["w1"], zone="uk")
    forest.add("york", "w1 w2")
    forest.heal(3)
    names = [f"queue:q{number}" for number in range(10)]
    readers = [forest.consumer("york", name) for name in names]
    forest.settle(1)
    for number, name in enumerate(names):
        forest.producer("hq", f"p{number}").send(name, b"near")
    forest.settle(1)
    assert [reader.payloads for reader in readers] == [[b"near"]] * 10
    counted = {name: forest["hq"].core.neighbours[name].counters["out"] for name in ("w1", "w2")}
    assert counted == {"w1": 0, "w2": 10}


def test_a_node_of_a_mesh_is_nobody_s_child_and_a_leaf_is_in_none(forest: Forest) -> None:
    forest.add("c9", "c1", "branch", mesh=["c2"])
    forest.settle(1)
    forest.dial_all()
    forest.settle(1)
    assert "c9, a branch, dialled c2, a root: the nodes of a mesh are all roots, or all branches" in str(
        forest["c9"].errors
    )
    two = Forest()
    two.add("hq", "", "root", mesh=["uk"])
    two.add("uk", "hq", "branch")
    two.dial("uk")
    two.settle(1)
    assert "'uk' and 'hq' are nodes of one mesh: each lists the other" in two["uk"].errors[0]


def test_a_mesh_of_branches_is_one_branch(forest: Forest) -> None:
    forest.add_mesh("w1", "w2", parent="c1")
    forest.add("bristol", "w2")
    forest.heal(5)
    assert links(forest["bristol"], Relation.PARENT) == ["w1", "w2"]
    assert forest["bristol"].core.ancestry.chain == ["bristol", "w1", "c1"]
    check_routes(list(forest.sites.values()))
    reader = forest.consumer("bristol", "topic:news/#", durable="d")
    tills = forest.consumer("bristol", "queue:till")
    forest.settle(1)
    forest.producer("bath").send("topic:news/a", b"tree", scope=1)
    forest.producer("c1", "other").send("queue:till", *[b"%d" % number for number in range(5)])
    forest.settle(1)
    assert reader.payloads == [b"tree"]
    assert tills.payloads == [b"%d" % number for number in range(5)]
    assert forest["bristol"].core.counters["duplicates_dropped"] == 0
    isolate(forest, "w1", "c1", "c2", "c3")
    asked = forest.consumer("bath", "queue:asked")
    forest.settle(1)
    for number in range(8):
        forest.producer("bristol", f"p{number}").send("queue:asked", b"%d" % number)
    forest.settle(2)
    assert sorted(asked.payloads) == [b"%d" % number for number in range(8)]


# --- which way


def test_each_destination_takes_one_core_and_always_the_same(forest: Forest) -> None:
    names = [f"q{number}" for number in range(12)]
    for name in names:
        forest.consumer("bath", f"queue:{name}", name)
    forest.settle(1)
    producer = forest.producer("york")
    for name in names:
        producer.send(f"queue:{name}", b"1")
        producer.send(f"queue:{name}", b"2")
    forest.settle(1)
    expected = {core: 2 * sum(core_for(name) == core for name in names) for core in CORES}
    assert {core: forest[core].core.neighbours["north"].counters["in"] for core in CORES} == expected
    assert all(expected.values())


def test_topics_reach_the_readers_of_all_cores_once(forest: Forest) -> None:
    readers = [
        forest.consumer(name, "topic:t/#", name, durable="d") for name in (*CORES, "bath", "shop", "york")
    ]
    forest.settle(1)
    forest.producer("york").send("topic:t/up", b"vertical", scope=0)
    forest.producer("york", "p2").send("topic:t/all", b"tree", scope=1)
    forest.producer("c2", "p3").send("topic:t/down", b"down")
    forest.settle(1)
    for reader in readers:
        wanted = (
            {b"tree", b"down"} if reader.site.name in ("bath", "shop") else {b"vertical", b"tree", b"down"}
        )
        assert set(reader.payloads) == wanted
        assert len(reader.payloads) == len(wanted)


def test_a_retained_message_greets_once_whichever_core_had_it(forest: Forest) -> None:
    forest.producer("bath").send("topic:price/tea", b"5", scope=1, retained=True)
    forest.settle(1)
    assert [len(forest[name].core.topics.retained) for name in CORES] == [1, 1, 1]
    reader = forest.consumer("york", "topic:price/#")
    forest.settle(1)
    assert reader.payloads == [b"5"]


@pytest.mark.parametrize("at", ["c1", "c2"])
def test_what_comes_from_below_goes_from_all_cores_when_none_asks_for_it_any_more(
    forest: Forest, at: str
) -> None:
    """It was kept for ever, and given to whoever came after it was cleared where it is from."""
    till = forest.producer("york")
    till.send("topic:price/tea", b"5", retained=True)
    forest.producer("c3", "office").send("topic:price/milk", b"1", retained=True)
    reader = forest.consumer(at, "topic:price/#", "first")
    forest.settle(1)
    assert sorted(reader.payloads) == [b"1", b"5"]
    till.send("topic:price/tea", b"6", retained=True)
    forest.settle(1)
    assert [len(forest[name].core.topics.retained) for name in CORES] == [2, 2, 2]
    second = forest.consumer("c3", "topic:price/tea", "second")
    forest.settle(1)
    reader.unsubscribe()
    forest.settle(20)
    assert second.payloads == [b"6"]
    assert [len(forest[name].core.topics.retained) for name in CORES] == [2, 2, 2], "another core asks for it"
    second.unsubscribe()
    forest.settle(20)
    assert [len(forest[name].core.topics.retained) for name in CORES] == [1, 1, 1], (
        "what a core retained stays"
    )
    till.send("topic:price/tea", b"", retained=True)
    forest.settle(1)
    late = forest.consumer("c2", "topic:price/tea", "late")
    forest.settle(1)
    assert late.payloads == []


# --- what goes wrong


def test_a_core_is_killed_and_what_its_children_had_sent_it_comes_once(forest: Forest) -> None:
    reader = forest.consumer("bath", "queue:orders")
    victim = core_for("orders")
    forest.settle(1)
    producer = forest.producer("york")
    producer.send("queue:orders", b"1")
    forest[victim].crash()
    producer.send("queue:orders", b"2", b"3")
    forest.settle(3)
    assert reader.payloads == [b"1", b"2", b"3"]
    forest[victim].boot()
    forest.heal(5)
    producer.send("queue:orders", b"4")
    forest.settle(1)
    assert reader.payloads == [b"1", b"2", b"3", b"4"]
    assert forest[victim].core.neighbours["north"].counters["in"] == 1
    check_routes(list(forest.sites.values()))


def test_what_a_killed_core_had_already_is_dropped_where_it_was_delivered(forest: Forest) -> None:
    reader = forest.consumer("bath", "queue:orders")
    victim = core_for("orders")
    forest.settle(1)
    isolate(forest, victim, "south")
    isolate(forest, victim, *(core for core in CORES if core != victim))
    forest.settle(1)
    forest.producer("york").send("queue:orders", b"1")
    below, above = forest.wire_of("york", "north"), forest.wire_of("north", victim)
    assert below is not None
    assert above is not None
    for _ in range(6):
        for name in ("york", "north", victim):
            forest[name].run()
        below.pull()
        below.deliver(below.up, forest["north"])
        above.pull()
        above.deliver(above.up, forest[victim])
    assert forest[victim].waiting() == 1
    forest[victim].crash()
    forest.settle(2)
    assert reader.payloads == [b"1"]
    assert reader.receipts[0].flags & Flag.MAYBE_DUPLICATE
    forest.cut_off.clear()
    forest.heal(5)
    assert reader.payloads == [b"1"]
    assert forest["bath"].core.counters["duplicates_dropped"] == 1
    assert all(site.waiting() == 0 for site in forest.sites.values())


def test_a_core_without_a_line_to_a_child_hands_over_to_one_that_has_it(forest: Forest) -> None:
    till = forest.consumer("bath", "queue:till")
    news = forest.consumer("bath", "topic:news", durable="d")
    forest.settle(1)
    isolate(forest, "c1", "south")
    forest.settle(5)
    assert forest["c1"].core.lookup.peers_to("south") == ["c2", "c3"]
    assert not forest["c1"].core.neighbours["south"].dormant
    producer = forest.producer("c1")
    producer.send("queue:till", b"1")
    producer.send("topic:news", b"2")
    producer.send("queue:cell@bath", b"3")
    cell = forest.consumer("bath", "queue:cell")
    forest.settle(2)
    assert (till.payloads, news.payloads, cell.payloads) == ([b"1"], [b"2"], [b"3"])
    assert forest["c1"].waiting() == 0
    forest["c2"].crash()
    forest["c3"].crash()
    forest.settle(3)
    assert forest["c1"].core.neighbours["south"].dormant
    producer.send("queue:till", b"4")
    forest.settle(1)
    forest.cut_off.clear()
    forest.heal(5)
    assert till.payloads == [b"1", b"4"]


def test_a_core_that_stops_hands_over_all_that_waits_for_others(forest: Forest) -> None:
    forest.consumer("bath", "queue:till").disconnect()
    durable = forest.consumer("shop", "topic:news", durable="d", name="shop")
    till = forest.consumer("shop", "queue:tea", name="tea")
    forest.settle(1)
    forest["shop"].crash()
    forest.settle(3)
    producer = forest.producer("c1")
    producer.send("queue:tea", b"1", b"2")
    producer.send("topic:news", b"3")
    producer.send("queue:unread", b"4")
    forest.settle(2)
    assert forest["c1"].waiting() == 4
    depart(forest, "c1", lambda link: link.pause("stops"))
    assert sum(forest[name].waiting() for name in ("c2", "c3")) == 4
    forest["shop"].boot()
    for _ in range(5):
        forest.dial_all()
        forest.settle(1)
    durable.connect()
    till.connect()
    unread = forest.consumer("york", "queue:unread")
    forest.settle(2)
    assert (till.payloads, durable.payloads, unread.payloads) == ([b"1", b"2"], [b"3"], [b"4"])
    forest["c1"].boot()
    forest.heal(5)
    assert forest["c1"].waiting() == 0
    check_routes(list(forest.sites.values()))


def test_a_mesh_that_is_split_waits_and_goes_on_when_it_is_whole(forest: Forest) -> None:
    here, there = forest.consumer("c2", "queue:here"), forest.consumer("c2", "topic:there", durable="d")
    forest.settle(1)
    isolate(forest, "c1", "c2", "c3")
    forest.settle(3)
    producer = forest.producer("c1")
    producer.send("queue:here", b"1")
    producer.send("topic:there", b"2")
    reader = forest.consumer("york", "queue:till")
    forest.settle(1)
    producer.send("queue:till", b"3")
    forest.settle(1)
    assert reader.payloads == [b"3"]
    assert not here.payloads
    forest.cut_off.clear()
    forest.heal(5)
    assert (here.payloads, there.payloads) == ([b"1"], [b"2"])
    check_routes(list(forest.sites.values()))


def test_a_parent_that_left_the_mesh_is_forgotten(forest: Forest) -> None:
    core = forest["c3"].core
    for neighbour in list(core.neighbours.values()):
        assert neighbour.link is not None
        core.admission.handle(neighbour.link, neighbour.link.goodbye("leaves"))
    forest.settle(1)
    forest["c3"].crash()
    forest.settle(1)
    assert links(forest["north"], Relation.PARENT) == ["c1", "c2"]
    assert "c3" not in forest["north"].core.neighbours
    assert sorted(forest["c1"].core.mesh.members) == ["c2"]


# --- numbers


def test_numbers_go_on_without_a_gap_where_some_were_taken_back(forest: Forest) -> None:
    core = forest["c1"].core
    neighbour: Neighbour = core.neighbours["c2"]
    forest.consumer("c2", "topic:t", durable="d")
    reader = forest.consumer("c2", "queue:q")
    forest.settle(1)
    producer = forest.producer("c1")
    for number in range(3):
        producer.send("queue:q", b"q%d" % number)
        producer.send("topic:t", b"t%d" % number)
        forest["c1"].run()
    assert [copy.number for copy in neighbour.outbox] == [1, 2, 3, 4, 5, 6]
    wire = forest.wire_of("c1", "c2")
    assert wire is not None
    forest.cut(wire)
    assert [copy.number for copy in neighbour.outbox] == [2, 4, 6]
    forest.heal(3)
    assert neighbour.assigned == neighbour.deleted == 6
    assert sorted(reader.payloads) == [b"q0", b"q1", b"q2"]


# --- who may not


def test_readers_of_one_queue_at_several_cores_share_it(forest: Forest) -> None:
    readers = [forest.consumer(name, "queue:shared", name, credit=1, auto=False) for name in ("c2", "c3")]
    forest.settle(1)
    producer = forest.producer("c1")
    for number in range(4):
        producer.send("queue:shared", b"%d" % number)
        forest["c1"].run()
    forest.settle(1)
    assert all(reader.receipts for reader in readers)


def test_a_child_that_claims_to_be_of_another_one_s_mesh_is_not_believed(forest: Forest) -> None:
    core = forest["c1"].core
    liar = core.neighbours["shop"]
    core.mesh.changed_at(liar, [Member("north", [])])
    assert (liar.group, liar.kin) == ("shop", frozenset())
    assert core.neighbours["north"].group == "north"


def test_whoever_is_not_listed_needs_the_secret_of_the_mesh(forest: Forest) -> None:
    for name in CORES:
        forest[name].core.mesh._settings = replace(forest[name].core.mesh._settings, secret=None)
    forest.add("c4", "", "root", mesh=["c1"])
    forest.dial_all()
    forest.settle(1)
    assert "'c1' lists no 'c4' in its mesh: name it there, or give the mesh a secret" in forest["c4"].errors
    assert not links(forest["c4"], Relation.MESH)


def test_a_registry_that_names_very_many_has_as_many_dialled_as_the_mesh_has_room_for(forest: Forest) -> None:
    mesh = forest["c1"].core.mesh
    mesh.registered({f"stranger-{number}": ["wss://nobody:7600/link"] for number in range(1000)})
    assert set(mesh.to_dial()) >= {"c2", "c3"}
    assert len(mesh.to_dial()) == MAX_MESH
