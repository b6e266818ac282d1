import pytest

from sapwood.protocol.errors import InvalidName
from treeconnector.roles import Branch, Leaf, Root, role_of, why_not_below


def test_roles_by_name() -> None:
    assert [type(role_of(name)) for name in ("leaf", "branch", "root")] == [Leaf, Branch, Root]
    assert [repr(role_of(name)) for name in ("leaf", "branch", "root")] == ["Leaf()", "Branch()", "Root()"]
    with pytest.raises(InvalidName, match="'trunk' is no role: expected one of leaf, branch, root"):
        role_of("trunk")


@pytest.mark.parametrize("role", [Leaf(), Branch(), Root()])
def test_a_role_is_found_by_the_name_that_it_has(role: Leaf | Branch | Root) -> None:
    assert role_of(role.name).name == role.name


@pytest.mark.parametrize(
    ("child", "parent", "reason"),
    [
        (Leaf(), Branch(), ""),
        (Leaf(), Root(), ""),
        (Branch(), Branch(), ""),
        (Branch(), Root(), ""),
        (Leaf(), Leaf(), "a leaf accepts no children"),
        (Branch(), Leaf(), "a leaf accepts no children"),
        (Root(), Root(), "two roots cannot be in one tree"),
        (Root(), Branch(), "a root has no parent"),
    ],
)
def test_who_may_be_linked_below_whom(child, parent, reason: str) -> None:
    found = why_not_below(child, parent)
    assert reason in found
    assert bool(found) == bool(reason)
