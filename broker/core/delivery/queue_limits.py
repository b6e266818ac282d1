"""Limits of a queue: its overflow rule says what happens where it is full (rule 19).

Where messages enter, `admission` refuses. What comes from neighbours is kept by them: a full queue asks each
to hold what is for it, and has that ended when a fifth is free. Where a policy says so, something is dropped.

Law: a hold goes on hop by hop, to where messages enter. While all neighbours that may take what is for a
destination hold it, this node holds it towards those that bring it, however much room its own queue has.
The nodes of a mesh above are one parent: what one of them is to keep, the others are as well, for they bring
it once that one is gone.
"""

from collections.abc import Callable
from typing import Final

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.settings import Overflow, QueuePolicy
from sapwood.protocol.destinations import Destination
from treeconnector.relations import Relation

_RELIEF: Final = 0.8


class QueueLimits:
    """The limits of a node's queues. `bury`: makes an entry that is in no `waiting` a dead letter."""

    __slots__ = ("_bury", "_custody", "_lookup", "_neighbours", "_parents", "_settings")

    def __init__(self, context: Context, lookup: Lookup, bury: Callable[[QueueEntry, str], None]) -> None:
        self._settings = context.settings
        self._custody = context.custody
        self._neighbours = context.neighbours
        self._parents = context.parents
        self._lookup = lookup
        self._bury = bury

    def __repr__(self) -> str:
        full = [queue.name for queue in self._custody.queues.values() if queue.held_back]
        return f"<QueueLimits on {full}>"

    def check(self, queue: Queue, came: str, brought: Destination) -> None:
        """A queue has one entry more. If that is too much, its policy says what goes, or who must wait.

        `brought`: the address under which it came; an alias may have made another of it.
        """
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
            self.hold(queue, brought, neighbour)

    def _goes_nowhere(self, queue: Queue, destination: Destination) -> bool:
        """Where it goes is looked up anew: `queue.targets` are old where nothing waits."""
        if queue.consumers or self._lookup.address(destination) != destination:
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

    def hold(self, queue: Queue, brought: Destination, neighbour: Neighbour) -> None:
        """Ask the neighbour to keep what it would bring under that address, which is full here."""
        parent = neighbour.relation is Relation.PARENT
        for each in self._parents.values() if parent else (neighbour,):
            self._hold(queue, brought, each)

    @staticmethod
    def _hold(queue: Queue, brought: Destination, neighbour: Neighbour) -> None:
        name, held = str(brought), neighbour.we_hold
        if neighbour.link is not None and name not in held and held.has_room_for(name):
            held.add(name)
            queue.held_back.setdefault(neighbour.name, set()).add(brought)
            neighbour.link.say.hold(name)

    def look(self, queue: Queue) -> None:
        """Now and then: end the holds on a queue that has room, and those under what is its alias no more. A
        parent that has come since is told of what the others keep.
        """
        self.relieve(queue)
        for parent in [each for name, each in self._parents.items() if name in queue.held_back]:
            for brought in list(queue.held_back[parent.name]):
                self.hold(queue, brought, parent)
        for name, addresses in queue.held_back.items():
            for brought in [each for each in addresses if self._lookup.address(each) != queue.destination]:
                addresses.discard(brought)
                self._release(name, brought)

    def relieve(self, queue: Queue) -> None:
        """End the holds on a queue that has room again."""
        assert queue.destination is not None
        policy = queue.policy
        if queue.messages > _RELIEF * policy.max_messages or queue.size > _RELIEF * policy.max_bytes:
            return
        if policy.overflow is Overflow.REFUSE and self._goes_nowhere(queue, queue.destination):
            return
        for name, addresses in queue.held_back.items():
            for brought in addresses:
                self._release(name, brought)
        queue.held_back.clear()

    def _release(self, name: str, brought: Destination) -> None:
        neighbour, held = self._neighbours.get(name), str(brought)
        if neighbour is None or neighbour.link is None or held in neighbour.spool_holds:
            return
        if held in neighbour.we_hold:
            neighbour.we_hold.discard(held)
            neighbour.link.say.release(held)
