"""A queue that was made at a node keeps its messages there until somebody reads it elsewhere."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from broker.core.neighbours import demand
from sapwood.protocol.destinations import parse
from sapwood.protocol.session_frames import Create
from simulation.clients import Producer, SimulatedConsumer
from simulation.forest import LINKS, Forest
from simulation.site import Site
from treeconnector.frames import INTEREST
from treeconnector.permits import Grant

QUEUE = "queue:orders"


@pytest.fixture
def tree(forest: Forest) -> Forest:
    """HQ, two regions, two stores in the north, one in the south."""
    return planted(forest)


def planted(forest: Forest, older: Sequence[str] = (), **changes: object) -> Forest:
    for name, parent in (
        ("hq", ""),
        ("north", "hq"),
        ("south", "hq"),
        ("york", "north"),
        ("durham", "north"),
        ("bath", "south"),
    ):
        links = replace(LINKS, knows=(INTEREST,)) if name in older else LINKS
        forest.add(name, parent, "branch" if parent else "root", links=links, **changes)
    forest.heal(3.0)
    return forest


def write(forest: Forest, at: str, *payloads: bytes, made: bool = True, **options: object) -> Producer:
    name = f"writer at {at}"
    found = [client for client in forest.clients if client.name == name]
    writer = found[0] if found else forest.producer(at, name)
    assert isinstance(writer, Producer)
    writer.connect()
    if made:
        writer.say(Create(1, "orders"))
    writer.send(QUEUE, *payloads, **options)
    forest.settle(1.0)
    return writer


def reader(forest: Forest, at: str) -> SimulatedConsumer:
    made = forest.consumer(at, QUEUE, name=f"reader at {at}")
    forest.settle(1.0)
    return made


def kept(site: Site) -> int:
    queue = site.core.custody.queues.get(QUEUE)
    return queue.messages if queue is not None else 0


def where(forest: Forest) -> dict[str, int]:
    return {name: kept(site) for name, site in forest.sites.items() if kept(site)}


def test_messages_stay_where_the_queue_was_made(tree: Forest) -> None:
    write(tree, "york", b"1", b"2")
    write(tree, "york", b"3")
    assert where(tree) == {"york": 3}
    assert tree["york"].core.demand.counters["asked_out"] == 1
    assert tree["north"].core.demand.counters["asked_out"] == 1


def test_what_may_not_go_up_is_refused_from_the_first_message_on(tree: Forest) -> None:
    tree["north"].core.permits.configure(lambda child: Grant("north", child), lambda child: None)
    tree.settle(1.0)
    writer = write(tree, "york", b"1", b"2")
    write(tree, "york", b"3")
    assert [(each.first, each.last, each.code) for each in writer.rejected] == [
        (1, 2, "REFUSED"),
        (3, 3, "REFUSED"),
    ]
    assert not tree["north"].core.custody.dead.waiting
    reader(tree, "york")
    write(tree, "york", b"4")
    assert writer.confirmed == [(parse(QUEUE), b"4")]


def test_what_nobody_made_there_goes_up_as_before(tree: Forest) -> None:
    write(tree, "york", b"1", made=False)
    assert where(tree) == {"hq": 1}


def test_what_comes_from_below_stays_where_the_queue_was_made_on_the_way(tree: Forest) -> None:
    write(tree, "north", b"1")
    write(tree, "york", b"2", made=False)
    assert where(tree) == {"north": 2}


@pytest.mark.parametrize("advise_down", ["all", "none"])
@pytest.mark.parametrize("at", ["york", "durham", "north", "hq", "bath"])
def test_they_go_to_whoever_comes_to_read_wherever_that_is(forest: Forest, at: str, advise_down: str) -> None:
    planted(forest, advise_down=advise_down)
    write(forest, "york", b"1")
    found = reader(forest, at)
    assert found.payloads == [b"1"]
    write(forest, "york", b"2")
    assert found.payloads == [b"1", b"2"]
    assert where(forest) == {}


def test_they_stay_again_once_the_last_reader_elsewhere_has_gone(tree: Forest) -> None:
    found = reader(tree, "bath")
    write(tree, "york", b"1")
    found.disconnect()
    tree.settle(2.0)
    write(tree, "york", b"2")
    assert found.payloads == [b"1"]
    assert where(tree) == {"york": 1}


def test_what_a_reader_leaves_behind_stays_with_its_queue(tree: Forest) -> None:
    found = tree.consumer("york", QUEUE, name="slow", auto=False)
    tree.settle(1.0)
    write(tree, "hq", b"1", made=False)
    assert found.payloads == [b"1"]
    found.disconnect()
    tree.settle(30.0)
    assert where(tree) == {"york": 1}
    assert reader(tree, "bath").payloads == [b"1"]


def test_a_queue_that_was_made_at_two_nodes_keeps_at_each_what_was_sent_there(tree: Forest) -> None:
    write(tree, "york", b"1")
    write(tree, "bath", b"2")
    assert where(tree) == {"york": 1, "bath": 1}
    assert sorted(reader(tree, "hq").payloads) == [b"1", b"2"]


def test_a_queue_at_home_stays_whoever_reads_elsewhere(tree: Forest) -> None:
    writer = tree.producer("york", "writer")
    writer.connect()
    writer.say(Create(1, "orders", True))
    writer.send(QUEUE, b"1")
    assert reader(tree, "hq").payloads == []
    assert where(tree) == {"york": 1}
    assert tree["york"].core.demand.counters["asked_out"] == 0


@pytest.mark.parametrize("who", ["york", "north", "hq"])
@pytest.mark.parametrize("at", ["hq", "bath"])
def test_a_kill_of_any_node_on_the_way_loses_nothing(tree: Forest, who: str, at: str) -> None:
    write(tree, "york", b"1")
    tree[who].crash()
    tree.settle(1.0)
    tree[who].boot()
    tree.heal(3.0)
    assert where(tree) == {"york": 1}
    found = reader(tree, at)
    tree.heal(3.0)
    assert found.payloads == [b"1"]


def test_a_reader_that_comes_while_the_line_is_cut_is_found_when_it_is_back(tree: Forest) -> None:
    write(tree, "york", b"1")
    tree.cut_off.append({"north", "hq"})
    wire = tree.wire_of("north")
    assert wire is not None
    tree.cut(wire)
    found = reader(tree, "bath")
    write(tree, "york", b"2")
    assert where(tree) == {"york": 2}
    tree.cut_off.clear()
    tree.heal(3.0)
    assert found.payloads == [b"1", b"2"]


def test_what_is_not_persistent_does_not_wait_for_an_answer(forest: Forest) -> None:
    planted(forest, advise_down="none")
    found = reader(forest, "bath")
    write(forest, "york", b"1", persistent=False)
    assert found.payloads == [b"1"]


def test_whoever_asked_to_be_told_hears_that_nobody_serves_it(tree: Forest) -> None:
    answers = tree.consumer("york", "queue:answers", name="answers")
    tree.settle(1.0)
    write(tree, "york", b"1", tell=True, reply_to="queue:answers@york")
    tree.settle(10.0)
    assert len(answers.payloads) == 1
    assert where(tree) == {}


def test_whoever_asked_to_be_told_hears_it_though_its_node_was_killed(tree: Forest) -> None:
    tree["north"].stop()
    writer = write(tree, "york", b"1", tell=True, reply_to="queue:answers@york")
    assert writer.confirmed
    tree["york"].crash()
    tree["york"].boot()
    answers = tree.consumer("york", "queue:answers", name="answers")
    tree.heal(10.0)
    assert len(answers.payloads) == 1


@pytest.mark.parametrize("older", ["york", "north"])
def test_a_neighbour_of_the_version_before_is_served_as_it_was(forest: Forest, older: str) -> None:
    planted(forest, (older,))
    write(forest, "york", b"1")
    assert where(forest) == {"hq": 1}
    assert forest["york"].core.demand.counters["asked_out"] == 0


def test_a_node_whose_parents_parent_is_older_sends_up_as_well(forest: Forest) -> None:
    planted(forest, ("hq",))
    write(forest, "york", b"1")
    assert where(forest) == {"hq": 1}


def test_a_free_way_ends_when_the_queue_is_made(tree: Forest) -> None:
    write(tree, "york", b"1", made=False)
    write(tree, "york", b"2", made=False)
    write(tree, "york", b"3")
    assert where(tree) == {"hq": 2, "york": 1}


def test_a_queue_that_keeps_messages_is_asked_for_however_old_they_are(
    tree: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "LEASE", 100.0)
    write(tree, "york", b"1")
    tree.pass_time(300.0)
    assert reader(tree, "bath").payloads == [b"1"]
    for _ in range(4):
        tree.pass_time(100.0)
    assert not tree["york"].core.upward.questions
    assert not tree["hq"].core.demand._askers


@pytest.mark.parametrize("at", ["c1", "c3", "shop", "n1", "n2"])
@pytest.mark.parametrize("made", ["york", "n2", "c1"])
def test_in_a_mesh_readers_beside_count_too(meshes: Forest, at: str, made: str) -> None:
    write(meshes, made, b"1")
    assert where(meshes) == {made: 1}
    found = reader(meshes, at)
    meshes.settle(2.0)
    assert found.payloads == [b"1"]
    assert where(meshes) == {}


def test_one_that_asks_to_be_told_takes_no_other_with_it(tree: Forest) -> None:
    answers = tree.consumer("york", "queue:answers", name="answers")
    tree.settle(1.0)
    write(tree, "york", b"1", b"2")
    write(tree, "york", b"3", tell=True, reply_to="queue:answers@york")
    write(tree, "york", b"4")
    tree.settle(5.0)
    assert len(answers.payloads) == 1
    assert where(tree) == {"york": 3}
    assert reader(tree, "bath").payloads == [b"1", b"2", b"4"]


def test_nobody_is_told_before_the_root_has_heard_of_all_that_it_knew(forest: Forest) -> None:
    planted(forest, reattach_time=60.0)
    found = reader(forest, "bath")
    answers = forest.consumer("york", "queue:answers", name="answers")
    forest["south"].stop()
    forest["hq"].crash()
    forest["hq"].boot()
    found.disconnect()
    forest.heal(5.0)
    forest["south"].stop()
    forest["hq"].crash()
    forest["hq"].boot()
    forest.cut_off.append({"south", "hq"})
    forest.heal(5.0)
    write(forest, "york", b"1", tell=True, reply_to="queue:answers@york")
    forest.settle(20.0)
    assert answers.payloads == []
    assert where(forest) == {"york": 1}
    forest.cut_off.clear()
    forest.heal(5.0)
    assert len(answers.payloads) == 1
    assert where(forest) == {}


def test_what_is_not_persistent_asks_who_reads_it_and_is_dropped_here_once_nobody_does(tree: Forest) -> None:
    write(tree, "york", b"1", persistent=False)
    tree.settle(1.0)
    came = tree["hq"].core.counters["in"]
    for number in range(5):
        write(tree, "york", b"%d" % number, persistent=False)
    assert tree["york"].core.demand.counters["asked_out"] == 1
    assert tree["hq"].core.counters["in"] == came
    assert tree["york"].core.counters["volatile_dropped"] == 5
    found = reader(tree, "bath")
    write(tree, "york", b"again", persistent=False)
    assert found.payloads == [b"again"]


@pytest.mark.parametrize("at", ["york", "north", "hq"])
def test_an_alias_that_is_set_on_the_way_takes_what_is_kept_below(tree: Forest, at: str) -> None:
    found = tree.consumer("bath", "queue:parcels", name="reader")
    tree.settle(1.0)
    write(tree, "york", b"1")
    tree[at].core.static_routing.add("alias", "orders", "parcels@bath")
    tree.settle(1.0)
    assert found.payloads == [b"1"]
    tree[at].core.static_routing.remove("alias", "orders", "parcels@bath")
    tree.settle(1.0)
    write(tree, "york", b"2")
    assert where(tree) == {"york": 1}


@pytest.mark.parametrize("kind", ["exact", "default"])
def test_a_way_that_is_set_at_the_root_takes_what_is_kept_below(tree: Forest, kind: str) -> None:
    write(tree, "south", b"0")
    write(tree, "york", b"1")
    named = "" if kind == "default" else "orders"
    tree["hq"].core.static_routing.add(kind, named, "south")
    tree.settle(1.0)
    assert where(tree) == {"south": 2}
    tree["hq"].core.static_routing.remove(kind, named, "south")
    tree.settle(1.0)
    write(tree, "york", b"2")
    assert where(tree) == {"south": 2, "york": 1}


def test_a_dumpster_takes_nothing_that_is_kept_where_its_queue_was_made(tree: Forest) -> None:
    write(tree, "york", b"1")
    tree["hq"].core.static_routing.add("dumpster", "", "lost")
    write(tree, "york", b"2")
    assert where(tree) == {"york": 2}
