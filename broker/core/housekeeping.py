"""Housekeeping: looked after once a second, not at each message."""

from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.core.links.neighbour import Neighbour
from broker.core.messages.custody import Queue, QueueEntry
from treeconnector.relations import Relation

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_EVERY: Final = 1.0
_AT_ONCE: Final = 10_000
_STALLED: Final = 5.0
MOST_PRODUCERS: Final = 100_000
_PRODUCER_RETENTION: Final = 7 * 86_400.0


class Housekeeping:
    """Once a second: expiry, hold time, dead letters, old ids, retention of routes and subscriptions."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self.next = core.clock.now + _EVERY

    def __repr__(self) -> str:
        return f"<Housekeeping next={self.next:.1f}>"

    def run(self) -> None:
        core = self._core
        if core.clock.now < self.next:
            return
        self.next = core.clock.now + _EVERY
        core.keep_ticks()
        core.telling.look_again()
        self._waiting()
        self._dead()
        core.arrivals.seen.prune(core.custody.transaction)
        self._retention()
        self._pressure()
        wanted = {name for neighbour in core.neighbours.values() for name in neighbour.wanting}
        core.custody.sweep_queues(wanted)
        core.custody.paging.look()
        core.statistics.sample()

    # --- what waits too long

    def _waiting(self) -> None:
        custody = self._core.custody
        for page in custody.expiry.due_pages(self._core.clock.now, _AT_ONCE):
            page.owner.load(page)
        due: dict[str, set[QueueEntry]] = {}
        for entry in custody.expiry.due(self._core.clock.now, _AT_ONCE):
            if entry.queue is not custody.dead:
                due.setdefault(entry.queue.name, set()).add(entry)
        for entries in due.values():
            self._expire(next(iter(entries)).queue, entries)
        for queue in list(custody.queues.values()):
            if queue.waiting and queue is not custody.dead:
                self._hold_time(queue)

    def _expire(self, queue: Queue, entries: set[QueueEntry]) -> None:
        """Bury those that wait. Mostly they are the first; if not, the others are gone through once."""
        core = self._core
        taken = {
            entry for entry in entries if not (entry.given or entry.number or entry.row in queue.resting)
        }
        warm, over = queue.waiting.warm, list[QueueEntry]()
        while warm and warm[0] in taken:
            over.append(warm.popleft())
        if len(over) < len(taken):
            over += queue.waiting.take_out(taken.__contains__)
        core.custody.expiry.postpone(entries.difference(over), core.clock.now)
        for entry in over:
            core.forwarder.bury(entry, "EXPIRED")
            core.counters["buried"] += entry.open

    def _hold_time(self, queue: Queue) -> None:
        """Where nothing can take a queue's messages, and nobody above could, they are not kept for ever."""
        core = self._core
        old = core.clock.now - core.settings.hold_time
        oldest = queue.waiting.since
        if oldest is None or oldest > old:
            return
        if queue.destination is None or queue.consumers or queue.created or core.forwarder.targets(queue):
            return
        if queue.home or (core.forwarder.lacks_parent and queue.destination.node != core.identity.name):
            return
        for _ in range(_AT_ONCE):
            oldest = queue.waiting.since
            if oldest is None or oldest > old:
                return
            entry = queue.waiting.popleft()
            core.forwarder.bury(entry, "QUEUE_DOES_NOT_EXIST")
            core.counters["buried"] += entry.open

    def _dead(self) -> None:
        """Dead letters are bounded by age, number and size; what goes over the edge is counted."""
        core, settings = self._core, self._core.settings
        dead = core.custody.dead
        old = core.clock.now - settings.dead_age
        while dead.waiting and (
            dead.messages > settings.dead_messages
            or dead.size > settings.dead_bytes
            or dead.waiting[0].since <= old
        ):
            entry = dead.waiting.popleft()
            core.counters["dead_overflow"] = core.counters.get("dead_overflow", 0) + entry.open
            core.custody.discard(entry)

    # --- retention

    def _retention(self) -> None:
        core, settings, now = self._core, self._core.settings, self._core.clock.now
        spare = any(parent.up for parent in core.neighbourhood.parents())
        for neighbour in list(core.neighbours.values()):
            down = neighbour.detail.down_since
            if neighbour.relation is Relation.PARENT and not spare:
                continue
            if not neighbour.up and down and now - down > settings.route_retention:
                core.moves.forget(neighbour, moved=False)
        for subscription in list(core.topics.subscriptions.values()):
            if subscription.attached:
                subscription.seen = now
            elif subscription.name and now - subscription.seen > settings.subscription_retention:
                core.switch.end_subscription(subscription)
        streams = core.switch.sending.streams
        for stream in [item for item in streams.values() if now - item.seen > _PRODUCER_RETENTION]:
            core.switch.sending.forget(stream)
        too_many = max(len(streams) - MOST_PRODUCERS, 0)
        for stream in nsmallest(too_many, streams.values(), key=attrgetter("seen")):
            core.switch.sending.forget(stream)

    # --- back-pressure of the whole spool

    def _pressure(self) -> None:
        """While a spool is full, neighbours that feed it keep what they have."""
        core = self._core
        for neighbour in core.neighbours.values():
            if neighbour.link is None:
                continue
            self._stalled(neighbour)
            core.pressure.look(neighbour)

    def _stalled(self, neighbour: Neighbour) -> None:
        """A link that is up and does not drain is blocked, and says why."""
        core = self._core
        waited = core.clock.now - neighbour.progress_at
        was = neighbour.blocked
        if neighbour.outbox and waited > _STALLED:
            neighbour.blocked = (
                f"{len(neighbour.outbox)} bundles wait for an acknowledgement for {waited:.0f} s"
            )
        else:
            neighbour.blocked = ""
        if bool(was) != bool(neighbour.blocked):
            core.neighbourhood.log_link("blocked" if neighbour.blocked else "up", neighbour)
