"""Admission: who may be a neighbour, and what happens when a link comes up, speaks and goes.

The link machine knows the protocol, this room knows the tree. Law: nothing of a handshake is answered
before all that came before it is on disk, so that a position that is shown is one that is kept.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.neighbours.link_custody import LinkCustody
from broker.core.neighbours.mesh import OwnMesh
from broker.core.neighbours.neighbourhood import Neighbourhood
from broker.core.neighbours.relocation import Relocation
from broker.core.policies.permits import ChildPermits
from broker.core.policy import Policy
from broker.core.routing.topics import Topics
from broker.core.rows import ENDED, MetaRow
from broker.core.tree.ancestry import Ancestry
from broker.core.tree.open_links import OpenLinks
from sapwood.protocol.errors import FrameError, LinkRefused, Refusal, RemoteError
from treeconnector import link_events as events
from treeconnector import positions
from treeconnector.frames import Hello, Position
from treeconnector.identity import Shown
from treeconnector.link import Link, Standing
from treeconnector.relations import Relation
from treeconnector.roles import role_of, why_not_below

Secrets = Callable[[str, bool, Shown, str], bytes | None]
"""`(name, dials, shown, role)` gives what a link is proved with, or raises `LinkRefused`. `shown`: what the
peer has proved itself with on its carrier; `role`: which it claims.
"""

_NOTHING: Final = Position()
_MOST_CHILDREN: Final = 20_000


def _untrusted(position: Position, session: int) -> Position:
    """An account from a salvaged database, fit to be shown; none at all if no honest end could have it."""
    try:
        positions.check(position)
    except FrameError:
        return _NOTHING
    return replace(position, session=session, met=0) if position.session else _NOTHING


class LinkAdmission:
    """Decides for all links of one node."""

    __slots__ = (
        *("_ancestry", "_context", "_custody", "_links", "_lookup", "_mesh", "_neighbourhood", "_permits"),
        *("_relocation", "_secret_of", "_secret_of_core", "_topics"),
    )

    def __init__(
        self,
        context: Context,
        lookup: Lookup,
        topics: Topics,
        links: OpenLinks,
        custody: LinkCustody,
        ancestry: Ancestry,
        permits: ChildPermits,
        relocation: Relocation,
        neighbourhood: Neighbourhood,
        mesh: OwnMesh,
        secret_of: Secrets,
        secret_of_core: Secrets | None,
    ) -> None:
        self._context = context
        self._lookup = lookup
        self._topics = topics
        self._links = links
        self._custody = custody
        self._ancestry = ancestry
        self._permits = permits
        self._relocation = relocation
        self._neighbourhood = neighbourhood
        self._mesh = mesh
        self.configure(secret_of, secret_of_core)

    def __repr__(self) -> str:
        return f"<LinkAdmission of {self._context.name} {self._links!r}>"

    def configure(self, secret_of: Secrets, secret_of_core: Secrets | None = None) -> None:
        """The secrets of links. `secret_of_core`: for a node beside this one in a mesh without a secret; by
        default as for a child.
        """
        self._secret_of = secret_of
        self._secret_of_core = secret_of_core or secret_of

    # --- what the machine says

    def handle(self, link: Link, said: list[Any]) -> None:
        for event in said:
            try:
                self._handle(link, event)
            except RemoteError as error:
                self._links.refuse(link, Refusal.PROTOCOL, str(error))
                return

    def _handle(self, link: Link, event: Any) -> None:
        match event:
            case events.PeerHello(hello):
                self._context.next_commit.then(lambda: self._hello(link, hello))
            case events.Proven(hello):
                self._proven(link, hello)
            case events.LinkUp():
                self._up(link, event)
            case events.LinkEnded():
                self._links.ended(link, event)
            case _:
                neighbour = self._links.of(link)
                if neighbour is None:
                    return
                if isinstance(event, events.OfStream):
                    for policy in self._context.policies.streamed:
                        policy.streamed(neighbour, event)
                elif not self._custody.said(neighbour, event):
                    self._context.policies.tell(Policy.said, neighbour, event)

    # --- handshake

    def _hello(self, link: Link, hello: Hello) -> None:
        """The peer says who it is: is that possible at all? Then let it prove it."""
        peer = self._links.peers.get(link)
        if peer is None:
            return
        try:
            peer.secret = self._allow(link, hello)
        except LinkRefused as refused:
            self._links.refuse(link, refused.reason, refused.text)
            return
        link.accept(peer.secret, self._standing(hello) if link.dials else None)

    def _allow(self, link: Link, hello: Hello) -> bytes | None:
        """What proves that the peer is who it says, None = nothing is asked for. Raises `LinkRefused`."""
        self._check(link, hello)
        shown = self._links.shown_on(link)
        if self._mesh.relation(link, hello) is Relation.MESH:
            if self._mesh.secret is not None or link.dials:
                return self._mesh.secret
            return self._secret_of_core(hello.name, False, shown, hello.role)
        why = "" if link.dials else self._permits.why_not_role(hello.name, hello.role)
        if why:
            raise LinkRefused(Refusal.ROLE, why)
        return self._secret_of(hello.name, link.dials, shown, hello.role)

    def _check(self, link: Link, hello: Hello) -> None:
        context, ancestry = self._context, self._ancestry
        me = context.name
        if self._lookup.leaving:
            raise LinkRefused(Refusal.BUSY, f"{me!r} is about to stop, and hands over what it has")
        if hello.name != me:
            self._mesh.check(link, hello)
            if self._mesh.relation(link, hello) is Relation.MESH:
                return
        own, other = context.role, role_of(hello.role)
        child, parent = (own, other) if link.dials else (other, own)
        if hello.name == me:
            raise LinkRefused(Refusal.NAME, f"both ends are called {me!r}: names are unique in a tree")
        above = (*hello.chain, *hello.above) if link.dials else (*ancestry.chain, *ancestry.names)
        if (me if link.dials else hello.name) in above:
            chain = " > ".join(hello.chain if link.dials else ancestry.chain)
            text = f"{me!r} and {hello.name!r} would be each other's parent: {chain}"
            raise LinkRefused(Refusal.CYCLE, f"{text}; give one of these another parent")
        why = why_not_below(child, parent)
        if why:
            reason = Refusal.ROLE if child.has_parent else Refusal.SECOND_ROOT
            raise LinkRefused(reason, f"{hello.name!r} ({hello.role}) and {me!r} ({own.name}): {why}")
        known = context.neighbours
        if not link.dials and hello.name not in known and len(known) >= _MOST_CHILDREN:
            text = f"{me!r} knows {_MOST_CHILDREN} others: it forgets some first (sapwood node forget NAME)"
            raise LinkRefused(Refusal.BUSY, text)
        objection = ancestry.objection(hello) if link.dials else ""
        if objection:
            raise LinkRefused(Refusal.SECOND_ROOT, objection)

    def _standing(self, hello: Hello) -> Standing:
        """Where we stand with the holder of this name; another store than we knew shows what is missing."""
        neighbour = self._context.neighbours.get(hello.name)
        return Standing(_NOTHING, 0, b"") if neighbour is None else neighbour.standing

    def _proven(self, link: Link, hello: Hello) -> None:
        """The peer is who it says. Is another process that now?

        One that knows its line to be gone dials anew, and so does a running copy of its machine. Ask the
        holder.
        """
        neighbour = self._context.neighbours.get(hello.name)
        holder = neighbour.link if neighbour is not None else None
        if link.dials or neighbour is None or holder is None:
            self._admit_later(link, hello)
            return
        same_store = neighbour.store_id == hello.store_id
        if same_store and hello.start > neighbour.start:
            self._links.drop(neighbour, "superseded by a later start of the same node")
            self._admit_later(link, hello)
            return
        self._probe(link, hello, holder, same_store)

    def _probe(self, link: Link, hello: Hello, holder: Link, same_store: bool) -> None:
        """Somebody else has this name: whoever answers within `probe_time` keeps it."""
        context = self._context
        heard = holder.heard_at
        holder.probe(context.clock.now)

        def decide() -> None:
            neighbour = context.neighbours.get(hello.name)
            current = neighbour.link if neighbour is not None else None
            if current is not None and current is not holder:
                self._proven(link, hello)
                return
            if neighbour is not None and neighbour.link is holder and holder.heard_at > heard:
                reason = Refusal.CLONE if same_store else Refusal.NAME
                what = (
                    "a copy of its database is running already"
                    if same_store
                    else "another node has this name"
                )
                text = f"{hello.name!r} is live at {context.name!r}: {what}; stop one of the two"
                self._links.refuse(link, reason, text)
                return
            if neighbour is not None and neighbour.link is holder:
                self._links.drop(neighbour, "did not answer a probe")
            self._admit_later(link, hello)

        context.clock.after(context.settings.probe_time, decide)

    def _admit_later(self, link: Link, hello: Hello) -> None:
        self._context.next_commit.then(lambda: self._admit(link, hello))

    def _admit(self, link: Link, hello: Hello) -> None:
        """Let it up, if it may still be here: since its hello it may have been revoked, or we may be leaving.

        Else who says hello and proves itself much later would get past that.
        """
        peer = self._links.peers.get(link)
        if peer is None:
            return
        try:
            if self._allow(link, hello) != peer.secret:
                raise LinkRefused(
                    Refusal.SECRET, f"the secret of {hello.name!r} was changed meanwhile: dial again"
                )
        except LinkRefused as refused:
            self._links.refuse(link, refused.reason, refused.text)
            return
        self.handle(link, link.admit(self._standing(hello)))

    # --- up

    def _up(self, link: Link, event: events.LinkUp) -> None:
        context, hello = self._context, event.hello
        neighbour = self._neighbour(link, hello)
        self._custody.resume(neighbour, event)
        neighbour.connected(link, hello, event.ours, context.clock.now)
        self._links.peers[link].name = neighbour.name
        context.touch(neighbour)
        if neighbour.relation is Relation.PARENT:
            self._ancestry.heard(neighbour, hello.chain, hello.above)
        if hello.mesh or self._lookup.meshed or neighbour.relation is not Relation.CHILD:
            self._neighbourhood.look_again()
        self._neighbourhood.wake(neighbour)
        context.policies.tell(Policy.link_up, neighbour, event)
        self._neighbourhood.go_on(neighbour)
        if neighbour.relation is Relation.CHILD:
            self._relocation.settle(neighbour)

    def _neighbour(self, link: Link, hello: Hello) -> Neighbour:
        relation = self._mesh.relation(link, hello)
        if relation is Relation.PARENT:
            self._leave_others(hello)
        found = self._context.neighbours.get(hello.name)
        if found is not None and found.relation is not relation:
            self._relocation.forget(found, moved=False)
            found = None
        if found is not None and found.link is not None:
            self._links.drop(found, "superseded by a newer link")
        neighbour = found or self._neighbourhood.add(hello.name, relation)
        if relation is Relation.MESH:
            self._mesh.joined(hello)
            if found is None:
                self._topics.greet_mesh(neighbour)
        return neighbour

    def _leave_others(self, hello: Hello) -> None:
        """A parent that is no node of the mesh of this one is none any more."""
        names = {hello.name, *(member.name for member in hello.mesh)}
        for parent in self._neighbourhood.parents():
            if parent.name not in names and all(each.name != hello.name for each in parent.detail.mesh):
                self._relocation.forget(parent, moved=False)

    def end(self) -> None:
        """The node stops. This transaction has all that was given to consumers: nothing is to be doubted, but
        for what was so before, after a crash, and has not come again since.
        """
        names = [each.name for each in self._context.neighbours.values() if each.in_doubt]
        self._context.custody.transaction.put(MetaRow(ENDED, msgspec.msgpack.encode(names) if names else b""))

    def void_positions(self) -> None:
        """The database was salvaged: what it says of numbers serves to count what is missing, and no more.

        No handshake has the session of these accounts, so that a new epoch begins whatever the numbers are.
        """
        session = (int.from_bytes(self._context.identity.store_id[:8], "big") >> 2) or 1
        for neighbour in self._context.neighbours.values():
            again = neighbour.empty_outbox()
            neighbour.stand(neighbour.store_id, _untrusted(neighbour.position, session))
            self._custody.number_again(neighbour, again)
            self._context.touch(neighbour)
