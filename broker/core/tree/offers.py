"""Offers: what this node tells each kind of neighbour of consumers and nodes."""

from broker.core.context import Context
from treeconnector.advisories import Advertiser, Beside, Down, Up
from treeconnector.relations import Relation


class Offers:
    """Of one node. `down`: None where no children are accepted; `beside`: to the other nodes of its mesh,
    None while there are none.
    """

    __slots__ = ("_context", "beside", "down", "up")

    up: Advertiser
    down: Advertiser | None

    def __init__(self, context: Context) -> None:
        self._context = context
        self.beside: Advertiser | None = None

    def __repr__(self) -> str:
        return f"<Offers of {self._context.name} pending={self.pending}>"

    def begin(self) -> None:
        """At a start: what is in the table counts as told."""
        context, table, settings = self._context, self._context.table, self._context.settings
        self.up, self.down = Advertiser(table, Up(), context.name, settings.linger), None
        if context.role.accepts_children:
            self.down = Advertiser(table, Down(settings.advise_down), context.name, settings.linger)

    def begin_beside(self) -> None:
        """There is another node in the mesh: what is in the table counts as told."""
        context = self._context
        self.beside = Advertiser(context.table, Beside(), context.name, context.settings.linger)

    @property
    def pending(self) -> bool:
        """Is there anything to tell, now or after its linger?"""
        return any(each is not None and each.pending for each in (self.up, self.down, self.beside))

    def to(self, relation: Relation) -> Advertiser:
        """The offers to such a neighbour."""
        match relation:
            case Relation.PARENT:
                return self.up
            case Relation.CHILD:
                assert self.down is not None
                return self.down
            case Relation.MESH:
                assert self.beside is not None
                return self.beside
