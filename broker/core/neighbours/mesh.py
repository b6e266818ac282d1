"""The mesh: this node and one or two others that are one logical root, or one logical branch.

Who is in it: those that the file names, and whoever introduces itself by dialling with this node in its list
and proves the secret of the mesh. That is kept on disk. What a mesh is called in chains of names is the
smallest of its names, so that it does not matter which of its nodes speaks.

Law: the smaller name dials. A node that the other does not know yet, or has forgotten, introduces itself;
when both dial at once, the smaller name's link is the one that stays.
Law: whoever is not listed joins by the secret of the mesh only; a child's own proves no node of a mesh.
Law: who has left for good is out of it, whatever files and nodes that were away say, until it dials again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.neighbours.neighbourhood import Neighbourhood
from broker.core.neighbours.relocation import Relocation
from broker.core.policy import Policy
from broker.core.routing.addresses import LogicalAddresses
from broker.core.rows import MetaRow
from broker.core.settings import MeshSettings
from broker.core.tree.ancestry import Ancestry
from broker.core.tree.offers import Offers
from broker.core.tree.open_links import OpenLinks
from sapwood.protocol.destinations import Kind
from sapwood.protocol.errors import LinkRefused, Refusal
from treeconnector import hellos
from treeconnector import link_events as events
from treeconnector.frames import Hello, Member
from treeconnector.link import Link
from treeconnector.relations import Relation

_MOST_WAYS: Final = 3
_LATER: Final = 0.1
_ROW: Final = "mesh"
_LEFT: Final = "left the mesh"
_WAYS: Final = "ways to the parent"


class OwnMesh(Policy):
    """What one node knows of its mesh, and of those of its neighbours.

    `members`: the other nodes, with addresses. `authorities`: whose certificates the nodes of this mesh show,
    b"" = nothing is said of that.
    """

    __slots__ = (
        *("_addresses", "_ancestry", "_context", "_left", "_links", "_neighbourhood", "_offers"),
        *("_registered", "_relocation", "_same_ways", "_settings", "authorities", "members"),
    )

    def __init__(
        self,
        context: Context,
        links: OpenLinks,
        addresses: LogicalAddresses,
        ancestry: Ancestry,
        offers: Offers,
        relocation: Relocation,
        neighbourhood: Neighbourhood,
        settings: MeshSettings,
    ) -> None:
        self._context = context
        self._links = links
        self._addresses = addresses
        self._ancestry = ancestry
        self._offers = offers
        self._relocation = relocation
        self._neighbourhood = neighbourhood
        self._settings = settings
        self.members = context.members
        self.members.update((name, list(addresses)) for name, addresses in settings.members.items())
        self._same_ways = False
        self._left: list[str] = []
        self._registered: dict[str, list[str]] = {}
        self.authorities = b""

    def __repr__(self) -> str:
        return f"<OwnMesh of {self._context.name} and {', '.join(sorted(self.members)) or 'nobody'}>"

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """The file is newer than what was on disk."""
        self._same_ways = meta.get(_WAYS) == self._ways
        kept, left = meta.get(_ROW), meta.get(_LEFT)
        if kept:
            known = msgspec.msgpack.decode(kept, type=dict[str, list[str]])
            known.pop(self._context.name, None)
            for name, addresses in known.items():
                self.members.setdefault(name, addresses)
        if left:
            self._left = msgspec.msgpack.decode(left, type=list[str])
            for name in self._left:
                self.members.pop(name, None)

    def begin(self) -> None:
        """After a start, when the table is what it was."""
        if self.members and self._offers.beside is None:
            table = self._context.table
            for neighbour in self._context.neighbours.values():
                if neighbour.up:
                    table.lines[neighbour.name] = None
            self._look_later()
            self._offers.begin_beside()
            held = (key for peer in table.mesh for key in table.routes_of(peer))
            self._neighbourhood.meet([key.name for key in held if key.kind == Kind.DOMAIN])

    # --- who is in it

    @property
    def listing(self) -> list[Member]:
        """The other nodes, as neighbours are told of them."""
        return [Member(name, addresses) for name, addresses in sorted(self.members.items())]

    @property
    def name(self) -> str:
        return hellos.mesh_name(self._context.name, self.members)

    def relation(self, link: Link, hello: Hello) -> Relation:
        """What the peer of a new link is to this node."""
        if link.dials:
            return self._links.peers[link].relation
        me = self._context.name
        return Relation.MESH if any(each.name == me for each in hello.mesh) else Relation.CHILD

    def check(self, link: Link, hello: Hello) -> None:
        """Raise `LinkRefused` if this cannot be a link of the mesh, or a link past it."""
        me = self._context.name
        known = self._context.neighbours.get(hello.name)
        if link.dials:
            self._check_dialled(link, hello, known)
        if self.relation(link, hello) is not Relation.MESH:
            if hello.name in self.members or any(each.name == me for each in hello.mesh):
                raise LinkRefused(
                    Refusal.ROLE,
                    f"{hello.name!r} and {me!r} are nodes of one mesh: each lists the other, and neither"
                    " is the other's parent",
                )
            return
        if known is not None and known.relation is not Relation.MESH and known.up:
            raise LinkRefused(Refusal.ROLE, f"{hello.name!r} is a {known.relation} of {me!r} already")
        listed = hello.name in self.members or hello.name in self._settings.members
        if not (listed or self._settings.admits):
            raise LinkRefused(
                Refusal.SECRET,
                f"{me!r} lists no {hello.name!r} in its mesh: name it there, or give the mesh a secret",
            )
        if not link.dials and me < hello.name and self._links.is_dialling(hello.name, Relation.MESH):
            raise LinkRefused(Refusal.BUSY, f"{me!r} dials {hello.name!r} itself at this moment")

    def _check_dialled(self, link: Link, hello: Hello, known: Neighbour | None) -> None:
        """It is who was meant, and there is no other link with it."""
        expected, me = self._links.peers[link].expected, self._context.name
        if expected and expected != hello.name:
            raise LinkRefused(Refusal.ROLE, f"{me!r} expected {expected!r}, but this is {hello.name!r}")
        if known is not None and known.up:
            raise LinkRefused(Refusal.BUSY, f"{me!r} is linked with {hello.name!r} already")

    @property
    def secret(self) -> bytes | None:
        """Proves a link of the mesh; None: the mesh has none."""
        return self._settings.secret

    def joined(self, hello: Hello) -> None:
        """A link of the mesh is up: from now on both know all that the other knows."""
        found = {hello.name: hello.addresses, **{each.name: each.addresses for each in hello.mesh}}
        found.pop(self._context.name, None)
        if hello.name in self._left:
            self._keep_left([name for name in self._left if name != hello.name])
        for name in self._left:
            found.pop(name, None)
        named = self._settings.members
        before = dict(self.members)
        for name, addresses in found.items():
            if name in self.members or len(self.members) < hellos.MAX_MESH:
                ways = list(named.get(name, ())) or addresses or self.members.get(name, [])
                self.members[name] = ways[:_MOST_WAYS]
        self.begin()
        if self.members != before:
            self._names_changed(self.members.keys() ^ before.keys())
            self._changed()

    def left(self, name: str) -> None:
        """A node has left for good, or is to be forgotten; also by those who hear of it later."""
        if self.members.pop(name, None) is None:
            return
        self._keep_left([*(each for each in self._left if each != name), name][-hellos.MAX_MESH :])
        self._names_changed((name,))
        self._changed()
        for neighbour in self._context.neighbours.values():
            if neighbour.name != name:
                self.greet(neighbour)

    def _names_changed(self, names: Iterable[str]) -> None:
        self._context.policies.tell(Policy.names_changed, tuple(names))

    def _keep_left(self, names: list[str]) -> None:
        self._left = names
        self._context.custody.transaction.put(MetaRow(_LEFT, msgspec.msgpack.encode(names)))

    def greet(self, neighbour: Neighbour) -> None:
        """Tell it who has left, if anybody has, and a child whom to trust; parents are told by who leaves."""
        link = neighbour.link
        if link is None or neighbour.relation is Relation.PARENT:
            return
        if self._left:
            link.say.mesh(self.listing, self._left)
        if self.authorities and neighbour.relation is Relation.CHILD:
            link.say.authorities(self.authorities)

    def show(self, authorities: bytes) -> None:
        """From now on children are told these."""
        if authorities != self.authorities:
            self.authorities = authorities
            for child in self._context.children():
                self.greet(child)

    def _changed(self) -> None:
        """Keep it, and tell all neighbours but the nodes of the mesh, which know by themselves."""
        context = self._context
        context.custody.transaction.put(MetaRow(_ROW, msgspec.msgpack.encode(self.members)))
        for neighbour in context.neighbours.values():
            if neighbour.relation is not Relation.MESH and neighbour.link is not None:
                neighbour.link.say.mesh(self.listing)
        self._look_whom_to_dial()

    def said(self, neighbour: Neighbour, event: events.Event) -> None:
        match event:
            case events.MeshChanged(members, left):
                self.changed_at(neighbour, members, left)
            case events.PeerAuthorities(certificates) if neighbour.relation is Relation.PARENT:
                self._context.policies.tell(Policy.authorities_told, certificates)
            case events.PeerLeft():
                self._peer_left(neighbour)
            case _:
                pass  # it is for another policy

    def _peer_left(self, neighbour: Neighbour) -> None:
        """For good. A node that has left its last parent is another incarnation when it comes back."""
        context, dials = self._context, neighbour.link is not None and neighbour.link.dials
        self.left(neighbour.name)
        self._relocation.forget(neighbour, moved=False)
        if dials and not context.parents and context.role.has_parent:
            self._addresses.rejoin()

    def changed_at(self, neighbour: Neighbour, members: list[Member], left: Sequence[str] = ()) -> None:
        """A neighbour says who is in its own mesh now, and who has left it."""
        neighbour.detail.mesh = neighbour.may_have(members) or ()
        if neighbour.relation is not Relation.CHILD:
            self._others_left(neighbour, left)
        self._context.touch(neighbour)
        self._neighbourhood.look_again()
        if neighbour.relation is Relation.PARENT:
            self._ancestry.look(neighbour)
        self._look_whom_to_dial()

    def _others_left(self, neighbour: Neighbour, left: Sequence[str]) -> None:
        """A parent, or a node beside this one, says who has left their mesh. Who is linked is still there."""
        for name in left:
            gone = self._context.neighbours.get(name)
            if gone is not None and gone.up:
                continue
            if neighbour.relation is Relation.MESH:
                self.left(name)
            else:
                for parent in self._context.parents.values():
                    parent.detail.mesh = [member for member in parent.detail.mesh if member.name != name]
            if gone is not None and gone.relation is neighbour.relation:
                self._relocation.forget(gone, moved=False)

    # --- lines

    def link_up(self, neighbour: Neighbour, up: events.LinkUp) -> None:
        link, listing = neighbour.link, self.listing
        if link is not None and neighbour.relation is not Relation.MESH and up.ours.mesh != listing:
            link.say.mesh(listing)  # it has changed while the link came up: our hello was made before
        self._line_changed(neighbour)
        self.greet(neighbour)
        if neighbour.relation is Relation.PARENT:
            self._met_parent()

    def link_down(self, neighbour: Neighbour) -> None:
        self._line_changed(neighbour)

    def _line_changed(self, neighbour: Neighbour) -> None:
        if self.members:
            self._context.table.set_line(neighbour.name, neighbour.up)
        if neighbour.relation is Relation.MESH and not neighbour.up:
            self._look_later()

    # --- whom to dial

    def to_dial(self) -> dict[str, list[str]]:
        """The nodes of this mesh that this node dials, with their addresses: those with larger names, and
        those that may not know it, or not where it is. A registry names as many more as there is room for.
        """
        me, registered = self._context.name, self._registered
        strangers = [name for name in registered if name not in self.members and name not in self._left]
        room = max(hellos.MAX_MESH - len(self.members), 0)
        found = {name: registered[name] for name in strangers[:room]}
        for name, addresses in self.members.items():
            if me < name or not self._is_awaited(name):
                found[name] = list(dict.fromkeys([*addresses, *registered.get(name, ())]))
        return found

    def registered(self, nodes: Mapping[str, list[str]]) -> None:
        """A registry names these for the mesh, with addresses. Each is of it once it has proved its secret;
        nobody is told of it before.
        """
        found = {name: ways for name, ways in nodes.items() if name != self._context.name}
        if found != self._registered:
            self._registered = found
            self._look_whom_to_dial()

    def listing_for(self, name: str) -> list[Member]:
        """The same for a node that is dialled to be beside this one, whether it is known or not."""
        known = self.listing
        return known if any(each.name == name for each in known) else [*known, Member(name, [])]

    def _is_awaited(self, name: str) -> bool:
        """Is it for the other one to dial? One that does not for long may have forgotten this node."""
        context, other = self._context, self._context.neighbours.get(name)
        if other is None or other.up:
            return other is not None
        return (
            bool(self._addresses.addresses)
            and context.clock.now - other.broken_at < context.settings.dormant_after
        )

    def _look_whom_to_dial(self) -> None:
        self._context.policies.tell(Policy.mesh_changed)

    def _look_later(self) -> None:
        """Whom to dial, when a node that is away has not dialled for long."""
        self._context.clock.after(self._context.settings.dormant_after + _LATER, self._look_whom_to_dial)

    def parents_to_dial(self) -> dict[str, list[str]]:
        """All nodes of the parents' mesh, with their addresses. What was on disk counts as long as the file
        says the same ways to the parent.
        """
        known = [parent for parent in self._parents_of_file() if parent.detail.mesh]
        found: dict[str, list[str]] = {}
        for parent in known:
            found.update((member.name, member.addresses) for member in parent.detail.mesh)
        found.update((parent.name, list(parent.detail.addresses)) for parent in known)
        return found

    def announced(self) -> dict[str, str]:
        """Where a parent that stands alone says that it can be dialled: addresses, with its name."""
        alone = [parent for parent in self._parents_of_file() if not parent.detail.mesh]
        return {address: parent.name for parent in alone for address in parent.detail.addresses}

    def _parents_of_file(self) -> list[Neighbour]:
        """Those that were met on the ways that the file has now."""
        parents = self._context.parents.values()
        return [parent for parent in parents if parent.since or self._same_ways]

    def _met_parent(self) -> None:
        """A parent was met on the ways that the file has."""
        if not self._same_ways:
            self._same_ways = True
            self._context.custody.transaction.put(MetaRow(_WAYS, self._ways))
        self._look_whom_to_dial()

    @property
    def _ways(self) -> bytes:
        return "\n".join(self._settings.ways).encode()
