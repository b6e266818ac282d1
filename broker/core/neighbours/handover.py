"""Handing over: what waits for a neighbour that cannot be reached goes another way, where there is one.

For a parent that is another parent; for a child another node of the mesh that has a line to it; for a node
of the mesh whatever the routes say. What has a number may have arrived: it is marked *maybe-duplicate*, and
the node that delivers drops what it has had already.

Law: nothing is handed over while its link is up. A long backlog goes a part at a time.
"""

from collections.abc import Iterable
from functools import partial

from broker.core.clock import PART
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.trace import EVERY, REROUTED
from broker.core.neighbours.following import Following
from broker.core.policies.loans import Loans
from broker.core.policy import Policy
from broker.core.routing.forwarding import Forwarder
from sapwood.protocol.bundles import Flag
from sapwood.protocol.destinations import Kind
from treeconnector.relations import Relation


class Handover(Policy):
    """Of one node. Costs nothing where there is one parent and no mesh."""

    __slots__ = ("_busy", "_context", "_following", "_forwarder", "_loans", "_looks_soon", "_lookup")

    def __init__(
        self, context: Context, forwarder: Forwarder, lookup: Lookup, loans: Loans, following: Following
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._lookup = lookup
        self._loans = loans
        self._following = following
        self._busy: dict[str, None] = {}
        self._looks_soon = False

    def __repr__(self) -> str:
        return f"<Handover at {self._context.name} of {sorted(self._busy)}>"

    def look(self, neighbour: Neighbour) -> None:
        """Is there another way for what waits for a neighbour whose link is down? Then it goes that way."""
        if self._context.neighbours.get(neighbour.name) is not neighbour or not self._has_another_way(
            neighbour
        ):
            return
        stays = self._following.must_stay
        numbered = neighbour.take_back(lambda entry: self._may_go(entry, neighbour) and not stays(entry))
        self._loans.may_have_arrived(neighbour, numbered)
        self._route(numbered, neighbour, Flag.MAYBE_DUPLICATE | Flag.REROUTED)
        self._go_on(neighbour)

    def waits_for_lost(self, neighbour: Neighbour) -> None:
        self.look(neighbour)

    def look_soon(self) -> None:
        """A way has come; those that were here before a start may be back as soon."""
        if not self._looks_soon:
            self._looks_soon = True
            self._context.clock.after(self._context.settings.probe_time, self.look_at_all)

    def look_at_all(self) -> None:
        """For whom is the way good that has come?"""
        self._looks_soon = False
        for neighbour in list(self._context.neighbours.values()):
            if not neighbour.up and (neighbour.outbox or neighbour.queue.waiting or neighbour.queue.resting):
                self.look(neighbour)

    # --- leaving

    def leave(self) -> None:
        """This node is about to stop, and its children have gone elsewhere: what it has for them follows."""
        self._lookup.leaving = True
        self.look_at_all()
        self._forwarder.look_again(self._context.custody.queues.values())

    @property
    def is_done(self) -> bool:
        """Have the parents and the nodes of the mesh that can be reached all that goes to them?"""
        others = (each for each in self._context.neighbours.values() if each.up)
        if self._busy or self._following.is_busy or self._forwarder.is_busy:
            return False
        return not any(each.outbox or each.wants or each.queue.waiting for each in others)

    # --- a way that is down

    def _has_another_way(self, neighbour: Neighbour) -> bool:
        if neighbour.up:
            return False
        match neighbour.relation:
            case Relation.PARENT:
                return any(parent.up for parent in self._context.parents.values())
            case Relation.CHILD:
                leaving = self._lookup.leaving and any(peer.up for peer in self._context.peers())
                return leaving or bool(self._lookup.peers_to(neighbour.name))
            case Relation.MESH:
                return True

    @staticmethod
    def _may_go(entry: QueueEntry, neighbour: Neighbour) -> bool:
        """What topics have for a node of the mesh is for its own subscribers, and for nobody else."""
        destination = entry.stored.header.destination
        return neighbour.relation is not Relation.MESH or _has_queue(entry) or bool(destination.node)

    def _go_on(self, neighbour: Neighbour) -> None:
        """What has no number yet follows, so many at a time, while there is a way."""
        if neighbour.relation is Relation.MESH or neighbour.name in self._busy:
            return
        queue = neighbour.queue
        queue.end_rest()
        self._route(self._part(queue), neighbour, 0)
        if queue.waiting:
            self._busy[neighbour.name] = None
            self._context.clock.go_on((self._again, neighbour.name), partial(self._again, neighbour))

    def _part(self, queue: Queue) -> list[QueueEntry]:
        """The next of those that wait; an entry that is to stay for now ends it."""
        part: list[QueueEntry] = []
        while queue.waiting and len(part) < PART:
            entry = queue.waiting.popleft()
            if self._following.must_stay(entry):
                queue.waiting.add(entry)
                break
            part.append(entry)
        return part

    def _again(self, neighbour: Neighbour) -> None:
        self._busy.pop(neighbour.name, None)
        if self._context.neighbours.get(neighbour.name) is neighbour and self._has_another_way(neighbour):
            self._go_on(neighbour)

    def _route(self, entries: Iterable[QueueEntry], neighbour: Neighbour, flags: int) -> None:
        """Let entries wait elsewhere, in their order and in front of what came after them."""
        queues: dict[Queue, list[QueueEntry]] = {}
        for entry in entries:
            queue = self._queue_of(entry, neighbour, flags)
            if queue is not None:
                self._context.custody.flag(entry.stored, flags)
                self._context.custody.trace.happened(REROUTED, entry, EVERY, "")
                self._context.custody.move(entry, queue)
                queues.setdefault(queue, []).append(entry)
        for queue, moved in queues.items():
            queue.waiting.put_back(moved)
            self._forwarder.dispatch(queue)

    def _queue_of(self, entry: QueueEntry, neighbour: Neighbour, flags: int) -> Queue | None:
        """Where an entry waits from now on; None: it goes as another bundle, for that child alone."""
        custody, destination = self._context.custody, entry.stored.header.destination
        if _has_queue(entry) or destination.node:
            return custody.queue_for(destination)
        if neighbour.relation is Relation.PARENT:
            parent = self._lookup.parent_for(destination)
            assert parent is not None
            return parent.queue
        self._following.follow(entry, neighbour.name, flags)
        custody.discard(entry)
        return None


def _has_queue(entry: QueueEntry) -> bool:
    return entry.stored.header.destination.kind == Kind.QUEUE
