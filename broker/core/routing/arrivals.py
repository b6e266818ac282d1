"""Arrivals: a bundle comes here, from a neighbour or from this node's own clients, and goes where it belongs:
into its queue, or straight into the outbox of the neighbour that takes it now.

Whether it may is asked of `admission`. Rule 16: a bundle that may have arrived before is known again by its
id, at the node that delivered it.
"""

from collections.abc import Callable

from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.deduplication import ALL
from broker.core.messages.queue import Queue, QueueEntry, StoredBundle
from broker.core.messages.queue_names import is_internal
from broker.core.policy import Policy
from broker.core.routing.admission import MessageAdmission
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.topics import Topics
from sapwood.protocol.bundles import MAX_HEADER, Flag, Header, mask_bits
from sapwood.protocol.destinations import Destination, Kind, topic


class Arrivals:
    """Takes bundles in, from neighbours and from this node's own clients.

    `taps` are called with each bundle before it goes anywhere, while its body is in memory.
    """

    __slots__ = (
        *("_admission", "_clock", "_context", "_custody", "_forwarder", "_holds", "_lookup", "_node"),
        *("_policies", "_static", "_table", "_topics", "seen", "taps"),
    )

    def __init__(
        self,
        context: Context,
        forwarder: Forwarder,
        lookup: Lookup,
        dispatcher: Dispatcher,
        topics: Topics,
        admission: MessageAdmission,
    ) -> None:
        self._context = context
        self._node = context.name
        self._admission = admission
        self._forwarder = forwarder
        self._lookup = lookup
        self._topics = topics
        self._custody = context.custody
        self._table = context.table
        self._static = context.table.static
        self._clock = context.clock
        self._holds = dispatcher.holds
        self.seen = dispatcher.seen
        self._policies = context.policies
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
            self._context.counters["entered"] += header.count
        stored = self._custody.store(header, body, self._clock.now)
        self._route(stored, "", sender)

    def moved(self, header: Header, body: bytes, now: float) -> None:
        """A bundle of messages that waited here already: an operator has moved them."""
        self._route(self._custody.store(header, body, now), "", "")

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
        self._context.counters["in"] += header.count
        neighbour.counters["in_bundles"] += 1
        self._custody.trace.arrived(header, neighbour.name)
        destination = header.destination
        stored = self._custody.store(header, body, self._clock.now, encoded)
        stored.safe, stored.doubted = True, doubted
        fault = self._admission.why_not_take(neighbour, header, body)
        left = (1 << header.count) - 1
        if header.done:
            left &= ~mask_bits(header.done)
        if not left:
            self._custody.trace.dropped(header, "none of its messages is left")
        elif fault and self._policies.ask(Policy.is_twin, neighbour, header, body):
            self._context.counters["duplicates_dropped"] += left.bit_count()
            self._custody.trace.dropped(header, "it was given back before")
        elif fault:
            self._bury(stored, neighbour, fault)
            self._policies.tell(Policy.refused, neighbour, destination, fault)
        elif self._is_left(stored, left):
            self._route(stored, neighbour.name, "")
            if self._admission.is_tight(neighbour, destination):
                for policy in self._policies.bundle_arrived:
                    policy.bundle_arrived(neighbour, destination, stored)

    def refuse(self, header: Header, body: bytes, reason: str) -> None:
        """A bundle made here of what cannot go into the tree: it is dead where it entered."""
        self._context.counters["entered"] += header.count
        stored = self._custody.store(header, body, self._clock.now)
        self._dead(stored, "", reason)

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
            self._context.counters["duplicates_dropped"] += here.bit_count()
            if here == left:
                self._custody.trace.dropped(stored.header, "it was here before")
                return False
            self._custody.leave_out(stored, here)
            self._context.custody.flag(stored, Flag.MAYBE_DUPLICATE)
        return True

    def _was_here(self, header: Header, identity: bytes) -> bool:
        """Was a topic's bundle dealt with here, or is it kept here now?

        One that follows another node is none of ours, and what is retained is asked for again.
        """
        if header.destination.node not in ("", self._node):
            return False
        if header.flags & Flag.RETAINED and not header.flags & Flag.MAYBE_DUPLICATE:
            return False
        return identity in self.seen or identity in self._custody.kept or header.id in self.seen

    def _bury(self, stored: StoredBundle, neighbour: Neighbour, reason: str) -> None:
        if self._policies.ask(Policy.lacks_room_for_refused, neighbour, stored.size):
            self._custody.buried[reason.partition(":")[0]] += stored.header.count
        else:
            entry = self._dead(stored, neighbour.name, reason)
            self._policies.tell(Policy.kept_refused, neighbour, entry)

    def _dead(self, stored: StoredBundle, came: str, reason: str) -> QueueEntry:
        entry = self._custody.add(stored, self._custody.dead, came, self._clock.now)
        entry.note = reason
        self._custody.note_dead(entry)
        return entry

    def _route(self, stored: StoredBundle, came: str, sender: str) -> None:
        for tap in self.taps:
            tap(stored)
        destination = stored.header.destination
        here = destination.node == self._node
        if destination.kind == Kind.TOPIC and here:
            stored.readdress(topic(destination.name))
            self._custody.header_changed(stored)
            self._topics.publish(stored, came, down_only=True)
        elif destination.kind == Kind.TOPIC and not destination.node:
            self._topics.publish(stored, came, sender=sender)
        else:
            if self._static.aliases:
                self._readdress(stored)
            if stored.header.flags & Flag.TELL and any(
                policy.is_answered(stored) for policy in self._policies.is_answered
            ):
                return
            entry = self.wait(stored, came, sender, destination)
            if entry is not None and destination.kind == Kind.TOPIC:
                for policy in self._policies.follows_node:
                    policy.follows_node(entry)

    def _readdress(self, stored: StoredBundle) -> None:
        """It goes on under the address that its alias stands for."""
        address = self._lookup.address(stored.header.destination)
        if address != stored.header.destination:
            stored.readdress(address)
            self._custody.header_changed(stored)

    # --- to where it waits, or straight on

    def wait(
        self, stored: StoredBundle, came: str, sender: str = "", brought: Destination | None = None
    ) -> QueueEntry | None:
        """A bundle for one place: let it wait in its queue, and go on if it can. None: it was dropped.

        `brought`: its address before this node's aliases.
        """
        queue = self._custody.queue_for(stored.header.destination)
        if queue.ways == self._table.version and (hop := self._free_way(stored, queue, came)) is not None:
            return self._go_straight(stored, queue, hop, came)
        if not stored.row and not self._forwarder.takes_volatile(queue):
            self._forwarder.send_volatile_to_one(stored, queue, came)
            return None
        queue.asking = bool(stored.header.flags & Flag.TELL or (queue.asking and queue.messages))
        entry = self._custody.add(stored, queue, came, self._clock.now)
        if sender and stored.row:
            entry.note = sender
            self._custody.sent(queue, sender, stored.header.count)
        queue.waiting.append(entry)
        self._holds.check(queue, came, brought or stored.header.destination)
        self._forwarder.dispatch(queue)
        return entry

    def _free_way(self, stored: StoredBundle, queue: Queue, came: str) -> Neighbour | None:
        """The neighbour that takes this bundle now: nothing waits before it or speaks against it."""
        hop = self._context.neighbours[queue.next_hop]
        header, policy = stored.header, queue.policy
        if (
            hop.link is None
            or hop.wants
            or hop.peer_holds.destinations
            or (
                (hop.held_before.untried or hop.held_before.tried is not None)
                and hop.held_before.would_try(str(stored.header.destination))
            )
            or len(hop.outbox) >= hop.window_bundles
            or hop.outbox_bytes >= hop.window_bytes
            or stored.size + MAX_HEADER > hop.max_message
        ):
            return None
        if queue.messages or queue.consumers or queue.home or queue.held_back or self._lookup.meshed:
            return None
        if self._static.steers or came == hop.name:
            return None
        if not stored.row or stored.doubted or header.done:
            return None
        full = header.count >= policy.max_messages or stored.size >= policy.max_bytes
        return None if full else hop

    def _go_straight(self, stored: StoredBundle, queue: Queue, hop: Neighbour, came: str) -> QueueEntry:
        """It passes through its queue, where it is counted, and waits for its commit only.

        Whatever is asked of what has waited (`_next_for`) was asked of it a moment ago, when it arrived.
        """
        header = stored.header
        queue.tally.entered += header.count
        if not queue.tally.active:
            self._custody.stir(queue)
        for policy in self._policies.routed:
            policy.routed(header.destination, hop.name, header.count)
        entry = self._custody.add(stored, hop.queue, came, self._clock.now)
        if not hop.outbox:
            hop.progress_at = self._clock.now
        hop.number(entry)
        self._context.touched[hop.name] = hop
        return entry
