"""Roles are types: what a leaf, a branch and the root may do.

A leaf has a parent and refuses children; a branch has both; the root has children only. Advisories go up
where there is a parent and down where there may be children.
"""

from typing import ClassVar, Final

from sapwood.protocol.errors import InvalidName


class Leaf:
    """A site at the edge of the tree, such as a store."""

    name: ClassVar[str] = "leaf"
    has_parent: ClassVar[bool] = True
    accepts_children: ClassVar[bool] = False

    def __repr__(self) -> str:
        return "Leaf()"


class Branch:
    """A site between, such as a region."""

    name: ClassVar[str] = "branch"
    has_parent: ClassVar[bool] = True
    accepts_children: ClassVar[bool] = True

    def __repr__(self) -> str:
        return "Branch()"


class Root:
    """The one node without a parent, such as headquarters."""

    name: ClassVar[str] = "root"
    has_parent: ClassVar[bool] = False
    accepts_children: ClassVar[bool] = True

    def __repr__(self) -> str:
        return "Root()"


Role = Leaf | Branch | Root

ROLES: Final[dict[str, Role]] = {"leaf": Leaf(), "branch": Branch(), "root": Root()}


def role_of(name: str) -> Role:
    """The role of that name; raises `InvalidName` that lists them if there is none."""
    role = ROLES.get(name)
    if role is None:
        raise InvalidName(f"{name[:40]!r} is no role: expected one of {', '.join(ROLES)}")
    return role


def why_not_beside(one: Role, other: Role) -> str:
    """Why these two may not be nodes of one mesh; '' if they may."""
    if not (one.accepts_children and other.accepts_children):
        return "a leaf is in no mesh: two or three roots are, or two or three branches"
    if one is not other:
        return "the nodes of a mesh are all roots, or all branches below the same parents"
    return ""


def why_not_below(child: Role, parent: Role) -> str:
    """Why `child` may not be linked below `parent`; '' if it may."""
    if not child.has_parent:
        return "a root has no parent: two roots cannot be in one tree, but as a mesh that both list"
    if not parent.accepts_children:
        return f"a {parent.name} accepts no children: connect to a branch or the root"
    return ""
