"""Forwarding: from where a message waits to where it goes next (rules 9 to 11).

A queue's messages wait in one place. Local consumers come first; else the queue is wanted by every neighbour
that a route points to, and whichever has room in its outbox takes the next bundle: that spreads the load.
Nothing is pushed, so a slow line holds up nobody but itself.

Wrinkle: a queue message may go back where it came from, when the consumer there has gone. It rests a little
longer each time. What goes back to a parent ends the linger of our own offer there; it rests on while that
offer stands for another reason.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

from broker.core.clock import PART, Parts
from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.links.neighbour import Neighbour
from broker.core.links.outgoing import head_of, is_too_large, outgoing
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, QueueEntry, StoredBundle
from broker.core.messages.queue_names import Spool
from broker.core.messages.trace import EVERY, REROUTED
from broker.core.policy import Policy, first_reason
from broker.core.routing.readdressing import Readdressing
from sapwood.protocol.bundles import Flag
from sapwood.protocol.destinations import Destination, Kind
from treeconnector.relations import Relation

_FIRST_REST: Final = 0.05
_LONGEST_REST: Final = 10.0
_ROOM_AGAIN: Final = 1.0
SHARED: Final = 512
"""Bundles in an outbox to which a queue that several neighbours take from adds no further one."""
_SPARED_AT_ONCE: Final = 64


class Forwarder:
    """Moves entries on. One for each node; the only one that takes entries out of `waiting`."""

    __slots__ = (
        *("_cache_bytes", "_clock", "_counters", "_crowded", "_custody", "_dispatcher", "_due", "_holds"),
        *("_lookup", "_neighbours", "_node", "_parents", "_policies", "_readdressing", "_rests", "_static"),
        *("_table", "_touched", "_woken"),
    )

    def __init__(self, context: Context, lookup: Lookup, dispatcher: Dispatcher) -> None:
        self._lookup = lookup
        self._dispatcher = dispatcher
        self._holds = dispatcher.holds
        self._node = context.name
        self._custody = context.custody
        self._policies = context.policies
        self._table = context.table
        self._static = context.table.static
        self._neighbours = context.neighbours
        self._parents = context.parents
        self._clock = context.clock
        self._counters = context.counters
        self._cache_bytes = context.settings.cache_bytes
        self._touched = context.touched
        self._rests: dict[tuple[str, str, int], list[QueueEntry]] = {}
        self._woken: dict[str, Neighbour] = {}
        self._crowded: dict[Queue, None] = {}
        self._readdressing = Readdressing(context, lookup, self._holds, self.dispatch)
        self._due = Parts(context.clock, self.dispatch)

    def __repr__(self) -> str:
        return f"<Forwarder of {self._node} resting={len(self._rests)}>"

    # --- what is not persistent

    def takes_volatile(self, queue: Queue) -> bool:
        """What is not persistent waits for consumers that are here, and in memory only: so not for many."""
        return bool(queue.consumers) and queue.size < self._cache_bytes

    def let_volatile_go(self, queue: Queue) -> None:
        """The last consumer has gone: what is not persistent goes on at once, or not at all."""
        if queue.consumers:
            return
        for entry in queue.waiting.take_out(lambda entry: not entry.stored.row):
            if queue.destination is not None and not entry.done:
                self.send_volatile_to_one(entry.stored, queue, entry.came)
            else:
                self._counters["volatile_dropped"] += entry.open
            self._custody.discard(entry)

    def send_volatile_to_one(self, stored: StoredBundle, queue: Queue, came: str) -> None:
        """To the first that takes it, of those that may."""
        targets = self._lookup.targets(queue, waits=False)
        if not targets or (queue.created and not self._lookup.targets(queue)):
            self._lookup.look_for(queue)
        for name in sorted(targets):
            if name != came and self.send_volatile(self._neighbours[name], stored):
                return
        self._counters["volatile_dropped"] += stored.header.count
        self._custody.trace.dropped(stored.header, "nobody takes it now, and it is not persistent")

    def send_volatile(self, neighbour: Neighbour, stored: StoredBundle) -> bool:
        """Send without a number, if the link is up and not blocked; nothing is kept."""
        if neighbour.link is None or not neighbour.has_room or stored.body is None:
            return False
        if is_too_large(stored, neighbour):
            return False
        neighbour.link.say.volatile(stored.head, stored.body)
        for policy in self._policies.routed:
            policy.routed(stored.header.destination, neighbour.name, stored.header.count)
        self._count_out(neighbour, 1, stored.header.count)
        self._custody.trace.sent_volatile(stored.header, neighbour.name)
        return True

    # --- going on

    def dispatch(self, queue: Queue) -> None:
        """Something changed for this queue: let go on what can."""
        if not (queue.waiting or queue.resting) or queue is self._custody.dead:
            if queue.held_back:
                self._holds.relieve(queue)
            return
        if queue.consumers:
            self._turn(queue, Spool.UP)
            if queue.resting:
                queue.end_rest()
            self._dispatcher.deliver(queue)
            return
        if self._static.aliases and self._readdressing.by_alias(queue):
            return
        targets = self._lookup.targets(queue)
        if not targets:
            self._lookup.look_for(queue)
            if self._static.dumpster and self._readdressing.by_dumpster(queue):
                return
        if queue.resting and targets != queue.targets:
            queue.end_rest()
        queue.targets = targets
        queue.ways = self._remembered(queue, targets)
        self._turn(queue, self._lookup.spool_to(targets))
        for name in self._in_turn(queue):
            neighbour = self._neighbours[name]
            neighbour.want(queue)
            if neighbour.up:
                self.pump(neighbour)

    def _remembered(self, queue: Queue, targets: frozenset[str]) -> int:
        """The table's version, if a bundle that comes next goes the same way until that changes; else -1.

        So it is where routes or the one parent decide, and nothing that is set or asked for besides.
        """
        destination = queue.destination
        if len(targets) != 1 or destination is None or destination.node or len(self._parents) > 1:
            return -1
        if self._lookup.meshed or self._static.steers or destination.kind != Kind.QUEUE:
            return -1
        if queue.created and not targets.isdisjoint(self._parents):
            return -1  # an answer from above may end this way
        (queue.next_hop,) = targets
        return self._table.version

    def _turn(self, queue: Queue, spool: Spool) -> None:
        if queue.spool is not spool and queue.destination is not None:
            self._custody.spools.turn(queue, spool)

    def _in_turn(self, queue: Queue) -> Iterable[str]:
        """The neighbours that may take these entries: the least loaded first, equals in turn."""
        if len(queue.targets) < 2:
            return queue.targets
        names = sorted(queue.targets)
        queue.turn += 1
        first = queue.turn % len(names)
        return sorted(names[first:] + names[:first], key=lambda name: len(self._neighbours[name].outbox))

    def pump(self, neighbour: Neighbour) -> None:
        """Fill the outbox as far as its window allows, one bundle of each queue in turn.

        What may not go back to this neighbour may go to others that want it as well: these come next.
        """
        self._fill(neighbour)
        while self._woken:
            _, other = self._woken.popitem()
            self._fill(other)

    def _fill(self, neighbour: Neighbour) -> None:
        spared = 0
        while neighbour.wants and neighbour.has_room and spared < _SPARED_AT_ONCE:
            queue = neighbour.next_wanted()
            if neighbour.name not in queue.targets or (queue.consumers and queue.destination):
                continue
            if len(queue.targets) > 1 and len(neighbour.outbox) >= SHARED:
                neighbour.want(queue)  # another that takes it may be faster
                spared += 1
                continue
            if queue.destination and neighbour.holds(queue.destination):
                continue
            entry = self._next_for(neighbour, queue)
            if entry is None:
                continue
            self._assign(self._back_to(entry, neighbour), entry)
            if queue.held_back:
                self._holds.relieve(queue)
            if queue.waiting or (queue.resting and len(queue.targets) > 1):
                neighbour.want(queue)

    def _back_to(self, entry: QueueEntry, neighbour: Neighbour) -> Neighbour:
        """What goes back to a mesh goes to the very node that gave it, while that takes it."""
        giver = self._neighbours.get(entry.came)
        if giver is None or giver is neighbour or not entry.queue.destination:
            return neighbour
        takes = giver.has_room and not giver.holds(entry.queue.destination)
        return giver if takes and self._lookup.is_back(entry, neighbour) else neighbour

    def _next_for(self, neighbour: Neighbour, queue: Queue) -> QueueEntry | None:
        """Take the first entry that this neighbour may have; what cannot go is put aside, if not too many."""
        passed = self._custody.buried.total() + len(queue.resting)
        while entry := self._first_for(neighbour, queue):
            if self._custody.buried.total() + len(queue.resting) - passed >= PART:
                self._keep_for_later(queue, entry)
                return None
            if entry.row < queue.unfollowed and any(
                policy.must_stay(entry) for policy in self._policies.must_stay
            ):
                self._keep_for_later(queue, entry)
                return None
            if self._dispatcher.expired(entry):
                self._dispatcher.bury(entry, "EXPIRED")
            elif is_too_large(entry.stored, neighbour):
                self._dispatcher.bury(entry, "TOO_LARGE")
            elif queue.destination and not entry.backed_off and self._goes_back(entry, neighbour):
                self._rest(entry, neighbour)
            elif entry.row < queue.swept and (why := self._why_not(entry, neighbour)):
                neighbour.refusals.add(why, entry.open)
                self._dispatcher.bury(entry, why)
            elif why := first_reason(policy.why_not_go_on(entry) for policy in self._policies.why_not_go_on):
                self._dispatcher.bury(entry, why)
            elif not queue.destination and neighbour.holds(entry.stored.header.destination):
                queue.resting[entry.row] = entry
            else:
                return entry
        return None

    def _keep_for_later(self, queue: Queue, entry: QueueEntry) -> None:
        queue.waiting.add(entry)
        self._clock.go_on((self.dispatch, queue), partial(self.dispatch, queue))

    @staticmethod
    def _why_not(entry: QueueEntry, neighbour: Neighbour) -> str:
        """Why a child may not have what waited for it while its permit changed; '' if it may."""
        destination = entry.stored.header.destination
        return "" if destination.node else neighbour.permit.why_not_take(destination)

    def _first_for(self, neighbour: Neighbour, queue: Queue) -> QueueEntry | None:
        """The first that rests, so that it does not go back to another one, comes before those that wait."""
        if queue.resting and len(queue.targets) > 1:
            rested = queue.resting.take_first(lambda entry: not self._goes_back(entry, neighbour))
            if rested is not None:
                return rested
        if not queue.waiting:
            return None
        if queue.resting.has_room:
            return queue.waiting.popleft()
        if not queue.resting.is_full:
            self._wait_for_room(queue)
        return None

    def _wait_for_room(self, queue: Queue) -> None:
        """So many of other queues rest that this one has to wait; of those that are full the next to rest no
        more makes room."""
        if not self._crowded:
            self._clock.after(_ROOM_AGAIN, self._look_for_room)
        self._crowded[queue] = None

    def _look_for_room(self) -> None:
        crowded, self._crowded = self._crowded, {}
        for queue in crowded:
            self._clock.go_on((self.dispatch, queue), partial(self.dispatch, queue))

    def _rest(self, entry: QueueEntry, neighbour: Neighbour) -> None:
        """Keep an entry that would go back where it came from for a while, or until a consumer comes."""
        queue = entry.queue
        queue.resting[entry.row] = entry
        for other in self._others(queue, neighbour):
            other.want(queue)
            self._woken[other.name] = other
        delay = min(_FIRST_REST * 2 ** min(entry.stored.header.reroutes, 20), _LONGEST_REST)
        self._let_rest(queue, neighbour, [entry], delay)

    def _others(self, queue: Queue, neighbour: Neighbour) -> list[Neighbour]:
        """The other neighbours that can take these entries now."""
        others = (self._neighbours.get(name) for name in queue.targets if name != neighbour.name)
        # One may be gone whose queues have not had their turn since (`look_again`).
        return [other for other in others if other is not None and other.up]

    def _let_rest(self, queue: Queue, neighbour: Neighbour, entries: list[QueueEntry], delay: float) -> None:
        due = int((self._clock.now + delay) / _FIRST_REST) + 1
        key = queue.name, neighbour.name, due
        together = self._rests.setdefault(key, [])
        together += entries
        if len(together) == len(entries):
            wake = partial(self._wake, key, queue, neighbour, delay)
            self._clock.after(due * _FIRST_REST - self._clock.now, wake)

    def _wake(self, key: tuple[str, str, int], queue: Queue, neighbour: Neighbour, delay: float) -> None:
        """They have rested. While others can take them they do not go back, however slow those are.

        One that has left memory meanwhile, and rests again, is another object.
        """
        rows = dict.fromkeys(each.row for each in self._rests.pop(key))
        entries = [queue.resting[row] for row in rows if row in queue.resting]
        if entries and self._others(queue, neighbour):
            self._let_rest(queue, neighbour, entries, min(2 * delay, _LONGEST_REST))
            return
        for each in entries:
            queue.resting.take(each.row)
            each.backed_off = neighbour.name not in self._parents or self._may_go_back_up(each)
        queue.waiting.put_back(entries)
        self.dispatch(queue)

    def _may_go_back_up(self, entry: QueueEntry) -> bool:
        key = entry.stored.header.destination.route_key
        return self._policies.ask(Policy.may_go_back_up, key)

    def _assign(self, neighbour: Neighbour, entry: QueueEntry) -> None:
        if entry.queue.destination and self._goes_back(entry, neighbour):
            header = entry.stored.header
            header.reroutes += 1
            header.flags |= Flag.REROUTED
            entry.backed_off = False
            self._counters["rerouted"] += header.count
            self._custody.trace.happened(REROUTED, entry, EVERY, neighbour.name)
            self._custody.header_changed(entry.stored)
        if entry.deliveries or (self._lookup.meshed and self._may_be_elsewhere(entry)):
            self._custody.flag(entry.stored, Flag.MAYBE_DUPLICATE)
        if entry.note:
            self._custody.sent(entry.queue, entry.note, -entry.open)
            entry.note = ""
        self._dispatcher.parted(entry)
        for policy in self._policies.routed:
            policy.routed(
                entry.queue.destination or entry.stored.header.destination, neighbour.name, entry.open
            )
        self._custody.move(entry, neighbour.queue)
        if not neighbour.outbox:
            neighbour.progress_at = self._clock.now
        neighbour.number(entry)
        if neighbour.held_before.untried or neighbour.held_before.tried is not None:
            tries = neighbour.held_before.tried_by(str(entry.stored.header.destination), entry.number)
            for held in tries:
                neighbour.peer_holds.add(held)
        self._touched[neighbour.name] = neighbour

    def _goes_back(self, entry: QueueEntry, neighbour: Neighbour) -> bool:
        """To where it came from; or up, though it came down from a parent that is ours no more."""
        if self._lookup.is_back(entry, neighbour):
            return True
        return neighbour.name in self._parents and bool(entry.came) and entry.came not in self._neighbours

    def _may_be_elsewhere(self, entry: QueueEntry) -> bool:
        """Has its sender lost its line to this node since? Then it may have sent the same over another."""
        sender = self._neighbours.get(entry.came)
        return sender is not None and entry.since <= sender.broken_at

    def send_committed(self, neighbour: Neighbour) -> None:
        """Put on the link what has its number on disk."""
        link = neighbour.link
        if link is None:
            return
        ready, messages = neighbour.sendable(), 0
        if not ready:
            return
        self._custody.trace.sent(ready, neighbour.name)
        for entry in ready:
            body = self._custody.body(entry)
            link.say.bundle(entry.number, head_of(entry, self._clock.now), body)
            if neighbour.relation is Relation.CHILD:
                header = outgoing(entry, self._clock.now) if entry.done else entry.stored.header
                for policy in self._policies.sent:
                    policy.sent(neighbour, header, body)
            messages += entry.open
        self._count_out(neighbour, len(ready), messages)

    def _count_out(self, neighbour: Neighbour, count: int, messages: int) -> None:
        neighbour.counters["out"] += messages
        neighbour.counters["out_bundles"] += count
        self._counters["out"] += messages

    # --- other ways

    def requeue(self, entry: QueueEntry, flags: int = 0) -> None:
        """Let an entry wait in its queue again: its link will not take it any more."""
        self._custody.flag(entry.stored, flags)
        self._custody.trace.happened(REROUTED, entry, EVERY, "")
        queue = self._custody.queue_for(entry.stored.header.destination)
        queue.asking = queue.asking or bool(entry.stored.header.flags & Flag.TELL)
        self._custody.move(entry, queue)
        queue.waiting.add(entry)
        self.dispatch(queue)

    # --- routes

    def routes_changed(self, keys: Iterable[Destination]) -> None:
        """Routes came, went, woke or fell asleep: what waits for them is routed again."""
        self.look_again([queue for key in keys for queue in self._waiting_for(key)])

    def look_again(self, queues: Iterable[Queue]) -> None:
        """Something changed for many queues: `dispatch` each, a part at a time."""
        self._due.add(queues)

    @property
    def is_busy(self) -> bool:
        """Have some queues not been looked at again since something changed for them?"""
        return bool(self._due)

    def _waiting_for(self, key: Destination) -> Iterable[Queue]:
        if key.kind == Kind.QUEUE:
            queue = self._custody.queues.get(f"queue:{key.name}")
            return () if queue is None else (queue,)
        return self._custody.directed.get(key.name, {}).values() if key.kind == Kind.DOMAIN else ()
