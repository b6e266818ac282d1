"""Delivery: what waits in a place goes to the readers that this node has there, as far as their credit goes.

Law: what is persistent is on disk before it is given, or upstream has it; so is that it may have been given.
What has expired is not. What comes after something that was made later is late: it is flagged and counted.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from broker.core.custody import Copy, Custody, Place, Stored
from broker.core.holds import Holds
from broker.core.lookup import Lookup
from broker.core.moment import Moment
from broker.core.neighbours import Neighbour
from broker.core.order import Order
from broker.core.readers import Given, Reader, next_run
from broker.core.settings import CoreSettings
from broker.core.trials import SUSPECTED, Trials, tries
from broker.core.turn import Turn
from treeconnector import bundles
from treeconnector.bundles import Flag
from treeconnector.destinations import Destination
from treeconnector.errors import FrameError
from treeconnector.names import LOCAL
from treeconnector.routes import RoutingTable

_AHEAD: Final = 32
MOST_BURIED: Final = 10_000
PAUSE: Final = 0.001
"""Of a long backlog whose time is over so many become dead letters at once; others have turns between."""


class Delivery(Lookup):
    """Of one node: see `forwarding.Forwarder`, which is what there is to use.

    `transfers_known`: those who have a transfer id below it have it on disk. `numbered_now`: ids that the
    commit has just brought, for what is given next; no answer can have told a higher one yet. `went` is told
    how many messages to which destination go through which gateway.
    """

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
        super().__init__(node, custody, table, neighbours)
        self.settings = settings
        self.moment = moment
        self.counters = counters
        self.turn = Turn()
        self.order = Order()
        self.next_transfer = self.transfers_known = 1
        self.numbered_now = range(0)
        self.trials = Trials(moment, lambda place: self.deliver(place))
        self.finished: Callable[[Copy], None] = lambda copy: None
        self.why_not_now: Callable[[Copy], str] = lambda copy: ""
        self.went: Callable[[Destination, str, int], None] = lambda destination, gateway, messages: None
        self.holds = Holds(settings, custody, neighbours, self.bury)

    def flag(self, stored: Stored, flags: int) -> None:
        """Tell all later nodes, and keep it on disk."""
        header = stored.header
        if flags & ~header.flags:
            header.flags |= flags
            self.custody.header_changed(stored)

    # --- readers

    def deliver(self, place: Place) -> None:
        """Give what waits to the readers, as far as their credit goes; readers are served in turn."""
        buried = self.custody.buried.total()
        while place.waiting:
            copy = place.waiting[0]
            if copy.stored.header.expires_first and self.custody.buried.total() - buried > MOST_BURIED:
                self.moment.after(PAUSE, partial(self.deliver, place))
                return
            if not copy.stored.safe:
                self.turn.places[place.name] = place
                return
            if copy.stored.header.expires_first and self._drop_expired(copy):
                continue
            before = place.turn
            suspected = copy.deliveries >= SUSPECTED
            reader = self._reader_with_room(place, suspected)
            if reader is None:
                if suspected:
                    self.trials.await_idle(place)
                return
            if reader.connection is not None and not self._known_on_disk(copy):
                place.turn = before
                self.turn.places[place.name] = place
                return
            if why := self.why_not_now(copy):
                place.waiting.popleft()
                self._bury_rest(copy, why)
                continue
            alone = suspected and tries(reader)
            position, count = next_run(copy, 1 if alone else reader.room)
            if count and not self._give(copy, reader, position, count):
                place.waiting.popleft()
                self.bury(copy, "UNREADABLE")
                continue
            if count and alone:
                first = copy.transfer + position
                self.trials.begin(reader.session.desk.within(first, first)[0])
            if not count or copy.given | copy.done == copy.all:
                place.waiting.popleft()
        if place.held_back:
            self.holds.relieve(place)

    def _reader_with_room(self, place: Place, suspected: bool) -> Reader | None:
        readers = place.readers
        for _ in readers:
            place.turn = (place.turn + 1) % len(readers)
            reader = readers[place.turn]
            if reader.room > 0 and not (suspected and not self.trials.may_have(reader)):
                return reader
        return None

    def _known_on_disk(self, copy: Copy) -> bool:
        """Would a start after a crash know that this may have been given? By its row; or it comes again."""
        if 0 < copy.transfer < self.transfers_known:
            return True
        return not copy.stored.row or copy.stored.row in self.custody.fresh

    def number(self, place: Place) -> None:
        """What readers are about to be given gets its transfer ids in this transaction, and a little more."""
        room = next((room for room in (reader.room_ahead for reader in place.readers) if room > 0), 0)
        messages = 0
        for count, copy in enumerate(place.waiting):
            if not room or (count >= _AHEAD and messages >= room):
                return
            messages += copy.open
            if not copy.transfer and copy.stored.row:
                self._number(copy)
                self.custody.changed(copy)

    def _number(self, copy: Copy) -> None:
        """Give it its transfer ids, and see whether it is late."""
        copy.transfer = self.next_transfer
        self.next_transfer += copy.stored.header.count
        if copy.came and self.order.is_late(copy.stored.header, copy.place.name):
            self.flag(copy.stored, Flag.REROUTED)
            self.counters["out_of_order"] += copy.open

    def _give(self, copy: Copy, reader: Reader, position: int, count: int) -> bool:
        """Hand a slice over. False: what came here as this bundle's body is no such thing."""
        known = copy.transfer > 0 and copy.transfer not in self.numbered_now
        if not copy.transfer:
            self._number(copy)
            self.custody.changed(copy)
        first, at = copy.transfer + position, self.custody.trace.clock()
        given = Given(first, position, count, copy, reader, at, known)
        try:
            reader.give(given, self.custody.body(copy))
        except FrameError:
            return False
        copy.given |= given.bits
        self.went(copy.place.destination or copy.stored.header.destination, LOCAL, count)
        self.custody.trace.delivered(given)
        if reader.session.token:  # the node itself has none
            self.counters["delivered"] += count
        return True

    # --- expiry

    def expired(self, copy: Copy) -> bool:
        """Have all its messages expired?"""
        last = copy.stored.header.expires_last
        return bool(last) and (self.moment.now - copy.stored.since) * 1000 >= last

    def _drop_expired(self, copy: Copy) -> bool:
        """Bury the expired messages of a copy that is about to be given. True if none is left to give.

        A header cannot say that no time is left, so the last millisecond counts as over.
        """
        header = copy.stored.header
        elapsed = (self.moment.now - copy.stored.since) * 1000 + 1
        if elapsed < header.expires_first:
            return False
        try:
            messages = bundles.unpack(header, self.custody.body(copy))
        except FrameError:
            return False
        times = [max(message.properties.expires_in, 0) for message in messages]
        gone_before = min(filter(None, times), default=0) - header.expires_first
        over = sum(1 << i for i, time in enumerate(times) if time and time - gone_before <= elapsed)
        over &= ~(copy.done | copy.given)
        if not over:
            return False
        gone = self.bury_part(copy, over, "EXPIRED")
        if gone or copy.given | copy.done == copy.all:
            copy.place.waiting.popleft()
            return True
        return False

    def parted(self, copy: Copy) -> None:
        """A copy goes from here, or is dead: what was dealt with of a queue's is known from now on."""
        if copy.done and copy.place.keeps and copy.place.destination:
            self.finished(copy)

    def bury(self, copy: Copy, reason: str) -> None:
        """What is left of a copy goes to the dead letters. The caller takes it from `waiting`."""
        self.parted(copy)
        self.custody.bury(copy, reason)

    def _bury_rest(self, copy: Copy, reason: str) -> None:
        """As `bury`, but for what readers have already. The caller takes it from `waiting`."""
        if copy.given:
            self.bury_part(copy, copy.all & ~(copy.done | copy.given), reason)
        else:
            self.bury(copy, reason)

    def bury_part(self, copy: Copy, bits: int, reason: str) -> bool:
        """Some messages of a copy go to the dead letters. True if that was all that was left of it."""
        dead = self.custody.add(copy.stored, copy.place, copy.came, self.moment.now)
        others = dead.all & ~bits
        dead.place.messages -= (others & ~dead.done).bit_count()
        dead.place.tally.entered -= dead.open
        dead.done, dead.deliveries = others, copy.deliveries
        self.custody.bury(dead, reason)
        gone = self.custody.mark_done(copy, bits)
        if gone:
            self.finished(copy)
        return gone
