"""The table of sites, read as a person wrote it, and what keeps one from being a tree."""

from pathlib import Path

import pytest
from audit_tables import rows, sites, tree_of

from audit import sites as table_of_sites
from audit.deployment import load_tree
from audit.errors import UsageError

DATA = Path(__file__).parent / "data"


def test_the_demo_s_table_is_its_tree() -> None:
    tree = load_tree(str(DATA / "stores.csv"))
    found = {row.node: (row.parent, row.depth, row.region, row.below) for row in rows(tree.nodes)}
    assert len(found) == len(tree.places) == 9
    assert found["hq"] == (None, 0, None, 8)
    assert found["north"] == ("hq", 1, "north", 3)
    assert found["york"] == ("north", 2, "north", 0)


def test_separators_comments_and_headings_are_a_person_s(tmp_path: Path) -> None:
    table = tmp_path / "my sites.csv"
    table.write_text(
        "\ufeff# ours\n\nRole; Name;Site Broker;Parent\nroot;hq;;\n# closed: leeds\nleaf; york ;mqtt;hq\n"
    )
    found = rows(table_of_sites.read(str(table)))
    assert [(row.name, row.parent, row.role) for row in found] == [
        ("hq", None, "root"),
        ("york", "hq", "leaf"),
    ]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (["a - root", "b a leaf", "b a leaf"], "'b': named twice"),
        (["a - root", "b - root"], "'a', 'b': several rows without a parent"),
        (["a b leaf", "b a leaf"], "no root"),
        (["a - root", "b c leaf"], "'b': no way up to the root 'a'"),
        (["a - root", "b c branch", "c b branch"], "circle"),
    ],
    ids=["twice", "two roots", "no root", "orphan", "circle"],
)
def test_what_is_no_tree_is_refused_by_name(written: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        tree_of(sites(*written))


def test_a_table_without_its_columns_says_which(tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text("name,role\nhq,root\n")
    with pytest.raises(UsageError, match="no column parent"):
        table_of_sites.read(str(table))
    with pytest.raises(UsageError, match="cannot be read"):
        table_of_sites.read(str(tmp_path / "none.csv"))


MESHED = """\
name,role,parent,mesh
hq-2,root,,hq
hq-1,root,,hq
uk-b,branch,hq-1 hq-2,uk
uk-a,branch,hq-2,uk
york,leaf,uk-a uk-b,
bath,leaf,uk-b,
"""


def test_the_nodes_of_a_mesh_are_one_place(tmp_path: Path) -> None:
    table = tmp_path / "sites.csv"
    table.write_text(MESHED)
    tree = load_tree(str(table))
    found = {row.node: (row.place, row.parent, row.depth, row.below) for row in rows(tree.nodes)}
    assert found == {
        "hq-1": ("hq-1", None, 0, 3),
        "hq-2": ("hq-1", None, 0, 3),
        "uk-a": ("uk-a", "hq-1", 1, 2),
        "uk-b": ("uk-a", "hq-1", 1, 2),
        "york": ("york", "uk-a", 2, 0),
        "bath": ("bath", "uk-a", 2, 0),
    }
    assert (tree.roots, len(tree.places), tree.members, tree.meshed) == (("hq-1", "hq-2"), 4, 6, True)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("leeds,leaf,uk-a hq-1,", "'leeds': several parents that are not one mesh"),
        ("uk-c,branch,uk-a,uk", "'uk-a': a mesh whose nodes have different parents"),
        ("eu,root,,eu", "'eu', 'hq-1', 'hq-2': several rows without a parent"),
    ],
)
def test_what_is_no_mesh_is_refused_by_name(tmp_path: Path, row: str, said: str) -> None:
    table = tmp_path / "sites.csv"
    table.write_text(f"{MESHED}{row}\n")
    with pytest.raises(UsageError, match=said):
        load_tree(str(table))
