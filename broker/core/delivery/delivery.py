"""Delivery: messages that wait in a queue go to the consumers that this node has there, as credit allows.

Law: what is persistent is on disk before it is given, or upstream has it; so is that it may have been given.
An expired message is not. A message that comes after a later one is late: it is flagged and counted.

Law: what is unpacked for consumers here is sliced. A queue gives `AT_ONCE` bytes of it, then others have
their turns; a bundle larger than that waits until the one before it is paid for, whatever queue it is in:
others have the loop for `PAYS` times as long as unpacking took, about. Time is not known in here, so bytes
count.
"""

from functools import partial
from typing import Final

from broker.core.clock import PART, PAUSE
from broker.core.context import Context
from broker.core.delivery.delivery_order import DeliveryOrder
from broker.core.delivery.poison_messages import SUSPECTED, PoisonWatch, tries
from broker.core.delivery.queue_limits import QueueLimits
from broker.core.delivery.transfer_ids import TransferIds
from broker.core.lookup import Lookup
from broker.core.messages.deduplication import DeliveredIdentities
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.policy import first_reason
from broker.core.sessions.sessions import ConsumerDelivery, PushConsumer
from sapwood.protocol import bundles
from sapwood.protocol.bundles import Flag
from sapwood.protocol.errors import FrameError
from sapwood.protocol.names import LOCAL

_AHEAD: Final = 32
AT_ONCE: Final = 512 * 1024
SPEED: Final = 400 * 1024 * 1024
"""Bytes that a small machine unpacks in a second."""
PAYS: Final = 3


