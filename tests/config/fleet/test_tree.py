import pytest

from config.fleet import SiteRow, tree_problems
from config.fleet.tree import Meshes

HQ = SiteRow(name="hq", role="root", address="hq")


def rows(*texts: str) -> list[SiteRow]:
    """`name parent role [address]`, with - for an empty cell."""
    cells = [[cell.replace("-", "") for cell in text.split()] for text in texts]
    return [
        SiteRow(name=name, parent=parent, role=role, address="".join(address), line=2 + i)
        for i, (name, parent, role, *address) in enumerate(cells)
    ]


def problems(*texts: str) -> list[str]:
    return [str(problem) for problem in tree_problems(rows(*texts))]


def test_a_tree_of_any_depth_is_right() -> None:
    assert (
        problems("hq - root h", "uk hq branch u", "a uk leaf", "b uk branch b", "c b leaf", "d hq leaf d")
        == []
    )
    assert problems("c b leaf", "b hq branch u", "hq - root h") == []
    assert problems("hq - root") == []


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((), ["there is no root: exactly one row needs the role root and no parent"]),
        (("a - leaf",), ["there is no root", "2:parent: 'a' is an orphan: a leaf needs a parent"]),
        (("hq - root h", "hq2 - root h2"), ["3:role: 'hq2' is a second root, the first is 'hq' in line 2"]),
        (("hq - root h", "a hq leaf", "a hq leaf"), ["4:name: 'a' stands twice, first as 'a' in line 3"]),
        (("hq - root h", "a hq leaf", "A hq leaf"), ["4:name: 'A' differs only in case from 'a' in line 3"]),
        (("hq - root h", "a - leaf"), ["3:parent: 'a' is an orphan: a leaf needs a parent"]),
        (("hq - root h", "a hk leaf"), ["3:parent: 'a' is an orphan: no row is named 'hk'"]),
        (
            ("region - root h", "a regoin leaf"),
            ["3:parent: 'a' is an orphan: no row is named 'regoin'; did you mean 'region'?"],
        ),
        (
            ("hq a root h", "a hq leaf"),
            ["2:parent: 'hq' is the root and has no parent", "2:parent: a cycle: hq -> a -> hq", "3:address"],
        ),
        (
            ("hq - root h", "a hq leaf x", "b a leaf"),
            ["4:parent: 'a' in line 3 is a leaf and has no children"],
        ),
        (
            ("hq - root", "a hq leaf", "b hq leaf"),
            ["2:address: 'hq' has children (2) and needs an address that they dial"],
        ),
        (
            ("hq - root h", "a hq leaf h:7600"),
            ["3:address: ws://h:7600/link is already the address of 'hq' in line 2"],
        ),
        (("hq - root h", "a a branch x"), ["3:parent: a cycle: a -> a"]),
        (
            ("hq - root h", "a b branch x", "b c branch y", "c a branch z", "d a leaf"),
            ["3:parent: a cycle: a -> b -> c -> a"],
        ),
        (("hq - root h", "d a leaf", "a b branch x", "b a branch y"), ["4:parent: a cycle: a -> b -> a"]),
    ],
)
def test_what_is_no_tree_is_named_with_line_and_column(texts: tuple[str, ...], expected: list[str]) -> None:
    found = sorted(problems(*texts))
    assert len(found) == len(expected)
    for beginning in expected:
        assert any(one.startswith(beginning) for one in found), (beginning, found)


def meshed(*texts: str) -> list[SiteRow]:
    """`name parents role mesh`, with commas between parents; each has an address."""
    cells = [[cell.replace("-", "").replace(",", " ") for cell in text.split()] for text in texts]
    return [
        SiteRow(name=name, parent=parent, role=role, mesh=mesh, address=name, line=line)
        for line, (name, parent, role, mesh) in enumerate(cells, 2)
    ]


MESHED = ("hq1 - root hq", "hq2 - root hq", "uk1 hq1,hq2 branch uk", "uk2 hq2 branch uk", "york uk2 leaf -")


def test_the_nodes_of_a_mesh_are_one_node_to_all_others() -> None:
    rows = meshed(*MESHED)
    assert tree_problems(rows) == []
    meshes = Meshes(rows)
    assert [row.name for row in meshes.above(rows[3])] == ["hq2", "hq1"]
    assert [row.name for row in meshes.above(rows[4])] == ["uk2", "uk1"]
    assert [row.name for row in meshes.beside(rows[0])] == ["hq2"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("hq1 - root hq", "hq2 - root eu"), "3:role: 'hq2' is a second root, the first is 'hq1' in line 2"),
        (("hq1 - root hq", "york hq1 leaf -"), "2:mesh: 'hq1' is alone in the mesh 'hq'"),
        ((*MESHED, "bath uk1 leaf uk"), "7:mesh: 'bath' and 'uk1' in line 4 are one mesh: they need the"),
        ((*MESHED, "eu hq1 branch -", "bath uk1,eu leaf -"), "8:parent: 'uk1' and 'eu' are not one mesh"),
        ((*MESHED, "bath uk1,uk3 leaf -"), "7:parent: 'bath' is an orphan: no row is named 'uk3'"),
        ((*MESHED, "a york leaf m", "b york leaf m"), "'a' is a leaf, and in no mesh"),
    ],
)
def test_what_is_no_mesh_is_named(texts: tuple[str, ...], expected: str) -> None:
    assert any(expected in str(problem) for problem in tree_problems(meshed(*texts)))


def test_a_node_of_a_mesh_needs_an_address_that_the_others_dial() -> None:
    rows = [SiteRow(name=name, role="root", mesh="hq") for name in ("a", "b")]
    assert {problem.message for problem in tree_problems(rows)} == {
        f"{name!r} has others in its mesh and needs an address that they dial" for name in ("a", "b")
    }


@pytest.mark.parametrize("upwards", [False, True])
def test_a_node_that_is_too_far_from_the_root_is_told_once(upwards: bool) -> None:
    chain = [f"n{i} {f'n{i - 1}' if i else 'hq'} branch h{i}" for i in range(70)]
    root = "hq - root h"
    assert problems(root, *chain[:63]) == []
    (found,) = problems(root, *(reversed(chain) if upwards else chain))
    assert found.endswith(":parent: 'n63' has more than 63 links to the root: give it a nearer parent")


def test_a_long_cycle_is_shortened() -> None:
    cycle = [f"n{i} n{(i + 1) % 50} branch h{i}" for i in range(50)]
    (found,) = problems("hq - root h", *cycle)
    assert found == "3:parent: a cycle: " + " -> ".join([*(f"n{i}" for i in range(10)), "…", "n0"])


def test_a_wrong_role_is_not_taken_for_a_missing_root() -> None:
    assert problems("hq - rot h", "a hq leaf") == []


def test_one_table_is_one_tree() -> None:
    others = [
        SiteRow(name=name, role="leaf", parent="hq", tree=tree)
        for name, tree in (("a", "x"), ("b", ""), ("c", "y"))
    ]
    (found,) = tree_problems([HQ, *others])
    assert found.column == "tree"
    assert found.message == "'y' is another tree than 'x' of 'a': one table, one tree"
