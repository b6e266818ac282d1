"""Housekeeping: looked after once a second, not at each message.

Law: no step goes over all that a node has. Queues and subscriptions are looked at in rounds of some seconds,
neighbours each second, all a part at a time. For what is due at a known moment nothing else is looked at.
"""

from typing import Final

from broker.core.clients.switch import Switch
from broker.core.clock import PART, Round
from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.queue_names import queue_name_of
from broker.core.messages.summaries import PAGE
from broker.core.neighbours.relocation import Relocation
from broker.core.policies.backpressure import Backpressure
from broker.core.policy import Policy
from broker.core.routing.arrivals import Arrivals
from broker.core.routing.subscriptions import Subscription
from broker.core.routing.topics import Topics
from sapwood.protocol import destinations
from sapwood.protocol.destinations import Destination, Kind
from treeconnector.relations import Relation
from treeconnector.wording import counted

_EVERY: Final = 1.0
_ROUND: Final = 10
"""Seconds in which each queue and subscription has been looked at; a few are looked at each second."""
_STALLED: Final = 5.0
MOST_PRODUCERS: Final = 100_000
_PRODUCER_RETENTION: Final = 7 * 86_400.0


class Housekeeping:
    """Once a second: expiry, hold time, dead letters, old ids, retention of routes and subscriptions."""

    __slots__ = (
        *("_arrivals", "_backpressure", "_context", "_dispatcher", "_held", "_lookup", "_neighbours"),
        *("_queues", "_relocation", "_subscriptions", "_switch", "_topics", "next"),
    )

    def __init__(
        self,
        context: Context,
        lookup: Lookup,
        dispatcher: Dispatcher,
        topics: Topics,
        arrivals: Arrivals,
        switch: Switch,
        relocation: Relocation,
        backpressure: Backpressure,
    ) -> None:
        self._context = context
        self._lookup = lookup
        self._dispatcher = dispatcher
        self._topics = topics
        self._arrivals = arrivals
        self._switch = switch
        self._relocation = relocation
        self._backpressure = backpressure
        self.next = context.clock.now + _EVERY
        self._held: dict[Queue, None] = {}
        clock, custody, neighbours = context.clock, context.custody, context.neighbours
        self._queues = Round(clock, custody.queues.values, self._look_at_queue, _ROUND)
        self._neighbours = Round(clock, neighbours.values, self._look_at_neighbour)
        self._subscriptions = Round(clock, topics.subscriptions.values, self._look_at_subscription, _ROUND)

    def __repr__(self) -> str:
        return f"<Housekeeping next={self.next:.1f}>"

    def run(self) -> None:
        context, clock, custody = self._context, self._context.clock, self._context.custody
        self.next = clock.now + _EVERY
        context.policies.tell(Policy.second_passed)
        if custody.expiry.is_due(clock.now):
            clock.go_on(self._expired, self._expired)
        if self._is_full_of_dead():
            clock.go_on(self._dead, self._dead)
        self._arrivals.seen.prune(custody.transaction)
        self._neighbours.second_passed()
        self._subscriptions.second_passed()
        if self._has_forgettable():
            clock.go_on(self._producers, self._producers)
        self._queues.second_passed(all_now=custody.paging.look())

    def _look_at_queue(self, queue: Queue) -> None:
        """Has it waited too long, may its senders go on, is it needed, and has it too much in memory?"""
        context, custody = self._context, self._context.custody
        if custody.queues.get(queue.name) is not queue:
            return
        if queue.waiting and queue is not custody.dead and self._is_held_too_long(queue):
            self._held[queue] = None
            context.clock.go_on(self._hold_time, self._hold_time)
        if queue.held_back:
            self._dispatcher.holds.look(queue)
        custody.paging.fit(queue)
        custody.sweep(queue)

    # --- what waits too long

    def _expired(self) -> None:
        custody, now = self._context.custody, self._context.clock.now
        pages = custody.expiry.due_pages(now, PART - PAGE)
        for page in pages:
            page.owner.load(page)
        found = custody.expiry.due(now, PART)
        due: dict[str, set[QueueEntry]] = {}
        for entry in found:
            if entry.queue is not custody.dead:
                due.setdefault(entry.queue.name, set()).add(entry)
        for entries in due.values():
            self._expire(next(iter(entries)).queue, entries)
        if pages or len(found) == PART:
            self._context.clock.go_on(self._expired, self._expired)

    def _expire(self, queue: Queue, entries: set[QueueEntry]) -> None:
        """Bury those that wait."""
        context = self._context
        taken = {
            entry for entry in entries if not (entry.given or entry.number or entry.row in queue.resting)
        }
        over = queue.waiting.take_these(taken)
        context.custody.expiry.postpone(entries.difference(over), context.clock.now)
        for entry in over:
            self._dispatcher.bury(entry, "EXPIRED")
            context.counters["buried"] += entry.open

    def _is_held_too_long(self, queue: Queue) -> bool:
        """Where nothing can take a queue's messages, and nobody above could, they are not kept for ever."""
        context = self._context
        if not self._is_old(queue) or queue.destination is None:
            return False
        if queue.consumers or self._was_made_here(queue, queue.destination) or self._lookup.targets(queue):
            return False
        return not (context.lacks_parent and queue.destination.node != context.name)

    def _was_made_here(self, queue: Queue, destination: Destination) -> bool:
        """Was it, or has it the name of one that was? `x@this-node` has the readers of `x`."""
        named = None
        if destination.kind == Kind.QUEUE and destination.node in self._lookup.mine:
            named = self._context.custody.queues.get(queue_name_of(destinations.queue(destination.name)))
        return any(each is not None and (each.created or each.home) for each in (queue, named))

    def _is_old(self, queue: Queue) -> bool:
        oldest = queue.waiting.since
        return oldest is not None and oldest <= self._context.clock.now - self._context.settings.hold_time

    def _hold_time(self) -> None:
        """Of many queues, a part of their messages. By now somebody may take them, or a queue may be gone."""
        context, room = self._context, PART
        while self._held and room > 0:
            queue = next(iter(self._held))
            room -= 1
            known = context.custody.queues.get(queue.name) is queue
            if known and self._is_held_too_long(queue):
                entry = queue.waiting.popleft()
                self._dispatcher.bury(entry, "QUEUE_DOES_NOT_EXIST")
                context.counters["buried"] += entry.open
            else:
                del self._held[queue]
        if self._held:
            context.clock.go_on(self._hold_time, self._hold_time)

    def _is_full_of_dead(self) -> bool:
        """Dead letters are bounded by age, number and size."""
        settings, dead = self._context.settings, self._context.custody.dead
        return bool(dead.waiting) and (
            dead.messages > settings.dead_messages
            or dead.size > settings.dead_bytes
            or dead.waiting[0].since <= self._context.clock.now - settings.dead_age
        )

    def _dead(self) -> None:
        """Those over the bound are counted."""
        context, dead = self._context, self._context.custody.dead
        for _ in range(PART):
            if not self._is_full_of_dead():
                return
            entry = dead.waiting.popleft()
            context.counters["dead_overflow"] = context.counters.get("dead_overflow", 0) + entry.open
            context.custody.discard(entry)
        context.clock.go_on(self._dead, self._dead)

    # --- retention

    def _look_at_neighbour(self, neighbour: Neighbour) -> None:
        """Has it been away for too long? Else, is it blocked, and may it go on with what it keeps for us?"""
        context = self._context
        if context.neighbours.get(neighbour.name) is not neighbour:
            return
        if neighbour.link is not None:
            self._stalled(neighbour)
            self._backpressure.look(neighbour)
        elif self._is_forgotten(neighbour):
            self._relocation.forget(neighbour, moved=False)

    def _is_forgotten(self, neighbour: Neighbour) -> bool:
        """Of parents the last one stays, however long it is away."""
        context, down = self._context, neighbour.detail.down_since
        if neighbour.up or not down or context.clock.now - down <= context.settings.route_retention:
            return False
        return neighbour.relation is not Relation.PARENT or any(each.up for each in context.parents.values())

    def _look_at_subscription(self, subscription: Subscription) -> None:
        now = self._context.clock.now
        if subscription.attached:
            subscription.seen = now
        elif subscription.name and now - subscription.seen > self._context.settings.subscription_retention:
            self._switch.interest.end(subscription)

    def _has_forgettable(self) -> bool:
        """The producer that has not sent for longest is the first."""
        streams = self._switch.producers.streams
        oldest = next(iter(streams.values()), None)
        if oldest is None:
            return False
        return self._context.clock.now - oldest.seen > _PRODUCER_RETENTION or len(streams) > MOST_PRODUCERS

    def _producers(self) -> None:
        sending = self._switch.producers
        for _ in range(PART):
            if not self._has_forgettable():
                return
            sending.forget(next(iter(sending.streams.values())))
        self._context.clock.go_on(self._producers, self._producers)

    def _stalled(self, neighbour: Neighbour) -> None:
        """A link that is up and does not drain is blocked, and says why."""
        context = self._context
        waited = context.clock.now - neighbour.progress_at
        was = neighbour.blocked
        if neighbour.outbox and waited > _STALLED:
            bundles = counted(len(neighbour.outbox), "bundle", "waits", "wait")
            neighbour.blocked = f"{bundles} for an acknowledgement for {waited:.0f} s"
        else:
            neighbour.blocked = ""
        if bool(was) != bool(neighbour.blocked):
            context.log_link("blocked" if neighbour.blocked else "up", neighbour)
