"""Forwarding: from where a message waits to where it goes next (rules 9 to 11).

A queue's messages wait in one place. Local readers come first; else the place is wanted by every neighbour
that a route points to, and whichever has room in its outbox takes the next bundle: that spreads the load.
Nothing is pushed, so a slow line holds up nobody but itself.

Wrinkle: a queue message may go back where it came from, when the consumer there has gone. It rests a little
longer each time, and rests without going back while our own offer there still stands (lingering).
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

from broker.core.custody import Copy, Custody, Place, Spool, Stored
from broker.core.delivery import MOST_BURIED, PAUSE, Delivery
from broker.core.moment import Moment
from broker.core.neighbours import Neighbour
from broker.core.outgoing import head_of, is_too_large, outgoing
from broker.core.rehousing import dumped, readdressed
from broker.core.settings import CoreSettings
from broker.core.trace import EVERY, REROUTED
from treeconnector.bundles import Flag, Header
from treeconnector.destinations import Destination, Kind
from treeconnector.relations import Relation
from treeconnector.routes import RoutingTable

_FIRST_REST: Final = 0.05
_LONGEST_REST: Final = 10.0
_LOOK_THROUGH: Final = 1000
_MOST_RESTING: Final = 50_000


class Forwarder(Delivery):
    """Moves copies on. One for each node; the only one that takes copies out of `waiting`."""

    def __init__(
        self,
        node: str,
        settings: CoreSettings,
        moment: Moment,
        custody: Custody,
        table: RoutingTable,
        neighbours: dict[str, Neighbour],
        counters: dict[str, int],
    ) -> None:
        super().__init__(node, settings, moment, custody, table, neighbours, counters)
        self._rests: dict[tuple[str, str, int], list[Copy]] = {}
        self.has_parent = False
        self.touched: dict[str, Neighbour] = {}
        self._woken: dict[str, Neighbour] = {}
        self.offered_up: Callable[[Destination], bool] = lambda key: False
        self.lost: Callable[[Neighbour], None] = lambda neighbour: None
        self.gave: Callable[[Neighbour, Header, bytes], None] = lambda *bundle: None

    def __repr__(self) -> str:
        return f"<Forwarder of {self.node} next_transfer={self.next_transfer}>"

    @property
    def lacks_parent(self) -> bool:
        """Is there a parent that this node has not met yet?"""
        return self.has_parent and not self.parents

    # --- arrival

    def wait(self, stored: Stored, came: str, sender: str = "") -> Copy | None:
        """A bundle for one place: let it wait in its queue, and go on if it can. None: it was dropped."""
        place = self.custody.queue(stored.header.destination)
        if not stored.row and not self.takes_volatile(place):
            self._send_volatile_to_one(stored, place, came)
            return None
        copy = self.custody.add(stored, place, came, self.moment.now)
        if sender and stored.row:
            copy.note = sender
            self.custody.sent(place, sender, stored.header.count)
        place.waiting.append(copy)
        self.holds.check(place, came)
        self.dispatch(place)
        return copy

    def takes_volatile(self, place: Place) -> bool:
        """What is not persistent waits for readers that are here, and in memory only: so not for many."""
        return bool(place.readers) and place.size < self.settings.cache_bytes

    def let_volatile_go(self, place: Place) -> None:
        """The last reader has gone: what is not persistent goes on at once, or not at all."""
        if place.readers:
            return
        for copy in place.waiting.take_out(lambda copy: not copy.stored.row):
            if place.destination is not None and not copy.done:
                self._send_volatile_to_one(copy.stored, place, copy.came)
            else:
                self.counters["volatile_dropped"] += copy.open
            self.custody.discard(copy)

    def _send_volatile_to_one(self, stored: Stored, place: Place, came: str) -> None:
        targets = self.targets(place)
        if not targets:
            self.look_for(place)
        for name in sorted(targets):
            if name != came and self.send_volatile(self.neighbours[name], stored):
                return
        self.counters["volatile_dropped"] += stored.header.count
        self.custody.trace.dropped(stored.header, "nobody takes it now, and it is not persistent")

    def send_volatile(self, neighbour: Neighbour, stored: Stored) -> bool:
        """Send without a number, if the link is up and not blocked; nothing is kept."""
        if neighbour.link is None or not neighbour.has_room or stored.body is None:
            return False
        if is_too_large(stored, neighbour):
            return False
        neighbour.link.send_volatile(stored.head, stored.body)
        self.went(stored.header.destination, neighbour.name, stored.header.count)
        self._count_out(neighbour, 1, stored.header.count)
        self.custody.trace.sent_volatile(stored.header, neighbour.name)
        return True

    # --- going on

    def dispatch(self, place: Place) -> None:
        """Something changed for this place: let go on what can."""
        if not (place.waiting or place.resting) or place is self.custody.dead:
            return
        if place.readers:
            self._turn(place, Spool.UP)
            if place.resting:
                place.end_rest()
            self.deliver(place)
            return
        if self.static.aliases and readdressed(self, place):
            return
        targets = self.targets(place)
        if not targets:
            self.look_for(place)
            if self.static.dumpster and dumped(self, place):
                return
        if place.resting and targets != place.targets:
            place.end_rest()
        place.targets = targets
        self._turn(place, self._way(targets))
        for name in self._in_turn(place):
            neighbour = self.neighbours[name]
            neighbour.want(place)
            if neighbour.up:
                self.pump(neighbour)

    def spool_of(self, place: Place) -> Spool:
        """Where messages go that enter here and wait in a queue."""
        return Spool.UP if place.readers else self._way(self.targets(place))

    def _way(self, targets: frozenset[str]) -> Spool:
        return Spool.DOWN if targets and targets.isdisjoint(self.parents) else Spool.UP

    def _turn(self, place: Place, spool: Spool) -> None:
        if place.spool is not spool and place.destination is not None:
            self.custody.spools.turn(place, spool)

    def _in_turn(self, place: Place) -> Iterable[str]:
        """The neighbours that may take these copies: the least loaded first, equals in turn."""
        if len(place.targets) < 2:
            return place.targets
        names = sorted(place.targets)
        place.turn += 1
        first = place.turn % len(names)
        return sorted(names[first:] + names[:first], key=lambda name: len(self.neighbours[name].outbox))

    def pump(self, neighbour: Neighbour) -> None:
        """Fill the outbox as far as its window allows, one bundle of each place in turn.

        What may not go back to this neighbour may go to others that want it as well: these come next.
        """
        self._fill(neighbour)
        while self._woken:
            _, other = self._woken.popitem()
            self._fill(other)

    def _fill(self, neighbour: Neighbour) -> None:
        while neighbour.wants and neighbour.has_room:
            place = neighbour.wants.popleft()
            neighbour.wanting.discard(place.name)
            if neighbour.name not in place.targets or (place.readers and place.destination):
                continue
            if place.destination and neighbour.holds(place.destination):
                continue
            copy = self._next_for(neighbour, place)
            if copy is None:
                continue
            self._assign(self._back_to(copy, neighbour), copy)
            if place.held_back:
                self.holds.relieve(place)
            if place.waiting or (place.resting and len(place.targets) > 1):
                neighbour.want(place)

    def _back_to(self, copy: Copy, neighbour: Neighbour) -> Neighbour:
        """What goes back to a mesh goes to the very node that gave it, while that takes it."""
        giver = self.neighbours.get(copy.came)
        if giver is None or giver is neighbour or not copy.place.destination:
            return neighbour
        takes = giver.has_room and not giver.holds(copy.place.destination)
        return giver if takes and self.is_back(copy, neighbour) else neighbour

    def _next_for(self, neighbour: Neighbour, place: Place) -> Copy | None:
        """Take the first copy that this neighbour may have; what cannot go is put aside, if not too many."""
        buried = self.custody.buried.total()
        while copy := self._first_for(neighbour, place):
            if self.custody.buried.total() - buried > MOST_BURIED:
                place.waiting.add(copy)
                self.moment.after(PAUSE, partial(self.dispatch, place))
                return None
            if self.expired(copy):
                self.bury(copy, "EXPIRED")
            elif is_too_large(copy.stored, neighbour):
                self.bury(copy, "TOO_LARGE")
            elif place.destination and not copy.backed_off and self.is_back(copy, neighbour):
                self._rest(copy, neighbour)
            elif copy.row < place.swept and (why := self._why_not(copy, neighbour)):
                neighbour.refusals.add(why, copy.open)
                self.bury(copy, why)
            elif why := self.why_not_now(copy):
                self.bury(copy, why)
            elif not place.destination and neighbour.holds(copy.stored.header.destination):
                place.resting[copy.row] = copy
            else:
                return copy
        return None

    @staticmethod
    def _why_not(copy: Copy, neighbour: Neighbour) -> str:
        """Why a child may not have what waited for it while its permit changed; '' if it may."""
        destination = copy.stored.header.destination
        return "" if destination.node else neighbour.permit.why_not_take(destination)

    def _first_for(self, neighbour: Neighbour, place: Place) -> Copy | None:
        """What rests, so that it does not go back to another one, comes before what waits."""
        if place.resting and len(place.targets) > 1:
            for copy in islice(place.resting.values(), _LOOK_THROUGH):
                if not self.is_back(copy, neighbour):
                    return place.resting.pop(copy.row)
        full = len(place.resting) >= _MOST_RESTING
        return place.waiting.popleft() if place.waiting and not full else None

    def _rest(self, copy: Copy, neighbour: Neighbour) -> None:
        """Keep a copy that would go back where it came from for a while, or until a reader comes."""
        place = copy.place
        place.resting[copy.row] = copy
        for other in self._others(place, neighbour):
            other.want(place)
            self._woken[other.name] = other
        delay = min(_FIRST_REST * 2 ** min(copy.stored.header.reroutes, 20), _LONGEST_REST)
        self._let_rest(place, neighbour, [copy], delay)

    def _others(self, place: Place, neighbour: Neighbour) -> list[Neighbour]:
        """Who else can take these copies now."""
        names = (name for name in place.targets if name != neighbour.name)
        return [self.neighbours[name] for name in names if self.neighbours[name].up]

    def _let_rest(self, place: Place, neighbour: Neighbour, copies: list[Copy], delay: float) -> None:
        due = int((self.moment.now + delay) / _FIRST_REST) + 1
        key = place.name, neighbour.name, due
        together = self._rests.setdefault(key, [])
        together += copies
        if len(together) == len(copies):
            wake = partial(self._wake, key, place, neighbour, delay)
            self.moment.after(due * _FIRST_REST - self.moment.now, wake)

    def _wake(self, key: tuple[str, str, int], place: Place, neighbour: Neighbour, delay: float) -> None:
        """They have rested. While others can take them they do not go back, however slow those are.

        One that has left memory meanwhile, and rests again, is another object.
        """
        rows = dict.fromkeys(each.row for each in self._rests.pop(key))
        copies = [place.resting[row] for row in rows if row in place.resting]
        if copies and self._others(place, neighbour):
            self._let_rest(place, neighbour, copies, min(2 * delay, _LONGEST_REST))
            return
        for each in copies:
            del place.resting[each.row]
            route_key = each.stored.header.destination.route_key
            each.backed_off = not (neighbour.name in self.parents and self.offered_up(route_key))
        place.put_back(copies)
        self.dispatch(place)

    def _assign(self, neighbour: Neighbour, copy: Copy) -> None:
        if copy.place.destination and self._goes_back(copy, neighbour):
            header = copy.stored.header
            header.reroutes += 1
            header.flags |= Flag.REROUTED
            copy.backed_off = False
            self.counters["rerouted"] += header.count
            self.custody.trace.happened(REROUTED, copy, EVERY, neighbour.name)
            self.custody.header_changed(copy.stored)
        if copy.deliveries or (self.meshed and self._may_be_elsewhere(copy)):
            self.flag(copy.stored, Flag.MAYBE_DUPLICATE)
        if copy.note:
            self.custody.sent(copy.place, copy.note, -copy.open)
            copy.note = ""
        self.parted(copy)
        self.went(copy.place.destination or copy.stored.header.destination, neighbour.name, copy.open)
        self.custody.move(copy, neighbour.place)
        if not neighbour.outbox:
            neighbour.progress_at = self.moment.now
        neighbour.number(copy)
        self.touched[neighbour.name] = neighbour

    def _goes_back(self, copy: Copy, neighbour: Neighbour) -> bool:
        """To where it came from; or up, though it came down from a parent that is ours no more."""
        if self.is_back(copy, neighbour):
            return True
        return neighbour.name in self.parents and bool(copy.came) and copy.came not in self.neighbours

    def _may_be_elsewhere(self, copy: Copy) -> bool:
        """Has its sender lost its line to this node since? Then it may have sent the same over another."""
        sender = self.neighbours.get(copy.came)
        return sender is not None and copy.since <= sender.broken_at

    def send_committed(self, neighbour: Neighbour) -> None:
        """Put on the link what has its number on disk."""
        link = neighbour.link
        if link is None:
            return
        ready, messages = neighbour.sendable(), 0
        self.custody.trace.sent(ready, neighbour.name)
        for copy in ready:
            body = self.custody.body(copy)
            link.send_bundle(copy.number, head_of(copy, self.moment.now), body)
            if neighbour.relation is Relation.CHILD:
                self.gave(neighbour, copy.stored.header, body)
            messages += copy.open
        self._count_out(neighbour, len(ready), messages)

    def _count_out(self, neighbour: Neighbour, count: int, messages: int) -> None:
        neighbour.counters["out"] += messages
        neighbour.counters["out_bundles"] += count
        self.counters["out"] += messages

    def outgoing(self, copy: Copy) -> Header:
        return outgoing(copy, self.moment.now)

    # --- other ways

    def requeue(self, copy: Copy, flags: int = 0) -> None:
        """Let a copy wait in its queue again: its link will not take it any more."""
        self.flag(copy.stored, flags)
        self.custody.trace.happened(REROUTED, copy, EVERY, "")
        place = self.custody.queue(copy.stored.header.destination)
        self.custody.move(copy, place)
        place.waiting.add(copy)
        self.dispatch(place)

    # --- routes

    def route_changed(self, key: Destination) -> None:
        """A route came, went, woke or fell asleep: what waits for it is routed again."""
        if key.kind == Kind.QUEUE:
            place = self.custody.places.get(f"queue:{key.name}")
            if place is not None:
                self.dispatch(place)
        elif key.kind == Kind.DOMAIN:
            for place in list(self.custody.directed.get(key.name, {}).values()):
                self.dispatch(place)
