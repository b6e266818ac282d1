"""The relation of a neighbour to this node: above it, below it, or beside it in a mesh of cores."""

from enum import StrEnum


class Relation(StrEnum):
    """Whose end of the link this is. A node of a mesh may have several parents, one of each core above."""

    PARENT = "parent"
    CHILD = "child"
    MESH = "mesh"

    @property
    def direction(self) -> str:
        """Where an advisory goes that comes from such a neighbour, as the advisory log has it."""
        return _DIRECTIONS[self]


_DIRECTIONS = {Relation.PARENT: "down", Relation.CHILD: "up", Relation.MESH: "mesh"}
