"""New links of a node: what each says of it in its handshake."""

from dataclasses import replace
from typing import Final

from broker.core.context import Context
from broker.core.neighbours.mesh import OwnMesh
from broker.core.routing.addresses import LogicalAddresses
from broker.core.tree.ancestry import Ancestry
from broker.core.tree.open_links import OpenLinks
from treeconnector.frames import Member
from treeconnector.identity import Shown
from treeconnector.link import Link, LinkSettings
from treeconnector.relations import Relation

_NONCE_BYTES: Final = 32


class LinkMaker:
    """Of one node. `zone`: as its file says."""

    __slots__ = ("_addresses", "_ancestry", "_context", "_links", "_mesh", "_settings", "_zone")

    def __init__(
        self,
        context: Context,
        settings: LinkSettings,
        zone: str,
        links: OpenLinks,
        ancestry: Ancestry,
        addresses: LogicalAddresses,
        mesh: OwnMesh,
    ) -> None:
        self._context = context
        self._settings = settings
        self._zone = zone
        self._links = links
        self._ancestry = ancestry
        self._addresses = addresses
        self._mesh = mesh

    def __repr__(self) -> str:
        return f"<LinkMaker of {self._context.name}>"

    def dial(
        self,
        max_frame: int | None = None,
        name: str = "",
        relation: Relation = Relation.PARENT,
        shown: Shown | None = None,
    ) -> Link:
        """A new link for a carrier that is connected to a parent, or to another node of the mesh.

        `max_frame`: the carrier's limit, bytes. `name`: who is to be there, '' = whoever it is.
        """
        mesh = self._mesh.listing_for(name) if relation is Relation.MESH else self._mesh.listing
        link = self._made(max_frame, mesh, dials=True)
        self._links.dial(link, name, relation, shown or Shown())
        return link

    def accept(self, shown: Shown | None = None, max_frame: int | None = None) -> Link:
        """A new link for a carrier that a child has connected, and what it has shown there."""
        link = self._made(max_frame, self._mesh.listing, dials=False)
        self._links.accept(link, shown or Shown())
        return link

    def _made(self, max_frame: int | None, mesh: list[Member], *, dials: bool) -> Link:
        identity, settings = self._addresses.identity, self._settings
        if max_frame is not None and max_frame < settings.max_frame:
            settings = replace(settings, max_frame=max_frame)
        return Link(
            identity,
            settings,
            dials=dials,
            chain=[identity.name] if dials else list(self._ancestry.chain),
            now=self._context.clock.now,
            addresses=self._addresses.addresses,
            zone=self._zone,
            mesh=mesh,
            above=() if dials else self._ancestry.further,
            nonce=self._context.random_bytes(_NONCE_BYTES),
        )
