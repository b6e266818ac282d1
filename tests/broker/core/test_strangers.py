"""A root of a mesh that a child was never linked with: the others know the way to what is below it."""

import pytest

from simulation.forest import Forest

CORES = ("c1", "c2")


def apart(forest: Forest, name: str, core: str) -> None:
    """There is no line between these, from the first day."""
    forest.cut_off.append({name, core})


@pytest.fixture
def forest() -> Forest:
    """Two roots that are one; north is linked with the first only, and has york below it."""
    made = Forest()
    made.add_mesh(*CORES)
    made.add("north", "c1", "branch")
    made.add("york", "north")
    apart(made, "north", "c2")
    made.heal(4)
    assert "north" not in made["c2"].core.neighbours
    return made


@pytest.mark.parametrize("destination", ["queue:till", "queue:till@york", "queue:till@north"])
def test_messages_for_what_is_below_a_stranger_go_to_a_node_that_knows_it(
    forest: Forest, destination: str
) -> None:
    reader = forest.consumer("north" if destination.endswith("north") else "york", "queue:till")
    forest.settle(1)
    forest.producer("c2").send(destination, b"over the other")
    forest.settle(1)
    assert reader.payloads == [b"over the other"]


def test_what_waits_for_nobody_finds_its_reader_wherever_that_comes(forest: Forest) -> None:
    forest.producer("c2").send("queue:late", b"1")
    forest.settle(1)
    reader = forest.consumer("york", "queue:late")
    forest.settle(30)
    assert reader.payloads == [b"1"]
    forest.producer("c2", name="again").send("queue:later", b"2")
    forest.settle(1)
    late = forest.consumer("c2", "queue:later")
    forest.settle(30)
    assert late.payloads == [b"2"]


def test_a_stranger_that_links_is_none_any_more(forest: Forest) -> None:
    assert forest["c2"].core.lookup.strangers.keys() == {"north"}
    assert forest["c1"].core.lookup.strangers.keys() == set()
    forest["c2"].crash()
    forest["c2"].boot()
    forest.settle(1)
    assert forest["c2"].core.lookup.strangers.keys() == {"north"}
    forest.cut_off.clear()
    forest.heal(3)
    assert forest["c2"].core.lookup.strangers.keys() == set()


def test_a_branch_core_that_never_met_its_parent_keeps_what_goes_up_until_it_does() -> None:
    forest = Forest()
    forest.add("hq")
    forest.add_mesh("n1", "n2", parent="hq")
    apart(forest, "n2", "hq")
    forest.heal(4)
    assert not forest["n2"].core.context.parents
    reader = forest.consumer("hq", "queue:sales")
    forest.settle(1)
    forest.producer("n2").send("queue:sales", b"sold")
    forest.settle(1)
    assert (reader.payloads, forest["n2"].waiting()) == ([], 1)
    forest.cut_off.clear()
    forest.heal(3)
    assert reader.payloads == [b"sold"]
