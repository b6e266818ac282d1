"""The table of sites, read as a person wrote it, and what keeps one from being a tree."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from audit_tables import sites

from audit.deployment import make_tree, read_sites
from audit.errors import UsageError
from audit.schema import SITES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA = Path(__file__).parent / "data"


def test_the_demo_s_table_is_its_tree(spark: "SparkSession") -> None:
    tree = make_tree(read_sites(spark, str(DATA / "stores.csv")))
    found = {row.node: (row.parent, row.depth, row.region, row.below) for row in tree.nodes.collect()}
    assert len(found) == tree.places == 9
    assert found["hq"] == (None, 0, None, 8)
    assert found["north"] == ("hq", 1, "north", 3)
    assert found["york"] == ("north", 2, "north", 0)


def test_separators_comments_and_headings_are_a_person_s(spark: "SparkSession", tmp_path: Path) -> None:
    table = tmp_path / "my sites.csv"
    table.write_text(
        "\ufeff# ours\n\nRole; Name;Site Broker;Parent\nroot;hq;;\n# closed: leeds\nleaf; york ;mqtt;hq\n"
    )
    rows = read_sites(spark, str(table)).orderBy("name").collect()
    assert [(row.name, row.parent, row.role) for row in rows] == [
        ("hq", None, "root"),
        ("york", "hq", "leaf"),
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["a - root", "b a leaf", "b a leaf"], "'b': named twice"),
        (["a - root", "b - root"], "'a', 'b': several rows without a parent"),
        (["a b leaf", "b a leaf"], "no root"),
        (["a - root", "b c leaf"], "'b': no way up to the root 'a'"),
        (["a - root", "b c branch", "c b branch"], "circle"),
    ],
    ids=["twice", "two roots", "no root", "orphan", "circle"],
)
def test_what_is_no_tree_is_refused_by_name(spark: "SparkSession", rows: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_tree(spark.createDataFrame(sites(*rows), SITES))


def test_a_table_without_its_columns_says_which(spark: "SparkSession", tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("name,role\nhq,root\n")
    with pytest.raises(UsageError, match="no column parent"):
        read_sites(spark, str(table))
    with pytest.raises(UsageError, match="cannot be read"):
        read_sites(spark, str(tmp_path / "none.csv"))
