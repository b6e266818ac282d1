"""Arrivals: what a bundle must pass before it is kept, and which were here before.

Rule 22: a child may only hand over what comes from its own subtree, or what was sent back. Rule 16: a
bundle that may have arrived before is known again by its id, at the node that delivered it. Rule 22: whether
a bundle can be read is known here, from whomever it comes.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from broker.core.links.neighbour import Neighbour
from broker.core.messages.deduplication import ALL
from broker.core.messages.queue import QueueEntry
from broker.core.messages.queue_names import is_internal
from broker.core.messages.stored import StoredBundle
from broker.core.policy import first_reason
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.topics import Topics
from treeconnector.bundles import MAX_BYTES, Flag, Header, Opening, mask_bits, opened
from treeconnector.destinations import Destination, Kind, domain, topic
from treeconnector.errors import FrameError, InvalidName, PatternError
from treeconnector.names import node_name, queue_name
from treeconnector.patterns import check_topic
from treeconnector.relations import Relation

_MOST_SAID: Final = 300


class Arrivals:
    """Takes bundles in, from neighbours and from this node's own clients.

    `taps` are called with each bundle before it goes anywhere, while its body is in memory.
    """

    def __init__(self, forwarder: Forwarder, topics: Topics) -> None:
        self._forwarder = forwarder
        self._topics = topics
        self._custody = forwarder.custody
        self._aliases = forwarder.static.aliases
        self.seen = forwarder.seen
        self._policies = forwarder.policies
        self.taps: list[Callable[[StoredBundle], None]] = []

    def __repr__(self) -> str:
        return f"<Arrivals {self.seen!r}>"

    def returned(self, letter: QueueEntry, bits: int) -> None:
        """These messages of a queue's dead letter are given back: they may go away, and come here again."""
        if letter.stored.header.destination.kind == Kind.QUEUE:
            self.seen.forget(letter, bits, self._custody.transaction)

    def enter(self, header: Header, body: bytes, sender: str) -> None:
        """A bundle made here. Messages between nodes do not count as an application's."""
        if not is_internal(header.destination):
            self._forwarder.counters["entered"] += header.count
        stored = self._custody.store(header, body, self._forwarder.clock.now)
        self._route(stored, "", sender)

    def from_neighbour(
        self,
        neighbour: Neighbour,
        header: Header,
        body: bytes,
        encoded: bytes | None = None,
        *,
        doubted: bool = False,
    ) -> None:
        """A bundle that a neighbour committed and handed over. `encoded`: its header as it came.

        `doubted`: it may have come before a crash, and have been given to consumers here.
        """
        neighbour.counters["in"] += header.count
        self._forwarder.counters["in"] += header.count
        neighbour.counters["in_bundles"] += 1
        self._custody.trace.arrived(header, neighbour.name)
        destination = header.destination
        stored = self._custody.store(header, body, self._forwarder.clock.now, encoded)
        stored.safe, stored.doubted = True, doubted
        fault = self._fault(neighbour, header, body)
        left = (1 << header.count) - 1
        if header.done:
            left &= ~mask_bits(header.done)
        if not left:
            self._custody.trace.dropped(header, "none of its messages is left")
        elif fault and any(is_twin(neighbour, header, body) for is_twin in self._policies.is_twin):
            self._forwarder.counters["duplicates_dropped"] += left.bit_count()
            self._custody.trace.dropped(header, "it was given back before")
        elif fault:
            self._bury(stored, neighbour, fault)
            for refused in self._policies.refused:
                refused(neighbour, destination, fault)
        elif self._is_left(stored, left):
            self._route(stored, neighbour.name, "")
            for arrived in self._policies.bundle_arrived:
                arrived(neighbour, destination, stored)

    def refuse(self, header: Header, body: bytes, reason: str) -> None:
        """A bundle made here of what cannot go into the tree: it is dead where it entered."""
        self._forwarder.counters["entered"] += header.count
        stored = self._custody.store(header, body, self._forwarder.clock.now)
        self._dead(stored, "", reason)

    def _fault(self, neighbour: Neighbour, header: Header, body: bytes) -> str:
        """Why a bundle cannot be taken on; '' if it can."""
        limit = max(self._forwarder.settings.max_message, MAX_BYTES)
        if header.size > limit:
            return f"TOO_LARGE: {header.size} bytes unpacked, of {limit} at most"
        try:
            check_destination(header.destination)
        except (InvalidName, PatternError) as error:
            return f"DESTINATION: {error}"
        if neighbour.relation is Relation.CHILD:
            return self._fault_of_a_child(neighbour, header, body)
        try:
            opened(header, body)
        except FrameError as error:
            return _unreadable(error)
        return ""

    def _fault_of_a_child(self, neighbour: Neighbour, header: Header, body: bytes) -> str:
        """It speaks for its own nodes only, and its permit is asked."""
        given_back = header.flags & (Flag.REROUTED | Flag.MAYBE_DUPLICATE)
        if not given_back and not self.is_from_below(neighbour, header.origin):
            return f"ORIGIN: {header.origin[:64]!r} is not below {neighbour.name}"
        opening = Opening(header, body)
        why = first_reason(self._policies.why_not_take, neighbour, header, body, opening)
        if not why:
            try:
                opening.properties()
            except FrameError as error:
                why = _unreadable(error)
        return why

    def is_from_below(self, neighbour: Neighbour, origin: str) -> bool:
        """Is a node a child, one of its mesh, or is it or was it below these?"""
        if origin in neighbour.former:
            return True
        names = (neighbour.name, *neighbour.kin)
        if origin in names:
            return True
        return any(self._forwarder.table.route(domain(origin), name) is not None for name in names)

    def _is_left(self, stored: StoredBundle, left: int) -> bool:
        """Does it bring more than was here before? That alone goes on, marked: the rest has a twin elsewhere.

        `left`: the messages that it brings.
        """
        header, found = stored.header, 0
        identity = header.id + header.origin.encode()
        if header.destination.kind == Kind.QUEUE:
            found = self.seen.which(identity, header.id) | self._custody.kept.which(identity)
        elif self._was_here(header, identity):
            found = ALL
        here = left & found
        if here:
            self._forwarder.counters["duplicates_dropped"] += here.bit_count()
            if here == left:
                self._custody.trace.dropped(stored.header, "it was here before")
                return False
            self._custody.leave_out(stored, here)
            self._forwarder.flag(stored, Flag.MAYBE_DUPLICATE)
        return True

    def _was_here(self, header: Header, identity: bytes) -> bool:
        """Was a topic's bundle dealt with here, or is it kept here now?

        One that follows another node is none of ours, and what is retained is asked for again.
        """
        if header.destination.node not in ("", self._forwarder.node):
            return False
        if header.flags & Flag.RETAINED and not header.flags & Flag.MAYBE_DUPLICATE:
            return False
        return identity in self.seen or identity in self._custody.kept or header.id in self.seen

    def _bury(self, stored: StoredBundle, neighbour: Neighbour, reason: str) -> None:
        if all(has_room(neighbour, stored.size) for has_room in self._policies.has_room_for_refused):
            entry = self._dead(stored, neighbour.name, reason)
            for kept in self._policies.kept_refused:
                kept(neighbour, entry)
        else:
            self._custody.buried[reason.partition(":")[0]] += stored.header.count

    def _dead(self, stored: StoredBundle, came: str, reason: str) -> QueueEntry:
        entry = self._custody.add(stored, self._custody.dead, came, self._forwarder.clock.now)
        entry.note = reason
        self._custody.note_dead(entry)
        return entry

    def _route(self, stored: StoredBundle, came: str, sender: str) -> None:
        for tap in self.taps:
            tap(stored)
        destination = stored.header.destination
        here = destination.node == self._forwarder.node
        if destination.kind == Kind.TOPIC and here:
            stored.header.destination = topic(destination.name)
            self._custody.header_changed(stored)
            self._topics.publish(stored, came, down_only=True)
        elif destination.kind == Kind.TOPIC and not destination.node:
            self._topics.publish(stored, came, sender=sender)
        else:
            if self._aliases:
                self._readdress(stored)
            if stored.header.flags & Flag.TELL and any(tell(stored) for tell in self._policies.is_answered):
                return
            entry = self._forwarder.wait(stored, came, sender)
            if entry is not None and destination.kind == Kind.TOPIC:
                for followed in self._policies.follows_node:
                    followed(entry)

    def _readdress(self, stored: StoredBundle) -> None:
        """It goes on under the address that its alias stands for."""
        address = self._forwarder.address(stored.header.destination)
        if address != stored.header.destination:
            stored.header.destination = address
            self._custody.header_changed(stored)


def _unreadable(error: FrameError) -> str:
    """Why no consumer can read these messages.

    A body that is not what its header says would fail again at every node and consumer that it reaches, and
    what was given together with it would fail with it. So it is opened here once, and dropped.
    """
    return f"UNREADABLE: {error}"[:_MOST_SAID]


@lru_cache(maxsize=4096)
def check_destination(destination: Destination) -> None:
    """A queue is named after it, and read again at the next start. Raises if it is none."""
    if destination.node:
        node_name(destination.node)
    if destination.kind == Kind.TOPIC:
        check_topic(destination.name)
    else:
        queue_name(destination.name)
