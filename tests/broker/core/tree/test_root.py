"""A node that knows its root and meets another one."""

import pytest

from simulation.forest import Forest
from simulation.site import Site


@pytest.fixture
def forest() -> Forest:
    return Forest().grow(("hq",), ("hq2",), ("north", "hq", "branch"), ("york", "north"), seconds=2)


def rebuild(forest: Forest, name: str, parent: str, role: str = "branch") -> Site:
    """The same disk, another file."""
    site = forest[name]
    site.crash()
    site.parent, site.role = parent, role
    site.boot()
    forest.dial_all()
    forest.settle(3)
    return site


def test_a_branch_does_not_follow_its_file_to_another_root(forest: Forest) -> None:
    north = rebuild(forest, "north", "hq2")
    assert forest["york"].core.ancestry.chain == ["york", "north", "hq"]
    assert not forest["hq2"].core.context.children()
    for site in (north, forest["hq2"]):
        assert "'north' belongs below the root 'hq', but 'hq2' is below the root 'hq2'" in site.errors[-1]
        assert "'sapwood node leave' at 'north'" in site.errors[-1]
    assert repr(north.core.root) == "<ChainRoot hq above north>"
    assert rebuild(forest, "north", "hq").core.ancestry.chain == ["north", "hq"]


def test_a_branch_between_that_knows_no_root_yet_is_no_way_around(forest: Forest) -> None:
    uk = forest.add("uk", "", "branch")
    north = rebuild(forest, "north", "uk")
    assert north.core.parent is not None
    assert north.core.parent.up
    uk = rebuild(forest, "uk", "hq2")
    assert not north.core.parent.up
    assert "belongs below the root 'hq', but 'uk' is below the root 'hq2'" in north.errors[-1]
    uk.crash()
    forest.add("uk-2", "hq", "branch")
    assert rebuild(forest, "north", "uk-2").core.ancestry.chain == ["north", "uk-2", "hq"]


def test_a_level_above_the_root_is_met_by_those_who_were_away_as_well(forest: Forest) -> None:
    forest["york"].crash()
    forest["north"].crash()
    forest.add("world", "", "root")
    rebuild(forest, "hq", "world")
    forest["york"].boot()
    forest["north"].boot()
    forest.dial_all()
    forest.settle(3)
    assert forest["york"].core.ancestry.chain == ["york", "north", "hq", "world"]
    assert repr(forest["york"].core.root) == "<ChainRoot world above york>"


def test_below_a_parent_that_is_known_another_root_is_only_a_change(forest: Forest) -> None:
    forest["york"].crash()
    forest["north"].core.root.forget()
    forest["north"].run()
    rebuild(forest, "north", "hq2")
    forest["york"].boot()
    forest.dial_all()
    forest.settle(3)
    assert forest["york"].core.ancestry.chain == ["york", "north", "hq2"]
    assert rebuild(forest, "york", "hq2", "leaf").core.ancestry.chain == ["york", "hq2"]


def test_a_branch_that_was_the_root_for_a_while_belongs_to_nobody(forest: Forest) -> None:
    rebuild(forest, "north", "", "root")
    assert rebuild(forest, "north", "hq2").core.ancestry.chain == ["north", "hq2"]


def test_a_region_that_met_no_root_yet_is_none(forest: Forest) -> None:
    forest.add("south", "", "branch")
    forest.add("bath", "south", "leaf")
    forest.dial_all()
    forest.settle(2)
    assert forest["bath"].core.ancestry.chain == ["bath", "south"]
    assert rebuild(forest, "bath", "north", "leaf").core.ancestry.chain == ["bath", "north", "hq"]


def test_a_child_is_told_of_a_root_that_was_met_while_its_own_link_came_up() -> None:
    forest = Forest()
    for name, parent, role in (("hq", "", "root"), ("north", "hq", "branch"), ("york", "north", "leaf")):
        forest.add(name, parent, role)
    slow = forest.dial("york")
    assert slow is not None
    forest.wires.remove(slow)
    forest.dial("north")
    forest.settle()
    assert forest["north"].core.ancestry.chain == ["north", "hq"]
    forest.wires.append(slow)
    forest.settle()
    assert forest["york"].core.ancestry.chain == ["york", "north", "hq"]
