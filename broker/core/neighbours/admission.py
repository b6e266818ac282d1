"""Admission: who may be a neighbour, and what happens when a link comes up, speaks and goes.

The link machine knows the protocol, this room knows the tree. Law: nothing of a handshake is answered
before all that came before it is on disk, so that a position that is shown is one that is kept.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from broker.core.links.neighbour import Neighbour
from broker.core.links.peer_holds import MOST as MOST_HOLDS
from broker.core.links.peer_holds import MOST_BYTES as MOST_HELD_BYTES
from broker.core.messages.custody import QueueEntry
from broker.core.messages.queue_names import queue_name_at
from broker.core.neighbours.ancestry import way_of, way_up
from broker.core.rows import MetaRow
from treeconnector import link_events as events
from treeconnector import positions
from treeconnector.bundles import Flag
from treeconnector.errors import FrameError, LinkRefused, Refusal, RemoteError
from treeconnector.frames import Hello, Position
from treeconnector.identity import Shown
from treeconnector.link import Link, Standing
from treeconnector.relations import Relation
from treeconnector.roles import role_of, why_not_below

if TYPE_CHECKING:
    from broker.core.node import NodeCore

ENDED: Final = "ended"
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
    """Decides for all links of one node. `names`: of the neighbours, by their links that are up."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self.names: dict[Link, str] = {}
        self._secrets: dict[Link, bytes | None] = {}
        self.shown: dict[Link, Shown] = {}
        self.closing: list[Link] = []

    def __repr__(self) -> str:
        return f"<LinkAdmission of {self._core.identity.name} open={len(self.names)}>"

    # --- what the machine says

    def handle(self, link: Link, said: list[Any]) -> None:
        for event in said:
            try:
                self._handle(link, event)
            except RemoteError as error:
                self.handle(link, link.refuse(Refusal.PROTOCOL, str(error)))
                return

    def _handle(self, link: Link, event: Any) -> None:
        match event:
            case events.PeerHello(hello):
                self._core.forwarder.turn.after.append(lambda: self._hello(link, hello))
            case events.Proven(hello):
                self._proven(link, hello)
            case events.Up():
                self._up(link, event)
            case events.Ended():
                self.ended(link, event.text if event.error is None else str(event.error))
            case _:
                neighbour = self.of(link)
                if neighbour is not None:
                    self._said(neighbour, link, event)

    def of(self, link: Link) -> Neighbour | None:
        """The neighbour that this link is the current one of."""
        neighbour = self._core.neighbours.get(self.names.get(link, ""))
        return neighbour if neighbour is not None and neighbour.link is link else None

    def _said(self, neighbour: Neighbour, link: Link, event: Any) -> None:
        core = self._core
        match event:
            case events.VolatileArrived():
                core.arrivals.from_neighbour(neighbour, event.header, event.body)
            case events.Acked(received):
                self._acked(neighbour, received)
            case events.Advised(advices):
                core.advising.advised(neighbour, advices)
            case events.SnapshotStarted():
                neighbour.held.begin_snapshot()
            case events.SnapshotEnded(digest):
                core.advising.snapshot_ended(neighbour, digest)
            case events.PeerHolds(destination):
                self._holds(neighbour, destination)
            case events.PeerReleases(destination):
                self._released(neighbour, destination)
            case events.ChainChanged(chain, above) if neighbour.relation is Relation.PARENT:
                self._chain(neighbour, link, chain, above)
            case events.MeshChanged(members, left):
                core.mesh.changed_at(neighbour, members, left)
            case events.PeerMoved(name) if neighbour.relation is Relation.PARENT:
                core.moves.told(name, neighbour)
            case events.PeerConflict(name, text) if neighbour.relation is Relation.PARENT:
                core.moves.conflict(name, text)
            case events.PeerDeclined(keys, text):
                core.advising.declined(neighbour, keys, text)
            case events.PeerAuthorities(certificates) if neighbour.relation is Relation.PARENT:
                core.mesh.on_authorities(certificates)
            case events.PeerGave(pairs, known) if neighbour.relation is Relation.MESH:
                core.permitting.given.heard(pairs, known=known)
            case events.PeerGrants(rules):
                core.permitting.told(neighbour, rules)
            case events.PeerLeft():
                core.mesh.left(neighbour.name)
                core.moves.forget(neighbour, moved=False)
                if link.dials and not core.forwarder.parents and core.role.has_parent:
                    core.addressing.rejoin()
            case events.PeerAsks() | events.PeerHas() | events.PeerInvalidates() | events.PeerKnowsNobody():
                core.addressing.said(neighbour, event)
            case events.PeerPaused(text):
                neighbour.error = text or "paused"

    # --- handshake

    def _hello(self, link: Link, hello: Hello) -> None:
        """The peer says who it is: is that possible at all? Then let it prove it."""
        core = self._core
        if link not in core.open_links:
            return
        try:
            secret = self._secrets[link] = self._allow(link, hello)
        except LinkRefused as refused:
            self.handle(link, link.refuse(refused.reason, refused.text))
            return
        link.accept(secret, self._standing(hello) if link.dials else None)

    def _allow(self, link: Link, hello: Hello) -> bytes | None:
        """What proves that the peer is who it says, None = nothing is asked for. Raises `LinkRefused`."""
        core = self._core
        self._check(link, hello)
        if core.mesh.relation(link, hello) is Relation.MESH:
            return core.mesh.secret_of(link, hello)
        why = "" if link.dials else core.permitting.why_not_role(hello.name, hello.role)
        if why:
            raise LinkRefused(Refusal.ROLE, why)
        return core.secret_of(hello.name, link.dials, self.shown_on(link), hello.role)

    def shown_on(self, link: Link) -> Shown:
        """What the peer has shown on its carrier."""
        return self.shown.get(link, Shown())

    def _check(self, link: Link, hello: Hello) -> None:
        core = self._core
        me = core.identity.name
        if core.forwarder.leaving:
            raise LinkRefused(Refusal.BUSY, f"{me!r} is about to stop, and hands over what it has")
        if hello.name != me:
            core.mesh.check(link, hello)
            if core.mesh.relation(link, hello) is Relation.MESH:
                return
        child, parent = (core.role, role_of(hello.role)) if link.dials else (role_of(hello.role), core.role)
        if hello.name == me:
            raise LinkRefused(Refusal.NAME, f"both ends are called {me!r}: names are unique in a tree")
        above = (*hello.chain, *hello.above) if link.dials else (*core.chain, *core.ancestry.names)
        if (me if link.dials else hello.name) in above:
            chain = " > ".join(hello.chain if link.dials else core.chain)
            raise LinkRefused(
                Refusal.CYCLE, f"{me!r} and {hello.name!r} would be each other's parent: {chain}"
            )
        why = why_not_below(child, parent)
        if why:
            reason = Refusal.ROLE if child.has_parent else Refusal.SECOND_ROOT
            raise LinkRefused(reason, f"{hello.name!r} ({hello.role}) and {me!r} ({core.role.name}): {why}")
        if not link.dials and hello.name not in core.neighbours and len(core.neighbours) >= _MOST_CHILDREN:
            text = f"{me!r} knows {_MOST_CHILDREN} others: it forgets some first (sapwood node forget NAME)"
            raise LinkRefused(Refusal.BUSY, text)
        objection = core.root.objection(hello, way_of(hello)) if link.dials else ""
        if objection:
            raise LinkRefused(Refusal.SECOND_ROOT, objection)

    def _standing(self, hello: Hello) -> Standing:
        """Where we stand with the holder of this name; another store than we knew shows what is missing."""
        neighbour = self._core.neighbours.get(hello.name)
        return Standing(_NOTHING, 0, b"") if neighbour is None else neighbour.standing

    def _proven(self, link: Link, hello: Hello) -> None:
        """The peer is who it says. Is another process that now?"""
        core = self._core
        neighbour = core.neighbours.get(hello.name)
        holder = neighbour.link if neighbour is not None else None
        if link.dials or neighbour is None or holder is None:
            self._admit_later(link, hello)
            return
        same_store = neighbour.store_id == hello.store_id
        same_process = same_store and neighbour.detail.incarnation == hello.incarnation
        if same_process or (same_store and hello.start > neighbour.start):
            self.drop(neighbour, "superseded by a newer link of the same node")
            self._admit_later(link, hello)
            return
        self._probe(link, hello, holder, same_store)

    def _probe(self, link: Link, hello: Hello, holder: Link, same_store: bool) -> None:
        """Somebody else has this name: whoever answers within `probe_time` keeps it."""
        core = self._core
        heard = holder.heard_at
        holder.probe(core.clock.now)

        def decide() -> None:
            neighbour = core.neighbours.get(hello.name)
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
                text = f"{hello.name!r} is live at {core.identity.name!r}: {what}; stop one of the two"
                self.handle(link, link.refuse(reason, text))
                return
            if neighbour is not None and neighbour.link is holder:
                self.drop(neighbour, "did not answer a probe")
            self._admit_later(link, hello)

        core.clock.after(core.settings.probe_time, decide)

    def _admit_later(self, link: Link, hello: Hello) -> None:
        self._core.forwarder.turn.after.append(lambda: self._admit(link, hello))

    def _admit(self, link: Link, hello: Hello) -> None:
        """Let it up, if it may still be here: since its hello it may have been revoked, or we may be leaving.

        Else who says hello and proves itself much later would get past that.
        """
        if link not in self._core.open_links:
            return
        try:
            if self._allow(link, hello) != self._secrets.get(link):
                raise LinkRefused(
                    Refusal.SECRET, f"the secret of {hello.name!r} was changed meanwhile: dial again"
                )
        except LinkRefused as refused:
            self.handle(link, link.refuse(refused.reason, refused.text))
            return
        self.handle(link, link.admit(self._standing(hello)))

    # --- up

    def _up(self, link: Link, event: events.Up) -> None:
        core, hello = self._core, event.hello
        neighbour = self._neighbour(link, hello)
        self._resume(neighbour, hello, event)
        neighbour.connected(link, hello, core.clock.now)
        self.names[link] = neighbour.name
        core.touch(neighbour)
        if neighbour.relation is Relation.PARENT:
            core.ancestry.heard(neighbour, hello.chain, hello.above)
        if hello.mesh or core.forwarder.meshed or neighbour.relation is not Relation.CHILD:
            core.neighbourhood.look_again()
        core.addressing.link_up(neighbour)
        core.neighbourhood.link_up(neighbour, event.held_count, event.held_digest)
        if neighbour.relation is Relation.PARENT:
            core.moves.adopt(neighbour)
            core.mesh.met_parent()
        else:
            core.mesh.greet(neighbour)
        if neighbour.relation is Relation.CHILD:
            core.moves.settle(neighbour)
        elif neighbour.relation is Relation.MESH:
            core.permitting.given.tell_all(neighbour)

    def _neighbour(self, link: Link, hello: Hello) -> Neighbour:
        core = self._core
        relation = core.mesh.relation(link, hello)
        if relation is Relation.PARENT:
            self._leave_others(hello)
        found = core.neighbours.get(hello.name)
        if found is not None and found.relation is not relation:
            core.moves.forget(found, moved=False)
            found = None
        if found is not None and found.link is not None:
            self.drop(found, "superseded by a newer link")
        neighbour = found or core.neighbourhood.add(hello.name, relation)
        if relation is Relation.MESH:
            core.mesh.joined(hello)
            if found is None:
                core.topics.greet_mesh(neighbour)
        return neighbour

    def _leave_others(self, hello: Hello) -> None:
        """A parent that is no node of the mesh of this one is none any more."""
        names = {hello.name, *(member.name for member in hello.mesh)}
        for parent in self._core.neighbourhood.parents():
            if parent.name not in names and all(each.name != hello.name for each in parent.detail.mesh):
                self._core.moves.forget(parent, moved=False)

    def _resume(self, neighbour: Neighbour, hello: Hello, event: events.Up) -> None:
        """Go on where both stand, or number everything in the outbox again where state was lost."""
        core, resumption = self._core, event.resumption
        neighbour.starts_anew = resumption.new_epoch
        if not resumption.new_epoch:
            if resumption.peer_knew_nothing:  # it may have given what it had of us before
                for entry in neighbour.outbox:
                    self._may_have_arrived(entry)
            neighbour.stand(hello.store_id, resumption.position)
            neighbour.doubt(resumption.peer_assigned)
            self._confirmed(neighbour, resumption.peer_received)
            neighbour.sent = resumption.peer_received
            for entry in neighbour.number_after(resumption.peer_received):
                core.custody.changed(entry)
            neighbour.unsent = deque(neighbour.outbox)
            return
        again = neighbour.empty_outbox()
        if neighbour.store_id and resumption.new_epoch:
            neighbour.detail.gaps += 1
            neighbour.detail.gap_messages += resumption.gap
            core.custody.doubt_old()
        neighbour.stand(hello.store_id, resumption.position)
        neighbour.committed = neighbour.sent = 0
        for entry in again:
            self._may_have_arrived(entry)
            neighbour.number(entry)

    def _may_have_arrived(self, entry: QueueEntry) -> None:
        self._core.forwarder.flag(entry.stored, Flag.MAYBE_DUPLICATE)
        self._core.custody.changed(entry)

    def end(self) -> None:
        """The node stops. This transaction has all that was given to consumers: nothing is to be doubted."""
        self._core.custody.transaction.put(MetaRow(ENDED, b""))

    def restore(self, ended: bool) -> None:
        """A start, with its neighbours known. `ended`: the last one ended as it should."""
        self._core.custody.transaction.delete(MetaRow, ENDED)
        for neighbour in self._core.neighbours.values():
            neighbour.crashed = not ended

    def void_positions(self) -> None:
        """The database was salvaged: what it says of numbers serves to count what is missing, and no more.

        No handshake has the session of these accounts, so that a new epoch begins whatever the numbers are.
        """
        session = (int.from_bytes(self._core.identity.store_id[:8], "big") >> 2) or 1
        for neighbour in self._core.neighbours.values():
            again = neighbour.empty_outbox()
            neighbour.stand(neighbour.store_id, _untrusted(neighbour.position, session))
            neighbour.committed = neighbour.sent = 0
            for entry in again:
                self._may_have_arrived(entry)
                neighbour.number(entry)
            self._core.touch(neighbour)

    # --- down

    def drop(self, neighbour: Neighbour, text: str) -> None:
        """End a neighbour's link from our side, without a word: its place is needed."""
        link = neighbour.link
        if link is not None:
            self.ended(link, text)
            link.transport_closed(text)

    def ended(self, link: Link, text: str) -> None:
        """A link is over: its carrier is closed as well, for the peer may not do it."""
        self.closing.append(link)
        neighbour = self.of(link)
        self.names.pop(link, None)
        self.shown.pop(link, None)
        self._secrets.pop(link, None)
        self._core.link_ended(link, text)
        if neighbour is None:
            return
        neighbour.held.abandon_snapshot()
        neighbour.disconnected(self._core.clock.now, text)
        self._core.touch(neighbour)
        self._core.neighbourhood.link_down(neighbour)
        self._core.addressing.link_down(neighbour)

    # --- custody on the link

    def _confirmed(self, neighbour: Neighbour, received: int) -> None:
        custody, entries = self._core.custody, neighbour.confirmed(received)
        custody.trace.acknowledged(entries, neighbour.name)
        if neighbour.relation is Relation.CHILD:
            self._core.permitting.given.arrived(neighbour, entries)
        for entry in entries:
            custody.discard(entry)

    def _acked(self, neighbour: Neighbour, received: int) -> None:
        core = self._core
        self._confirmed(neighbour, received)
        neighbour.progress_at = core.clock.now
        core.touch(neighbour)
        core.forwarder.pump(neighbour)

    @staticmethod
    def _holds(neighbour: Neighbour, destination: str) -> None:
        neighbour.peer_holds.add(destination)
        if neighbour.peer_holds.too_many:
            most = f"{MOST_HOLDS} destinations, or {MOST_HELD_BYTES} bytes of them"
            raise FrameError(f"{neighbour.name} holds more than {most}")

    def _released(self, neighbour: Neighbour, destination: str) -> None:
        core = self._core
        neighbour.peer_holds.discard(destination)
        if destination.startswith("topic:"):
            neighbour.queue.end_rest()
            neighbour.want(neighbour.queue)
        queue = core.custody.queues.get(queue_name_at(destination))
        if queue is not None:
            core.forwarder.dispatch(queue)
        core.forwarder.pump(neighbour)

    # --- the tree

    def _chain(self, parent: Neighbour, link: Link, chain: list[str], above: list[str]) -> None:
        me = self._core.identity.name
        if me in (*chain, *above):
            text = f"{me!r} is in its own chain of parents: {' > '.join(chain)}"
            self.handle(link, link.refuse(Refusal.CYCLE, text))
            return
        assert link.peer is not None
        objection = self._core.root.objection(link.peer, way_up(chain, parent.detail.mesh))
        if objection:
            self.handle(link, link.refuse(Refusal.SECOND_ROOT, objection))
            return
        self._core.ancestry.heard(parent, chain, above)
