"""Offers: what this node tells each kind of neighbour of consumers and nodes."""

from broker.core.context import Context
from treeconnector.advisories import Advertiser, Beside, Down, Up
from treeconnector.relations import Relation


class Offers:
    """Of one node. `beside`: to the other nodes of its mesh, None while there are none."""

    up: Advertiser
    down: Advertiser

    def __init__(self, context: Context) -> None:
        self._context = context
        self.beside: Advertiser | None = None

    def __repr__(self) -> str:
        return f"<Offers of {self._context.name} pending={self.pending}>"

    def begin(self) -> None:
        """At a start: what is in the table counts as told."""
        table, settings = self._context.table, self._context.settings
        self.up = Advertiser(table, Up(), self._context.name, settings.linger)
        self.down = Advertiser(table, Down(settings.advise_down), self._context.name, settings.linger)

    def begin_beside(self) -> None:
        """There is another node in the mesh: what is in the table counts as told."""
        context = self._context
        self.beside = Advertiser(context.table, Beside(), context.name, context.settings.linger)

    @property
    def pending(self) -> bool:
        """Is there anything to tell, now or after its linger?"""
        beside = self.beside is not None and self.beside.pending
        return self.up.pending or self.down.pending or beside

    def to(self, relation: Relation) -> Advertiser:
        """The offers to such a neighbour."""
        match relation:
            case Relation.PARENT:
                return self.up
            case Relation.CHILD:
                return self.down
            case Relation.MESH:
                assert self.beside is not None
                return self.beside