class Dispatcher:
    """Gives messages to the consumers of one node."""

    __slots__ = (
        *("_next_commit", "_paid_at", "_resting", "clock", "counters", "custody", "holds", "order"),
        *("policies", "seen", "settings", "transfer_ids", "trials"),
    )

    def __init__(self, context: Context, lookup: Lookup) -> None:
        self.settings = settings = context.settings
        self.clock = clock = context.clock
        self.counters = context.counters
        self.custody = context.custody
        self.policies = context.policies
        self._next_commit = context.next_commit
        self.order = DeliveryOrder()
        self.transfer_ids = TransferIds()
        self.trials = PoisonWatch(clock, self.deliver)
        self.seen = DeliveredIdentities(clock, settings.dedup_window)
        self._paid_at = 0.0
        self._resting: dict[Queue, None] = {}
        self.holds = QueueLimits(context, lookup, self.bury)

    def __repr__(self) -> str:
        return f"<Dispatcher {self.transfer_ids!r}>"

    def finished(self, entry: QueueEntry) -> None:
        """What is done of an entry now comes to no consumer again; what is left, if anything, goes on."""
        if entry.stored.row:
            self.seen.add(entry, self.custody.transaction)

    # --- consumers

    def deliver(self, queue: Queue) -> None:
        """Give what waits to the consumers, as far as their credit goes; consumers are served in turn."""
        buried, left = self.custody.buried.total(), AT_ONCE
        while queue.waiting:
            entry = queue.waiting[0]
            if queue in self._resting:
                return
            if entry.stored.header.expires_first and self.custody.buried.total() - buried >= PART:
                self.clock.go_on((self.deliver, queue), partial(self.deliver, queue))
                return
            if not entry.stored.safe:
                self._next_commit.batch.queues[queue.name] = queue
                return
            if entry.stored.header.expires_first and self._drop_expired(entry):
                continue
            before = queue.turn
            suspected = entry.deliveries >= SUSPECTED
            consumer = self._reader_with_room(queue, suspected)
            if consumer is None:
                for each in queue.consumers:
                    each.passed_over(queue)
                if suspected:
                    self.trials.await_idle(queue)
                return
            if consumer.connection is not None and not self._known_on_disk(entry):
                queue.turn = before
                self._next_commit.batch.queues[queue.name] = queue
                return
            alone = suspected and tries(consumer)
            position, count = next_run(entry, 1 if alone else consumer.room)
            size = entry.stored.header.size if count and consumer.unpacks(entry, count) else 0
            if size and self._must_rest(queue, size, left):
                queue.turn = before
                return
            if why := first_reason(policy.why_not_go_on(entry) for policy in self.policies.why_not_go_on):
                queue.waiting.popleft()
                self._bury_rest(entry, why)
                continue
            left -= self._unpacked(entry, size, count)
            if count and not self._give(entry, consumer, position, count):
                queue.waiting.popleft()
                self.bury(entry, "UNREADABLE")
                continue
            if count and alone:
                first = entry.transfer + position
                self.trials.begin(consumer.session.unacked.within(first, first)[0])
            if not count or entry.given | entry.done == entry.all:
                queue.waiting.popleft()
        if queue.held_back:
            self.holds.relieve(queue)

    def _must_rest(self, queue: Queue, size: int, left: int) -> bool:
        """Has a queue given enough for now, or is a large one before its time? It goes on later by itself."""
        pause = PAUSE if left <= 0 else 0.0
        if size > AT_ONCE:
            pause = max(pause, self._paid_at - self.clock.now)
        if pause > 0:
            self._resting[queue] = None
            self.clock.after(pause, partial(self._rested, queue))
        return pause > 0

    def _unpacked(self, entry: QueueEntry, size: int, count: int) -> int:
        """Bytes that giving so many messages unpacks. What is large is paid for by the next of it."""
        if size > AT_ONCE:
            self._paid_at = max(self._paid_at, self.clock.now) + PAYS * size / SPEED
        elif entry.stored.messages is not None:
            size = size * count // entry.stored.header.count
        return size

    def _rested(self, queue: Queue) -> None:
        self._resting.pop(queue, None)
        self.deliver(queue)

    def _reader_with_room(self, queue: Queue, suspected: bool) -> PushConsumer | None:
        consumers: list[PushConsumer] = queue.consumers
        for _ in consumers:
            queue.turn = (queue.turn + 1) % len(consumers)
            consumer = consumers[queue.turn]
            if consumer.room > 0 and not (suspected and not self.trials.may_have(consumer)):
                return consumer
        return None

    def _known_on_disk(self, entry: QueueEntry) -> bool:
        """Would a start after a crash know that this may have been given? By its row; or it comes again."""
        if 0 < entry.transfer < self.transfer_ids.known:
            return True
        return not entry.stored.row or entry.stored.row in self.custody.fresh

    def number(self, queue: Queue) -> None:
        """The next messages for consumers get their transfer ids in this transaction, and some more."""
        room = next((room for room in (consumer.room_ahead for consumer in queue.consumers) if room > 0), 0)
        messages = 0
        for count, entry in enumerate(queue.waiting):
            if not room or (count >= _AHEAD and messages >= room):
                return
            messages += entry.open
            if not entry.transfer and entry.stored.row:
                self._number(entry)
                self.custody.changed(entry)

    def _number(self, entry: QueueEntry) -> None:
        """Give it its transfer ids, and see whether it is late."""
        entry.transfer = self.transfer_ids.give(entry.stored.header.count)
        if entry.came and self.order.is_late(entry.stored.header, entry.queue.name):
            self.custody.flag(entry.stored, Flag.REROUTED)
            self.counters["out_of_order"] += entry.open

    def _give(self, entry: QueueEntry, consumer: PushConsumer, position: int, count: int) -> bool:
        """Hand a slice over. False: what came here as this bundle's body is no such thing."""
        known = entry.transfer > 0 and entry.transfer not in self.transfer_ids.numbered_now
        if not entry.transfer:
            self._number(entry)
            self.custody.changed(entry)
        first, at = entry.transfer + position, self.custody.trace.fine_clock()
        given = ConsumerDelivery(first, position, count, entry, consumer, at, known)
        try:
            consumer.give(given, self.custody.body(entry))
        except FrameError:
            return False
        entry.given |= given.bits
        destination = entry.queue.destination or entry.stored.header.destination
        for policy in self.policies.routed:
            policy.routed(destination, LOCAL, count, entry.queue.pattern)
        self.custody.trace.delivered(given)
        if consumer.session.token:  # the node itself has none
            self.counters["delivered"] += count
        return True

    # --- expiry

    def expired(self, entry: QueueEntry) -> bool:
        """Have all its messages expired?"""
        last = entry.stored.header.expires_last
        return bool(last) and (self.clock.now - entry.stored.since) * 1000 >= last

    def _drop_expired(self, entry: QueueEntry) -> bool:
        """Bury the expired messages of an entry that is about to be given. True if none is left to give.

        A header cannot say that no time is left, so the last millisecond counts as over.
        """
        header = entry.stored.header
        elapsed = (self.clock.now - entry.stored.since) * 1000 + 1
        if elapsed < header.expires_first:
            return False
        try:
            messages = bundles.unpack(header, self.custody.body(entry))
        except FrameError:
            return False
        times = [max(message.properties.expires_in, 0) for message in messages]
        gone_before = min(filter(None, times), default=0) - header.expires_first
        over = sum(1 << i for i, time in enumerate(times) if time and time - gone_before <= elapsed)
        over &= ~(entry.done | entry.given)
        if not over:
            return False
        gone = self.bury_part(entry, over, "EXPIRED")
        if gone or entry.given | entry.done == entry.all:
            entry.queue.waiting.popleft()
            return True
        return False

    def parted(self, entry: QueueEntry) -> None:
        """An entry goes from here, or is dead: what was dealt with of a queue's is known from now on."""
        if entry.done and entry.queue.keeps and entry.queue.destination:
            self.finished(entry)

    def bury(self, entry: QueueEntry, reason: str) -> None:
        """The rest of an entry goes to the dead letters. The caller takes it from `waiting`."""
        self.parted(entry)
        self.custody.bury(entry, reason)

    def _bury_rest(self, entry: QueueEntry, reason: str) -> None:
        """As `bury`, but for what consumers have already. The caller takes it from `waiting`."""
        if entry.given:
            self.bury_part(entry, entry.all & ~(entry.done | entry.given), reason)
        else:
            self.bury(entry, reason)

    def bury_part(self, entry: QueueEntry, bits: int, reason: str) -> bool:
        """Some messages of an entry go to the dead letters. True if that was all that was left of it."""
        dead = self.custody.add(entry.stored, entry.queue, entry.came, self.clock.now)
        others = dead.all & ~bits
        dead.queue.messages -= (others & ~dead.done).bit_count()
        dead.queue.tally.entered -= dead.open
        dead.done, dead.deliveries = others, entry.deliveries
        self.custody.bury(dead, reason)
        gone = self.custody.mark_done(entry, bits)
        if gone:
            self.finished(entry)
        return gone


def next_run(entry: QueueEntry, credit: int) -> tuple[int, int]:
    """The first run of messages that nobody has: (position, count), at most `credit` long; (0, 0) if none."""
    if not (entry.done or entry.given):
        return 0, min(credit, entry.stored.header.count)
    free = entry.all & ~(entry.done | entry.given)
    if not free:
        return 0, 0
    position = (free & -free).bit_length() - 1
    run = free >> position
    length = ((~run) & (run + 1)).bit_length() - 1
    return position, min(credit, length)
