"""Housekeeping: looked after once a second, not at each message."""

from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.core.clock import PART
from broker.core.links.neighbour import Neighbour
from broker.core.messages.custody import Queue, QueueEntry
from broker.core.messages.pages import PAGE
from treeconnector.relations import Relation

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_EVERY: Final = 1.0
_STALLED: Final = 5.0
MOST_PRODUCERS: Final = 100_000
_PRODUCER_RETENTION: Final = 7 * 86_400.0


class Housekeeping:
    """Once a second: expiry, hold time, dead letters, old ids, retention of routes and subscriptions."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self.next = core.clock.now + _EVERY
        self._held: dict[Queue, None] = {}

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
        if self._is_full_of_dead():
            core.clock.go_on(self._dead, self._dead)
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
        if custody.expiry.is_due(self._core.clock.now):
            self._core.clock.go_on(self._expired, self._expired)
        for queue in list(custody.queues.values()):
            if queue.waiting and queue is not custody.dead and self._is_held_too_long(queue):
                self._held[queue] = None
        if self._held:
            self._core.clock.go_on(self._hold_time, self._hold_time)

    def _expired(self) -> None:
        custody, now = self._core.custody, self._core.clock.now
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
            self._core.clock.go_on(self._expired, self._expired)

    def _expire(self, queue: Queue, entries: set[QueueEntry]) -> None:
        """Bury those that wait."""
        core = self._core
        taken = {
            entry for entry in entries if not (entry.given or entry.number or entry.row in queue.resting)
        }
        over = queue.waiting.take_these(taken)
        core.custody.expiry.postpone(entries.difference(over), core.clock.now)
        for entry in over:
            core.forwarder.bury(entry, "EXPIRED")
            core.counters["buried"] += entry.open

    def _is_held_too_long(self, queue: Queue) -> bool:
        """Where nothing can take a queue's messages, and nobody above could, they are not kept for ever."""
        core = self._core
        if not self._is_old(queue) or queue.destination is None:
            return False
        if queue.consumers or queue.created or core.forwarder.targets(queue):
            return False
        lacks_parent = core.forwarder.lacks_parent and queue.destination.node != core.identity.name
        return not (queue.home or lacks_parent)

    def _is_old(self, queue: Queue) -> bool:
        oldest = queue.waiting.since
        return oldest is not None and oldest <= self._core.clock.now - self._core.settings.hold_time

    def _hold_time(self) -> None:
        """Of many queues, a part of their messages. By now somebody may take them, or a queue may be gone."""
        core, room = self._core, PART
        while self._held and room > 0:
            queue = next(iter(self._held))
            room -= 1
            known = core.custody.queues.get(queue.name) is queue
            if known and self._is_held_too_long(queue):
                entry = queue.waiting.popleft()
                core.forwarder.bury(entry, "QUEUE_DOES_NOT_EXIST")
                core.counters["buried"] += entry.open
            else:
                del self._held[queue]
        if self._held:
            core.clock.go_on(self._hold_time, self._hold_time)

    def _is_full_of_dead(self) -> bool:
        """Dead letters are bounded by age, number and size."""
        settings, dead = self._core.settings, self._core.custody.dead
        return bool(dead.waiting) and (
            dead.messages > settings.dead_messages
            or dead.size > settings.dead_bytes
            or dead.waiting[0].since <= self._core.clock.now - settings.dead_age
        )

    def _dead(self) -> None:
        """Those over the bound are counted."""
        core, dead = self._core, self._core.custody.dead
        for _ in range(PART):
            if not self._is_full_of_dead():
                return
            entry = dead.waiting.popleft()
            core.counters["dead_overflow"] = core.counters.get("dead_overflow", 0) + entry.open
            core.custody.discard(entry)
        core.clock.go_on(self._dead, self._dead)

    # --- retention

    def _retention(self) -> None:
        core, settings, now = self._core, self._core.settings, self._core.clock.now
        spare = any(parent.up for parent in core.neighbourhood.parents())
        for neighbour in list(core.neighbours.values()):
            core.advising.forget_former(neighbour, now - settings.route_retention)
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
