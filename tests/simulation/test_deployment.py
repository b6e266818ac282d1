"""Deployments: read from a table, or made to measure."""

from collections import Counter
from pathlib import Path

import pytest

from config.errors import ConfigurationError
from simulation.deployment import deployment, generated

RETAIL = Path(__file__).parents[2] / "examples" / "retail" / "stores.csv"


def test_a_table_of_sites_is_read_parents_first() -> None:
    made = deployment(str(RETAIL))
    seen: set[str] = {""}
    for place in made.places:
        assert place.parent in seen
        seen.add(place.name)
    assert made.places[0].role == "root"
    assert Counter(made.depths().values())[0] == 1


def test_stores_are_dealt_out_evenly() -> None:
    made = deployment("stores=2200, regions=25")
    assert Counter(place.role for place in made.places) == {"root": 1, "branch": 25, "leaf": 2200}
    assert set(Counter(place.parent for place in made.of_role("leaf")).values()) == {88}
    assert {place.parent for place in made.of_role("branch")} == {"hq"}


@pytest.mark.parametrize(
    ("depth", "regions", "fan_out", "branches"), [(1, 0, 0, 0), (3, 2, 3, 8), (4, 2, 2, 14)]
)
def test_any_depth(depth: int, regions: int, fan_out: int, branches: int) -> None:
    made = generated(24, regions, fan_out, depth)
    depths = made.depths()
    assert len(made.of_role("branch")) == branches
    assert {depths[place.name] for place in made.of_role("leaf")} == {depth}


def test_a_root_and_regions_of_several_nodes() -> None:
    made = generated(4, 2, depth=2, cores=3, region_cores=2)
    assert made.meshes() == {
        "hq": ["hq-a", "hq-b", "hq-c"],
        "region-1": ["region-1-a", "region-1-b"],
        "region-2": ["region-2-a", "region-2-b"],
    }
    assert {place.parent for place in made.of_role("branch")} == {"hq-a hq-b hq-c"}
    assert made.of_role("leaf")[0].parents == ("region-1-a", "region-1-b")
    assert Counter(made.depths().values()) == {0: 3, 1: 4, 2: 4}


def test_what_was_made_can_be_written_and_read(tmp_path: Path) -> None:
    made = generated(7, 2, 2, 3, cores=2, region_cores=2)
    made.write(tmp_path / "sites.csv")
    assert deployment(str(tmp_path / "sites.csv")).places == made.places


def test_the_table_of_an_audit_needs_no_addresses(tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("name,parent,role,mesh\nhq-a,,root,hq\nhq-b,,root,hq\nyork,hq-a,leaf,\n")
    assert [place.name for place in deployment(str(table)).places] == ["hq-a", "hq-b", "york"]
    table.write_text("name,parent,role\nhq,,root\nyork,hk,leaf\n")
    with pytest.raises(ConfigurationError, match="no row is named 'hk'"):
        deployment(str(table))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("store=5", "did you mean 'stores'"),
        ("regions=2", "does not say how many stores"),
        ("stores=5,stores=6", "stands twice"),
        ("stores=many", "expected a whole number"),
        ("stores=0", "expected 1 to 2000000"),
        ("stores=5,depth=9", "depth=9: expected 1 (stores below the root) to 8"),
        ("stores=5,depth=1,regions=2", "depth=1 has no regions"),
        ("stores=5,fan_out=2", "depth=2 has no branches below regions"),
        ("stores=5,regions=900,fan_out=900,depth=4", "expected 1 to 2000000 of each"),
        ("stores=5,cores=4", "cores=4: expected a mesh of 2 or 3 nodes, or 1"),
        ("stores=5,depth=1,region_cores=2", "depth=1 has no regions: leave region_cores out"),
        ("nowhere", "there is no table of sites 'nowhere'"),
        ("nowhere.csv", "cannot read the table"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        deployment(text)
    assert said in str(raised.value)
