"""A node of a mesh leaves for good: it hands over what it has, and all others forget it."""

import pytest
from departing import depart

from sapwood.protocol.destinations import domain, queue
from simulation.forest import Forest
from simulation.invariants import check_routes
from treeconnector.relations import Relation
from treeconnector.static_routes import chosen_default

CORES = ("c1", "c2", "c3")


@pytest.fixture
def forest(meshes: Forest) -> Forest:
    return meshes


def leave(forest: Forest, name: str) -> None:
    """As an operator's `node leave` does."""
    depart(forest, name, lambda link: link.goodbye("leaves"))


def go_on(forest: Forest) -> None:
    """Time passes without the node that has left."""
    for _ in range(4):
        forest.dial_all()
        forest.settle(1)


def known(forest: Forest, name: str) -> set[str]:
    """The nodes that still have it among their neighbours, above them, or in a mesh."""
    sites = (site for site in forest.sites.values() if site.running)
    return {
        site.name
        for site in sites
        if name in site.core.neighbours
        or name in site.core.ancestry.names
        or name in site.core.mesh.members
        or any(member.name == name for each in site.core.neighbours.values() for member in each.detail.mesh)
    }


def through(core: str) -> str:
    """A queue whose messages go up over this node of the mesh."""
    return next(f"q{n}" for n in range(99) if chosen_default(queue(f"q{n}"), CORES) == core)


def test_it_hands_over_what_waits_and_all_others_forget_it(forest: Forest) -> None:
    name = through("c1")
    sent = [b"%d" % number for number in range(20)]
    producer = forest.producer("york")
    for payload in sent:
        producer.send(f"queue:{name}", payload)
    forest.settle(1)
    assert forest["c1"].waiting() == len(sent)
    leave(forest, "c1")
    go_on(forest)
    assert known(forest, "c1") == set()
    assert forest["york"].core.ancestry.chain == ["york", "n1", "c2"]
    reader = forest.consumer("shop", f"queue:{name}")
    forest.settle(2)
    assert reader.payloads == sent
    check_routes([site for site in forest.sites.values() if site.running])


def test_who_was_away_hears_of_it_later(forest: Forest) -> None:
    for name in ("c3", "n2", "shop"):
        forest[name].crash()
    forest.settle(1)
    leave(forest, "c1")
    for name in ("c3", "n2", "shop"):
        forest[name].boot()
    go_on(forest)
    assert known(forest, "c1") == set()
    assert not any(site.errors and "root" in str(site.errors) for site in forest.sites.values())


def test_files_that_still_name_it_bring_it_back_only_when_it_dials(forest: Forest) -> None:
    leave(forest, "c1")
    go_on(forest)
    for name in ("c2", "c3"):
        forest[name].crash()
        forest[name].boot()
    go_on(forest)
    assert known(forest, "c1") == set()
    forest["c1"].boot()
    go_on(forest)
    assert set(forest["c2"].core.mesh.members) == {"c1", "c3"}
    assert {each.name for each in forest["york"].core.neighbourhood.parents()} == {"n1", "n2"}
    assert {each.name for each in forest["shop"].core.neighbourhood.parents()} == set(CORES)
    assert "c1" in forest["york"].core.ancestry.names


def test_a_branch_of_two_leaves_its_parents_too(forest: Forest) -> None:
    forest.consumer("york", "queue:till")
    forest.settle(1)
    leave(forest, "n1")
    go_on(forest)
    assert known(forest, "n1") == set()
    assert forest["york"].core.ancestry.chain == ["york", "n2", "c1"]
    reader = forest.consumer("york", "queue:prices")
    forest.settle(1)
    forest.producer("c3").send("queue:prices", b"tea")
    forest.settle(1)
    assert reader.payloads == [b"tea"]


def test_who_knew_the_root_that_left_takes_the_others_for_no_other_root(forest: Forest) -> None:
    forest["shop"].core.root.learn("c1", "root", ["c1"])
    forest.settle(1)
    forest["shop"].crash()
    leave(forest, "c1")
    forest["shop"].boot()
    go_on(forest)
    parents = {each.name for each in forest["shop"].core.neighbourhood.parents() if each.up}
    assert parents == {"c2", "c3"}
    assert forest["shop"].core.root.name == "c2"


def test_nobody_links_with_one_that_is_about_to_go(forest: Forest) -> None:
    core = forest["c1"].core
    core.handover.leave()
    for wire in [wire for wire in forest.wires if wire.parent.name == "c1" and wire.child.name == "shop"]:
        forest.cut(wire)
    forest.dial_all()
    forest.settle(1)
    assert not forest["shop"].core.neighbours["c1"].up
    assert any("is about to stop" in error for error in forest["shop"].errors)
    assert forest["shop"].core.neighbours["c1"].relation is Relation.PARENT


def test_who_comes_up_while_it_leaves_is_refused(forest: Forest) -> None:
    forest.add("late", "c1", "leaf")
    forest.dial("late")
    core = forest["c1"].core
    while not any(link.peer_name == "late" for link in core.links.peers):
        assert forest.step()
    core.handover.leave()
    forest.settle(2)
    assert "late" not in core.neighbours
    assert "is about to stop" in str(forest["late"].errors)


def announce(forest: Forest) -> None:
    """As nodes do once they listen; then the smaller name alone dials."""
    for site in forest.sites.values():
        if site.running:
            site.core.logical_addresses.addresses = [f"ws://{site.name}"]


@pytest.mark.parametrize("name", CORES)
def test_it_comes_back_though_those_who_dialled_it_have_forgotten_it(forest: Forest, name: str) -> None:
    announce(forest)
    leave(forest, name)
    go_on(forest)
    forest[name].boot()
    announce(forest)
    go_on(forest)
    for other in set(CORES) - {name}:
        assert forest[other].core.neighbours[name].up


def test_it_comes_back_though_one_that_was_away_says_that_it_left(forest: Forest) -> None:
    announce(forest)
    leave(forest, "c3")
    forest["c2"].crash()
    forest["c3"].boot()
    announce(forest)
    go_on(forest)
    assert forest["c1"].core.neighbours["c3"].up
    forest["c3"].crash()
    forest["c2"].boot()
    announce(forest)
    go_on(forest)
    forest["c3"].boot()
    announce(forest)
    go_on(forest)
    assert {each.name for each in forest["c3"].core.context.peers() if each.up} == {"c1", "c2"}


def test_its_name_may_be_below_though_a_root_that_was_away_had_it_beside(forest: Forest) -> None:
    """Who declined the name while it took it for a root's takes it when it hears better."""
    forest["c1"].crash()
    leave(forest, "c3")
    del forest.sites["c3"]
    forest.add("c3", "n1", "leaf")
    go_on(forest)
    assert forest["c2"].core.table.route(domain("c3"), "n1")
    forest.cut_off.append({"c1", "c2"})
    forest["c1"].boot()
    go_on(forest)
    assert forest["c1"].core.table.route(domain("c3"), "n1") is None
    forest.cut_off.clear()
    for _ in range(5):
        go_on(forest)
    assert forest["c1"].core.table.route(domain("c3"), "n1")
