"""Back-pressure of the whole node: others keep their messages while a spool is full (rule 19).

Law: a spool that is full stops only what would go into it. A client's message for it is refused; a neighbour
is asked to keep the destination of what has come from it for that spool, and goes on with all others. It
is asked to keep everything where nothing else helps: when the disk is nearly full; or when destination by
destination it still grows, in the direction that all its bundles come in (down from the parent, up from a
child). So no backlog below ever stops what a child has for here or above.
"""

from functools import partial
from typing import Final

from broker.core.clock import PART
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import StoredBundle
from broker.core.messages.queue_names import Spool, queue_name_of
from broker.core.policy import Policy
from broker.core.routing.admission import MessageAdmission
from broker.core.tree.open_links import OpenLinks
from sapwood.protocol.destinations import Destination
from sapwood.protocol.errors import Refusal
from treeconnector.link_events import LinkUp
from treeconnector.relations import Relation

_OVERFULL: Final = 1.25


class Backpressure(Policy):
    """Looks at arrivals while a spool is full, and once a second whether what was held may go on."""

    __slots__ = ("_admission", "_context", "_links", "_lookup", "_sizes")

    def __init__(
        self, context: Context, lookup: Lookup, admission: MessageAdmission, links: OpenLinks
    ) -> None:
        self._links = links
        self._context = context
        self._lookup = lookup
        self._admission = admission
        self._sizes = context.custody.spools

    def __repr__(self) -> str:
        return (
            f"<Backpressure at {self._context.name} full={[str(spool) for spool in self._admission.full()]}>"
        )

    def bundle_arrived(self, neighbour: Neighbour, destination: Destination, stored: StoredBundle) -> None:
        """A bundle came. If that is too much for its spool, its sender is to keep the rest of it."""
        full = self._admission.full()
        if not full and not self._admission.is_over_share(neighbour):
            return
        waits_at = queue_name_of(stored.header.destination)
        queue = self._context.custody.queues.get(waits_at) if stored.entries else None
        spool = next((spool for spool in self._sizes.of(stored, queue) if spool in full), None)
        if spool is not None and stored.entries:
            self._hold(neighbour, destination, spool)
        self._hold_all(neighbour)

    def _hold(self, neighbour: Neighbour, destination: Destination, spool: Spool) -> None:
        name, held = str(destination), neighbour.we_hold
        if neighbour.link is None or not (name in held or held.has_room_for(name)):
            return
        neighbour.spool_holds[name] = destination, spool
        if name not in held:
            held.add(name)
            neighbour.link.say.hold(name)

    def _hold_all(self, neighbour: Neighbour) -> None:
        """Hold everything of a neighbour, or let it go on, as it must be now."""
        if neighbour.link is None:
            return
        must = bool(self._admission.closed) or self._is_overfull(neighbour)
        if must and "" not in neighbour.we_hold:
            neighbour.we_hold.add("")
            neighbour.link.say.hold("")
        elif not must and "" in neighbour.we_hold:
            neighbour.we_hold.discard("")
            neighbour.link.say.release("")
            if neighbour.link.incoming.received != neighbour.received:
                text = f"there is room again for what {neighbour.name} has sent and was not taken: link anew"
                self._links.refuse(neighbour.link, Refusal.BUSY, text)

    def _is_overfull(self, neighbour: Neighbour) -> bool:
        spool = Spool.DOWN if neighbour.relation is Relation.PARENT else Spool.UP
        if self._sizes[spool] >= _OVERFULL * self._admission.limits[spool]:
            return True
        return self._admission.is_over_share(neighbour)

    def link_up(self, neighbour: Neighbour, up: LinkUp) -> None:
        """The holds of the line before have ended with it."""
        self._hold_all(neighbour)

    def look(self, neighbour: Neighbour) -> None:
        """Now and then: end the holds that are not needed any more."""
        self._hold_all(neighbour)
        self._end_some(neighbour, list(neighbour.spool_holds))

    def _end_some(self, neighbour: Neighbour, names: list[str]) -> None:
        full = self._admission.full()
        for name in names[:PART]:
            destination, spool = neighbour.spool_holds.get(name, (None, None))
            if destination is None or spool is None:
                continue
            if spool not in full or not self._still_goes(neighbour, destination, spool):
                del neighbour.spool_holds[name]
                self._release(neighbour, destination)
        if further := names[PART:]:
            again = partial(self._end_some, neighbour, further)
            self._context.clock.go_on((self._end_some, neighbour.name), again)

    def _still_goes(self, neighbour: Neighbour, destination: Destination, spool: Spool) -> bool:
        """Would more of it come to the same spool?"""
        if spool is Spool.REROUTED or neighbour.relation is Relation.PARENT:
            return True
        return spool in self._admission.spools_of(destination, 1)

    def _release(self, neighbour: Neighbour, destination: Destination) -> None:
        name = str(destination)
        queue = self._context.custody.queues.get(queue_name_of(self._lookup.address(destination)))
        full_itself = queue is not None and destination in queue.held_back.get(neighbour.name, ())
        if name in neighbour.we_hold and neighbour.link is not None and not full_itself:
            neighbour.we_hold.discard(name)
            neighbour.link.say.release(name)
