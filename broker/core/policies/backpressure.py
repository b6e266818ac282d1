"""Back-pressure of the whole node: others keep their messages while a spool is full (rule 19).

Law: a spool that is full stops only what would go into it. A client's message for it is refused; a neighbour
is asked to keep the destination of what has come from it for that spool, and goes on with all others. It
is asked to keep everything where nothing else helps: when the disk is nearly full; or when destination by
destination it still grows, in the direction that all its bundles come in (down from the parent, up from a
child). So no backlog below ever stops what a child has for here or above.
"""

from typing import Final

from broker.core.clients.producers import Producers
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue_names import Spool, queue_name_of
from broker.core.messages.stored import StoredBundle
from broker.core.policy import Policy
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.topics import Topics
from treeconnector.destinations import Destination, Kind
from treeconnector.relations import Relation

_OVERFULL: Final = 1.25
_MOST_HOLDS: Final = 10_000


class Backpressure(Policy):
    """Looks at each arrival while a spool is full, and once a second whether what was held may go on."""

    def __init__(self, context: Context, forwarder: Forwarder, topics: Topics, producers: Producers) -> None:
        self._context = context
        self._forwarder = forwarder
        self._topics = topics
        self._producers = producers
        settings = context.settings
        self._sizes = context.custody.spools
        self.limits = {
            Spool.UP: settings.spool_up,
            Spool.DOWN: settings.spool_down,
            Spool.REROUTED: settings.spool_rerouted,
        }

    def __repr__(self) -> str:
        return f"<Backpressure at {self._context.name} full={[str(spool) for spool in self.full()]}>"

    def full(self) -> list[Spool]:
        return [spool for spool, limit in self.limits.items() if self._sizes[spool] >= limit]

    @property
    def refusing(self) -> str:
        """Why some messages of clients are refused now, '' if none is."""
        full = [spool for spool in self.full() if spool is not Spool.REROUTED]
        return self._text(full[0]) if full else ""

    def why_not_enter(self, destination: Destination, scope: int) -> str:
        """Why a client's message cannot be kept, '' if it can."""
        full = self.full()
        if not full:
            return ""
        ways = self._ways(destination, scope)
        return next((self._text(spool) for spool in full if spool in ways), "")

    def _text(self, spool: Spool) -> str:
        name = self._context.name
        return f"the spool '{spool}' of node {name} is full: messages that go that way are refused"

    def _ways(self, destination: Destination, scope: int) -> set[Spool]:
        """Where a message would wait that a client sends here."""
        context = self._context
        if destination.kind == Kind.TOPIC:
            return self._topics.ways(destination, scope)
        return {self._forwarder.spool_of(context.custody.queue_for(destination))}

    # --- neighbours

    def bundle_arrived(self, neighbour: Neighbour, destination: Destination, stored: StoredBundle) -> None:
        """A bundle came. If that is too much for its spool, its sender is to keep the rest of it."""
        full = self.full()
        if not full and not is_over_share(self._context, neighbour):
            return
        queue = self._context.custody.queues.get(queue_name_of(destination)) if stored.entries else None
        spool = next((spool for spool in self._sizes.of(stored, queue) if spool in full), None)
        if spool is not None and stored.entries:
            self._hold(neighbour, destination, spool)
        self._hold_all(neighbour)

    def _hold(self, neighbour: Neighbour, destination: Destination, spool: Spool) -> None:
        name = str(destination)
        if neighbour.link is None or len(neighbour.spool_holds) >= _MOST_HOLDS:
            return
        neighbour.spool_holds[name] = destination, spool
        if name not in neighbour.we_hold:
            neighbour.we_hold.add(name)
            neighbour.link.hold(name)

    def _hold_all(self, neighbour: Neighbour) -> None:
        """Hold everything of a neighbour, or let it go on, as it must be now."""
        if neighbour.link is None:
            return
        must = bool(self._producers.refusing) or self._is_overfull(neighbour)
        if must and "" not in neighbour.we_hold:
            neighbour.we_hold.add("")
            neighbour.link.hold("")
        elif not must and "" in neighbour.we_hold:
            neighbour.we_hold.discard("")
            neighbour.link.release("")

    def _is_overfull(self, neighbour: Neighbour) -> bool:
        spool = Spool.DOWN if neighbour.relation is Relation.PARENT else Spool.UP
        if self._sizes[spool] >= _OVERFULL * self.limits[spool]:
            return True
        return is_over_share(self._context, neighbour)

    def look(self, neighbour: Neighbour) -> None:
        """Now and then: end the holds that are not needed any more."""
        if neighbour.link is None:
            return
        full = self.full()
        for name, (destination, spool) in list(neighbour.spool_holds.items()):
            if spool not in full or not self._still_goes(neighbour, destination, spool):
                del neighbour.spool_holds[name]
                self._release(neighbour, name)
        self._hold_all(neighbour)

    def _still_goes(self, neighbour: Neighbour, destination: Destination, spool: Spool) -> bool:
        """Would more of it come to the same spool?"""
        if spool is Spool.REROUTED or neighbour.relation is Relation.PARENT:
            return True
        return spool in self._ways(destination, 1)

    def _release(self, neighbour: Neighbour, name: str) -> None:
        queue = self._context.custody.queues.get(name)
        full_itself = queue is not None and neighbour.name in queue.held_back
        if name in neighbour.we_hold and neighbour.link is not None and not full_itself:
            neighbour.we_hold.discard(name)
            neighbour.link.release(name)


def is_over_share(context: Context, neighbour: Neighbour) -> bool:
    """Does so much wait here of one child with permits that it is to keep the rest?"""
    if not neighbour.permit:
        return False
    return context.custody.spools.came[neighbour.name] >= context.settings.child_waiting
