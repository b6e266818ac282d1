"""Limits of a queue: its overflow rule says what happens where it is full (rule 19).

Where messages enter, `admission` refuses. What comes from neighbours is kept by them: a full queue asks each
to hold what is for it, and has that ended when a fifth is free. Where a policy says so, something is dropped.

Law: a hold goes on hop by hop, to where messages enter. While all neighbours that may take what is for a
destination hold it, this node holds it towards those that bring it, however much room its own queue has.
"""

from collections.abc import Callable
from typing import Final

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.settings import Overflow, QueuePolicy
from sapwood.protocol.destinations import Destination

_RELIEF: Final = 0.8


class QueueLimits:
    """The limits of a node's queues. `bury`: makes an entry that is in no `waiting` a dead letter."""

    def __init__(self, context: Context, lookup: Lookup, bury: Callable[[QueueEntry, str], None]) -> None:
        self._settings = context.settings
        self._custody = context.custody
        self._neighbours = context.neighbours
        self._lookup = lookup
        self._bury = bury

    def __repr__(self) -> str:
        full = [queue.name for queue in self._custody.queues.values() if queue.held_back]
        return f"<QueueLimits on {full}>"

    def check(self, queue: Queue, came: str) -> None:
        """A queue has one entry more. If that is too much, its policy says what goes, or who must wait."""
        destination, neighbour = queue.destination, self._neighbours.get(came)
        if destination is None:
            return
        policy = queue.policy
        if policy.overflow is not Overflow.REFUSE:
            self._drop(queue, policy)
        elif neighbour is not None and (
            queue.messages >= policy.max_messages
            or queue.size >= policy.max_bytes
            or self._goes_nowhere(queue, destination)
        ):
            self.hold(queue, destination, neighbour)

    def _goes_nowhere(self, queue: Queue, destination: Destination) -> bool:
        """Where it goes is looked up anew: `queue.targets` are old where nothing waits."""
        if queue.consumers:
            return False
        targets = self._lookup.targets(queue)
        if not targets:
            return self._custody.spools.is_crowded_out(queue, targets, self._settings.spool_up)
        takers = (self._neighbours.get(name) for name in targets)
        return all(taker is not None and taker.up and taker.holds(destination) for taker in takers)

    def _drop(self, queue: Queue, policy: QueuePolicy) -> None:
        while queue.messages > policy.max_messages or queue.size > policy.max_bytes:
            oldest = policy.overflow is Overflow.DROP_OLDEST
            order = queue.waiting if oldest else reversed(queue.waiting)
            entry = next((entry for entry in order if not entry.given), None)
            if entry is None:
                return
            queue.waiting.remove(entry)
            self._bury(entry, "QUEUE_FULL")

    @staticmethod
    def hold(queue: Queue, destination: Destination, neighbour: Neighbour) -> None:
        """Ask the neighbour to keep what is for a destination that is full here."""
        name, held = str(destination), neighbour.we_hold
        if neighbour.link is not None and name not in held and held.has_room_for(name):
            held.add(name)
            queue.held_back.add(neighbour.name)
            neighbour.link.hold(name)

    def relieve(self, queue: Queue) -> None:
        """End the holds on a queue that has room again."""
        assert queue.destination is not None
        policy = queue.policy
        if queue.messages > _RELIEF * policy.max_messages or queue.size > _RELIEF * policy.max_bytes:
            return
        if policy.overflow is Overflow.REFUSE and self._goes_nowhere(queue, queue.destination):
            return
        held = str(queue.destination)
        for neighbour in map(self._neighbours.get, queue.held_back):
            if neighbour is None or neighbour.link is None or held in neighbour.spool_holds:
                continue
            if held in neighbour.we_hold:
                neighbour.we_hold.discard(held)
                neighbour.link.release(held)
        queue.held_back.clear()
