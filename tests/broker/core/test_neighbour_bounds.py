"""Neighbours can make a node keep so much and no more."""

import pytest

from broker.core.clock import PART
from broker.core.messages import resting
from broker.core.neighbours import admission, advertising
from broker.core.policies import loans
from broker.core.rows import FORMER, MetaRow, RouteRow
from sapwood.protocol.bundles import Flag, Header, Message, encode_message
from sapwood.protocol.destinations import Kind, queue
from simulation.forest import Forest
from simulation.site import Site
from treeconnector import hellos
from treeconnector.frames import Advice
from treeconnector.permits import Grant


def test_a_node_knows_so_many_others_and_says_how_room_is_made(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that it knows come and go as before."""
    monkeypatch.setattr(admission, "_MOST_CHILDREN", 2)
    hq = forest.add("hq")
    for name in ("york", "leeds"):
        forest.add(name, "hq")
    forest.heal(2)
    forest["york"].crash()
    forest.add("bath", "hq")
    forest.heal(2)
    assert set(hq.core.neighbours) == {"york", "leeds"}
    assert hq.core.neighbours["york"].up
    text = "'hq' knows 2 others: it forgets some first (sapwood node forget NAME)"
    assert any(text in error for error in forest["bath"].errors)
    hq.core.relocation.forget(hq.core.neighbours["leeds"], moved=False)
    forest["leeds"].crash()
    for _ in range(3):
        forest.dial("bath")
        forest.settle(1.0)
    assert hq.core.neighbours["bath"].up


def test_of_very_many_nodes_that_have_left_a_child_the_latest_are_known(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advertising, "_MAX_FORMER", 3)
    hq = forest.add("hq")
    forest.add("north", "hq", "branch")
    forest.heal(2)
    north = hq.core.neighbours["north"]
    names = [f"shop{number}" for number in range(8)]
    for op in ("add", "remove"):
        hq.core.advertising.advised(north, [Advice(op, Kind.DOMAIN, name, name, "c") for name in names])
    forest.settle(1.0)
    assert list(north.former) == names[-3:]
    rows = [row for row in hq.disk.rows(RouteRow) if row.declined == FORMER]
    assert {row.name for row in rows} == set(names[-3:])


def test_of_very_many_bundles_that_were_lent_the_latest_are_known(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory and on disk, lent and come back."""
    monkeypatch.setattr(loans, "_MOST", 3)
    hq = forest.add("hq")
    forest.add("york", "hq")
    forest.heal(2)
    york, lent, body = hq.core.neighbours["york"], hq.core.loans, encode_message(Message(b"x"))

    def header(number: int) -> Header:
        return Header(
            id=bytes([number]) * 16,
            destination=queue("till"),
            flags=Flag.REROUTED | Flag.PERSISTENT,
            origin="hq",
            size=len(body),
        )

    for number in range(9):
        lent.sent(york, header(number), body)
    assert [lent.take(york, header(number), body) for number in range(9)] == [False] * 6 + [True] * 3
    for number in range(20, 30):
        lent.sent(york, header(number), body)
        assert lent.take(york, header(number), body)
    hq.run()
    assert len(lent._digests) <= len(lent._taken) == 3
    assert len([row for row in hq.disk.rows(MetaRow) if row.name.startswith("given ")]) == 3


# --- what rests


def held_from(forest: Forest, *children: str) -> Site:
    """A root; each child reads topics of its own, and asks that what is for `topic:NAME/held` be kept."""
    hq = forest.add("hq")
    for name in children:
        forest.add(name, "hq")
    forest.heal(2)
    for name in children:
        forest.consumer(name, f"topic:{name}/#")
        link = forest[name].core.neighbours["hq"].link
        assert link is not None
        link.say.hold(f"topic:{name}/held")
    forest.settle(1.0)
    return hq


def publish(forest: Forest, topic: str, count: int) -> None:
    producer = forest.producer("hq", f"producer of {topic}")
    for number in range(count):
        producer.send(topic, b"%d" % number)
        forest.settle()


def test_what_rests_is_bounded_of_a_queue_and_of_all_together(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound of all a queue has its few, and the others of it wait."""
    monkeypatch.setattr(resting, "OF_A_QUEUE", 30)
    monkeypatch.setattr(resting, "MOST", 35)
    hq = held_from(forest, "york", "bath", "leeds")
    for name in ("york", "bath", "leeds"):
        publish(forest, f"topic:{name}/held", 40)
    here = {name: len(hq.core.neighbours[name].queue.resting) for name in ("york", "bath", "leeds")}
    assert here == {"york": 30, "bath": resting.ALWAYS, "leeds": resting.ALWAYS}
    assert hq.core.custody.paging.resting.count == sum(here.values())
    assert len(hq.core.neighbours["york"].queue.waiting) == 10


def test_what_rests_is_bounded_in_bytes_and_a_queue_has_its_few(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "MOST_BYTES", 50)
    hq = held_from(forest, "york", "bath")
    publish(forest, "topic:york/held", 40)
    publish(forest, "topic:bath/held", 3)
    publish(forest, "topic:bath/other", 3)
    rests = [len(hq.core.neighbours[name].queue.resting) for name in ("york", "bath")]
    assert rests == [resting.ALWAYS, 3]
    assert forest.clients[1].payloads == [b"0", b"1", b"2"]


def test_a_queue_that_had_no_room_to_rest_goes_on_in_order_once_others_rest_no_more(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "MOST", 20)
    hq = held_from(forest, "york", "bath")
    for name in ("york", "bath"):
        publish(forest, f"topic:{name}/held", 40)
    publish(forest, "topic:bath/other", 1)
    assert not forest.clients[1].payloads
    for name in ("york", "bath"):
        link = forest[name].core.neighbours["hq"].link
        assert link is not None
        link.say.release(f"topic:{name}/held")
        forest.settle(3.0)
    assert forest.clients[0].payloads == [b"%d" % number for number in range(40)]
    assert forest.clients[1].payloads == [*(b"%d" % number for number in range(40)), b"0"]
    assert hq.core.custody.paging.resting.count == hq.core.custody.paging.resting.size == 0


def test_no_step_passes_over_more_than_a_part_of_what_is_held(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    hq = held_from(forest, "york")
    link = forest["york"].core.neighbours["hq"].link
    assert link is not None
    link.say.hold("")
    forest.settle(1.0)
    publish(forest, "topic:york/held", 3 * PART)
    link.say.release("")
    most, rests = 0, hq.core.neighbours["york"].queue.resting
    while len(rests) < 3 * PART:
        before = len(rests)
        assert forest.step() or not forest.settle(0.001)
        most = max(most, len(rests) - before)
    assert 0 < most <= PART


def test_letters_that_may_be_a_loan_are_remembered_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In memory and on disk; those that are forgotten stay dead letters."""
    monkeypatch.setattr(loans, "_MOST_EARLY", 2)
    forest = Forest()
    forest.add_mesh("hq-1", "hq-2")
    for name in ("hq-1", "hq-2"):
        core = forest[name].core
        core.permits.configure(lambda child, by=name: Grant(by, child), lambda child: None)
    forest.add("york", "hq-1")
    forest.heal(4)
    core = forest["hq-1"].core
    for number in range(5):
        header = Header(
            id=bytes([number]) * 16,
            destination=queue("q"),
            flags=Flag.REROUTED | Flag.PERSISTENT,
            origin="x",
            size=1,
        )
        core.arrivals.from_neighbour(core.neighbours["york"], header, b"\xc0")
        forest.settle(1.0)
    rows = [row for row in forest["hq-1"].disk.rows(MetaRow) if row.name.startswith(loans._EARLY)]
    assert (len(core.loans._early), len(rows)) == (2, 2)
    assert {entry[0] for entry in core.loans._early} == {bytes([3]) * 16, bytes([4]) * 16}
    assert len(core.custody.dead.waiting) == 5


def test_one_letter_again_and_again_is_remembered_so_often() -> None:
    """Also where the dead letters themselves are fewer, and the oldest make room."""
    forest = Forest()
    forest.add_mesh("hq-1", "hq-2")
    for name in ("hq-1", "hq-2"):
        core = forest[name].core
        core.permits.configure(lambda child, by=name: Grant(by, child), lambda child: None)
    forest.add("york", "hq-1")
    forest.heal(4)
    core, flags = forest["hq-1"].core, Flag.REROUTED | Flag.PERSISTENT
    header = Header(id=b"i" * 16, destination=queue("q"), flags=flags, origin="x", size=1)
    for _ in range(2 * loans._MOST_OF_ONE):
        core.arrivals.from_neighbour(core.neighbours["york"], header, b"\xc0")
        forest.settle(1.0)
    rows = [row for row in forest["hq-1"].disk.rows(MetaRow) if row.name.startswith(loans._EARLY)]
    ((_, letters),) = core.loans._early.items()
    assert len(letters) == len(rows) == loans._MOST_OF_ONE


def test_of_nodes_that_have_left_a_mesh_the_latest_are_known(
    forest: Forest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hellos, "MAX_MESH", 3)
    forest.add_mesh("hq-1", "hq-2")
    forest.heal(3)
    mesh = forest["hq-1"].core.mesh
    for number in range(6):
        mesh.members[f"old-{number}"] = []
        mesh.left(f"old-{number}")
    assert mesh._left == ["old-3", "old-4", "old-5"]
