"""Which nodes below are away, and since when, as it is told upward for messages anyhow."""

import pytest

from broker.core.tree.below import NodesBelow
from simulation.forest import QUICK, Forest


@pytest.fixture
def tree() -> Forest:
    """hq; north and south; york and leeds below north, bath below south."""
    regions = ("hq",), ("north", "hq", "branch"), ("south", "hq", "branch")
    return Forest().grow(*regions, ("york", "north"), ("leeds", "north"), ("bath", "south"), seconds=2)


def below(tree: Forest, name: str) -> NodesBelow:
    return tree[name].core.below


def cut(tree: Forest, child: str) -> None:
    wire = tree.wire_of(child)
    assert wire is not None
    tree.cut(wire)


def test_all_that_are_below_are_known_and_none_is_away(tree: Forest) -> None:
    assert sorted(below(tree, "hq")) == ["bath", "leeds", "north", "south", "york"]
    assert sorted(below(tree, "north")) == ["leeds", "york"]
    assert (len(below(tree, "york")), below(tree, "york").longest) == (0, None)
    assert below(tree, "hq").away == {}
    assert below(tree, "hq").ways("york") == ("north",)
    assert repr(below(tree, "hq")) == "<NodesBelow hq 0 of 5 away>"


def test_a_store_that_stops_is_away_at_each_node_above_it_and_there_again(tree: Forest) -> None:
    tree["york"].crash()
    tree.settle(0.5)
    assert below(tree, "hq").away == {}
    tree.settle(QUICK.dormant_after + 1)
    for name in ("north", "hq"):
        (away,) = below(tree, name).away.items()
        assert (away[0], away[1].exact) == ("york", True), name
    north = tree["north"].core
    assert below(tree, "north").longest == north.neighbours["york"].broken_at
    assert below(tree, "south").away == {}
    tree.heal(3)
    assert below(tree, "hq").away == below(tree, "north").away == {}
    assert len(below(tree, "hq")) == 5


def test_of_a_region_that_is_cut_off_everything_is_away_since_the_line_broke(tree: Forest) -> None:
    tree["york"].crash()
    tree.settle(5)
    since = below(tree, "hq").away["york"].since
    cut(tree, "north")
    broken = tree["hq"].core.clock.now
    tree.settle(0)
    for _ in range(10):
        tree.pass_time(0.5)
        tree["hq"].run()
    away = below(tree, "hq").away
    assert sorted(away) == ["leeds", "north", "york"]
    assert away["leeds"].since == away["north"].since == broken
    assert away["york"].since == since < broken
    assert below(tree, "hq").longest == since


def test_a_node_that_starts_says_only_at_least_since_when(tree: Forest) -> None:
    tree["york"].crash()
    tree.settle(5)
    tree["hq"].crash()
    tree["hq"].boot()
    assert len(below(tree, "hq")) == 5
    assert [(name, each.exact) for name, each in below(tree, "hq").away.items()] == [("york", False)]
    tree.dial_all()
    tree.settle(5)
    assert [(name, each.exact) for name, each in below(tree, "hq").away.items()] == [("york", False)]
    tree["leeds"].crash()
    tree.settle(5)
    assert below(tree, "hq").away["leeds"].exact


def test_a_store_that_is_forgotten_is_below_no_more(tree: Forest) -> None:
    tree["york"].crash()
    tree.settle(5)
    tree["north"].core.relocation.forget(tree["north"].core.neighbours["york"], moved=False)
    tree.settle(5)
    assert sorted(below(tree, "hq")) == ["bath", "leeds", "north", "south"]
    assert below(tree, "hq").away == {}


def test_a_store_below_a_mesh_is_away_when_the_last_line_to_it_is(meshes: Forest) -> None:
    assert "york" in set(below(meshes, "n1"))
    assert below(meshes, "n1").away == {}
    meshes["york"].crash()
    meshes.settle(5)
    assert set(below(meshes, "n1").away) == {"york"}
    meshes.heal(5)
    assert below(meshes, "n1").away == {}
