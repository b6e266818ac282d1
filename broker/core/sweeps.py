"""Sweeps: what is looked after now and then, not at each message."""

from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from broker.core.custody import Copy, Place
from broker.core.neighbours import Neighbour
from treeconnector.relations import Relation

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_EVERY: Final = 1.0
_AT_ONCE: Final = 10_000
_STALLED: Final = 5.0
MOST_PRODUCERS: Final = 100_000
_PRODUCER_RETENTION: Final = 7 * 86_400.0


class Sweeps:
    """Once a second: expiry, hold time, dead letters, old ids, retention of routes and subscriptions."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self.next = core.moment.now + _EVERY

    def __repr__(self) -> str:
        return f"<Sweeps next={self.next:.1f}>"

    def run(self) -> None:
        core = self._core
        if core.moment.now < self.next:
            return
        self.next = core.moment.now + _EVERY
        core.keep_ticks()
        core.telling.look_again()
        self._waiting()
        self._dead()
        core.arrivals.seen.prune(core.custody.transaction)
        self._retention()
        self._pressure()
        wanted = {name for neighbour in core.neighbours.values() for name in neighbour.wanting}
        core.custody.sweep_places(wanted)
        core.custody.cooling.look()
        core.statistics.sample()

    # --- what waits too long

    def _waiting(self) -> None:
        custody = self._core.custody
        for page in custody.expiry.due_pages(self._core.moment.now, _AT_ONCE):
            page.owner.load(page)
        due: dict[str, set[Copy]] = {}
        for copy in custody.expiry.due(self._core.moment.now, _AT_ONCE):
            if copy.place is not custody.dead:
                due.setdefault(copy.place.name, set()).add(copy)
        for copies in due.values():
            self._expire(next(iter(copies)).place, copies)
        for place in list(custody.places.values()):
            if place.waiting and place is not custody.dead:
                self._hold_time(place)

    def _expire(self, place: Place, copies: set[Copy]) -> None:
        """Bury those that wait. Mostly they are the first; if not, the others are gone through once."""
        core = self._core
        taken = {copy for copy in copies if not (copy.given or copy.number or copy.row in place.resting)}
        warm, over = place.waiting.warm, list[Copy]()
        while warm and warm[0] in taken:
            over.append(warm.popleft())
        if len(over) < len(taken):
            over += place.waiting.take_out(taken.__contains__)
        core.custody.expiry.postpone(copies.difference(over), core.moment.now)
        for copy in over:
            core.forwarder.bury(copy, "EXPIRED")
            core.counters["buried"] += copy.open

    def _hold_time(self, place: Place) -> None:
        """Where nothing can take a queue's messages, and nobody above could, they are not kept for ever."""
        core = self._core
        old = core.moment.now - core.settings.hold_time
        oldest = place.waiting.since
        if oldest is None or oldest > old:
            return
        if place.destination is None or place.readers or place.created or core.forwarder.targets(place):
            return
        if place.home or (core.forwarder.lacks_parent and place.destination.node != core.identity.name):
            return
        for _ in range(_AT_ONCE):
            oldest = place.waiting.since
            if oldest is None or oldest > old:
                return
            copy = place.waiting.popleft()
            core.forwarder.bury(copy, "QUEUE_DOES_NOT_EXIST")
            core.counters["buried"] += copy.open

    def _dead(self) -> None:
        """Dead letters are bounded by age, number and size; what goes over the edge is counted."""
        core, settings = self._core, self._core.settings
        dead = core.custody.dead
        old = core.moment.now - settings.dead_age
        while dead.waiting and (
            dead.messages > settings.dead_messages
            or dead.size > settings.dead_bytes
            or dead.waiting[0].since <= old
        ):
            copy = dead.waiting.popleft()
            core.counters["dead_overflow"] = core.counters.get("dead_overflow", 0) + copy.open
            core.custody.discard(copy)

    # --- retention

    def _retention(self) -> None:
        core, settings, now = self._core, self._core.settings, self._core.moment.now
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
        waited = core.moment.now - neighbour.progress_at
        was = neighbour.blocked
        if neighbour.outbox and waited > _STALLED:
            neighbour.blocked = (
                f"{len(neighbour.outbox)} bundles wait for an acknowledgement for {waited:.0f} s"
            )
        else:
            neighbour.blocked = ""
        if bool(was) != bool(neighbour.blocked):
            core.neighbourhood.log_link("blocked" if neighbour.blocked else "up", neighbour)
