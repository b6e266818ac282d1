"""Who is above a node: all nodes of all meshes on its way up, as its parents say, and nobody else says."""

import pytest

from sapwood.protocol.destinations import Kind
from simulation.disk import Disk
from simulation.forest import Forest
from simulation.site import Site
from treeconnector import frames
from treeconnector.frames import Advice, Member

CORES = ("c1", "c2", "c3")
ALL_ABOVE = {"c1", "c2", "c3", "n1", "n2"}


@pytest.fixture
def forest(meshes: Forest) -> Forest:
    return meshes


def above(site: Site) -> set[str]:
    return set(site.core.ancestry.names)


def test_all_nodes_of_the_meshes_above_are_above(forest: Forest) -> None:
    assert forest["york"].core.ancestry.chain == ["york", "n1", "c1"]
    assert above(forest["york"]) == ALL_ABOVE
    assert above(forest["n1"]) == above(forest["n2"]) == above(forest["shop"]) == set(CORES)
    assert above(forest["c2"]) == set()
    assert forest["york"].core.ancestry.in_order == ["n1", "c1", "c2", "c3", "n2"]


def test_a_core_that_joins_is_above_all_at_once_and_one_that_is_forgotten_is_not(forest: Forest) -> None:
    forest.add("c0", "", "root", mesh=["c2"])
    forest.heal(5)
    assert above(forest["york"]) == {*ALL_ABOVE, "c0"}
    forest["c1"].crash()
    forest.settle(1)
    core = forest["c2"].core
    core.mesh.left("c1")
    core.relocation.forget(core.neighbours["c1"], moved=False)
    forest.settle(1)
    assert forest["york"].core.ancestry.chain == ["york", "n1", "c0"]
    assert above(forest["york"]) == {"c0", "c2", "c3", "n1", "n2"}


def test_it_is_known_over_a_restart_while_no_parent_is_there(forest: Forest) -> None:
    for name in ("n1", "n2", "york"):
        forest[name].crash()
    forest["york"].boot()
    forest.settle(1)
    assert above(forest["york"]) == ALL_ABOVE


def test_what_a_child_says_of_who_is_above_counts_nowhere(forest: Forest) -> None:
    wire = forest.wire_of("shop", "c1")
    assert wire is not None
    link = forest["shop"].core.neighbours["c1"].link
    assert link is not None
    for said in (frames.Chain(["shop", "york"], ["shop"]), frames.Mesh([Member("c2", []), Member("n1", [])])):
        link._out.control(said)
        forest.settle(1)
        forest.heal(2)
    for site in forest.sites.values():
        assert "shop" not in above(site)


def test_who_is_above_cannot_be_below(forest: Forest) -> None:
    """A child that says it has a core below it could speak in its name."""
    core = forest["n1"].core
    for name in (*CORES, "n1", "n2"):
        assert core.permits.why_not_below(core.neighbours["york"], name)
    assert not core.permits.why_not_below(core.neighbours["york"], "bath")


def test_children_are_told_of_those_that_the_chain_does_not_name(forest: Forest) -> None:
    hello = forest["n1"].core.link_maker.accept().hello
    assert (hello.chain, hello.above) == (["n1", "c1"], ["c2", "c3"])
    assert forest["n1"].core.link_maker.dial().hello.above == []


def test_what_a_child_said_of_a_node_that_comes_to_be_above_or_beside_counts_no_more() -> None:
    """Else it could have taken a core's name before the core came, and speak for it."""
    forest = Forest()
    forest.add("c1")
    forest.add("n1", "c1", "branch")
    forest.add("liar", "n1", "branch")
    forest.heal(3)
    core = forest["n1"].core
    liar = core.neighbours["liar"]
    told = [Advice("add", Kind.DOMAIN, name, name, "c") for name in ("c2", "n2", "york", "gone")]
    core.advertising.advised(liar, told)
    core.advertising.advised(liar, [Advice("remove", Kind.DOMAIN, "gone", "gone", "c")])
    core.advertising.advised(liar, [Advice("remove", Kind.DOMAIN, "c2", "c2", "c")])
    assert set(liar.former) == {"gone", "c2"}
    assert all(core.message_admission.is_from_below(liar, name) for name in ("c2", "n2", "york", "gone"))
    forest.add("c2", "", "root", mesh=["c1"])
    forest.add("n2", "c1", "branch", mesh=["n1"])
    forest.heal(4)
    assert core.mesh.members.keys() == {"n2"}
    assert core.ancestry.names == {"c1", "c2"}
    assert not any(core.message_admission.is_from_below(liar, name) for name in ("c2", "n2"))
    assert all(core.message_admission.is_from_below(liar, name) for name in ("york", "gone"))


def test_a_replaced_node_that_does_not_reach_those_above_takes_nobody_away(forest: Forest) -> None:
    """Its neighbour in the mesh still knows who is above, and passes on what these say."""
    site = forest["n1"]
    site.crash()
    site.disk = Disk(b"another database")
    forest.cut_off += [{"n1", core} for core in CORES]
    site.boot()
    for _ in range(5):
        forest.dial_all()
        forest.settle(1)
    assert site.core.ancestry.chain == ["n1"]
    assert {each.name for each in forest["york"].core.neighbourhood.parents() if each.up} == {"n1", "n2"}
    assert above(forest["york"]) == ALL_ABOVE
    assert forest["york"].core.ancestry.chain == ["york", "n1", "c1"]
    forest.cut_off.clear()
    forest.heal(5)
    assert above(forest["york"]) == ALL_ABOVE
    assert forest["york"].core.ancestry.chain == ["york", "n1", "c1"]
