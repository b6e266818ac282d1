"""Following: topics' messages go after a node that moved, and whatever waited for a neighbour that has gone.

An *heir* is a node that is to have the messages in some queues: those for all below a child, once the node is
below that child no more; those on their way up, once the node is below a child where it was not. The heirs of
the same queues make a *trail*. It is gone along a part at a time, for the oldest heirs together.

Law: no entry leaves a queue before its heirs have it. `must_stay` is asked first, for each entry whose row is
below `Queue.unfollowed`; an entry that a peer has acknowledged by then waits once more, marked. One moment
has room for `PART` heirs, whoever asks. A trail is on disk from the end of its first part on; after a kill it
goes on there, and the part that was not committed is done again, marked *maybe-duplicate*.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec

from broker.core.clock import PART
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.links.outgoing import outgoing
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.queue_names import UNDECIDED, UPWARD
from broker.core.messages.summaries import PAGE
from broker.core.neighbours.heirs import TOGETHER, Gone, Heir, Trail, inherits
from broker.core.policy import Policy
from broker.core.routing.arrivals import Arrivals
from broker.core.routing.forwarding import Forwarder
from broker.core.routing.upward import Upward
from broker.core.rows import MetaRow
from sapwood.protocol.bundles import Flag, Header
from sapwood.protocol.destinations import Destination, Kind, domain
from treeconnector import link_events as events
from treeconnector.relations import Relation

HEIR: Final = "following heir "
AT: Final = "following at "
GONE: Final = "following gone "
_ROWS: Final = PART - PAGE
_LINK: Final = "link:"


class Following(Policy):
    """Of one node."""

    def __init__(
        self, context: Context, forwarder: Forwarder, lookup: Lookup, arrivals: Arrivals, upward: Upward
    ) -> None:
        self._context = context
        self._upward = upward
        self._forwarder = forwarder
        self._lookup = lookup
        self._arrivals = arrivals
        self._trails: dict[str, Trail] = {}
        self._number = 0
        self._gone: dict[Queue, Gone] = {}
        self._moment = -1.0
        self._room = 0

    def __repr__(self) -> str:
        return f"<Following at {self._context.name}: {len(self._trails)} trails, {len(self._gone)} gone>"

    @property
    def is_busy(self) -> bool:
        return bool(self._trails or self._gone)

    # --- who inherits

    def left(self, child: Neighbour, name: str) -> None:
        """A node is below a child no more: what topics have there for it follows it."""
        self._add(child.queue.name, [name], child.name)

    def caught_up(self, child: Neighbour, names: Sequence[str]) -> None:
        """Nodes that were not below a child are now: what topics have on its way up from here may meet them
        nowhere else, for the word of their coming goes before it, and ends the way that they had before.
        """
        if names:
            self._add(UPWARD, names, child.name)

    def _add(self, key: str, names: Iterable[str], child: str) -> None:
        """Heirs of all that is in these queues now. One that waits for its turn has it once, for more."""
        queues = [queue for queue in self._queues(key) if queue.messages]
        if not queues:
            return
        end = self._context.custody.next_row
        for queue in queues:
            queue.unfollowed = end
        trail = self._trails.get(key)
        found = trail or Trail(key)
        for name in names:
            if (name, child) not in found.waiting:
                self._number += 1
                found.waiting[name, child] = self._number
            number = found.waiting[name, child]
            found.put(number, Heir(key, name, child, end))
            if trail is not None:
                self._keep_heir(found, number)
        if trail is None:
            self._trails[key] = found
            self._go_along(key)

    def _queues(self, key: str) -> list[Queue]:
        """The queues of a trail, by name: on its way up, or for whoever is at a child and below it."""
        context, queues = self._context, self._context.custody.queues
        gone = [queue for queue in self._gone if self._key(queue) == key]
        if key == UPWARD:
            found = [parent.queue for parent in context.parents.values()]
            found += self._upward.waiting.values()
            found += [queues[UPWARD]] if UPWARD in queues else []
        else:
            directed = context.custody.directed.get(key.removeprefix(_LINK), {})
            found = [queue for queue in directed.values() if _is_of_a_topic(queue)]
            found += [queues[key]] if key in queues else []
        return sorted(dict.fromkeys([*found, *gone]), key=attrgetter("name"))

    def _key(self, queue: Queue) -> str:
        if queue.destination is not None:
            return f"{_LINK}{queue.destination.node}"
        gone = self._gone.get(queue)
        is_parents = queue.name.removeprefix(_LINK) in self._context.parents
        if _goes_up(queue) or (gone.relation is Relation.PARENT if gone is not None else is_parents):
            return UPWARD
        return queue.name

    # --- a part at a time

    def _go_along(self, key: str) -> None:
        """The next rows, for the oldest heirs."""
        trail = self._trails.get(key)
        if trail is None:
            return
        if not trail.last:
            trail.begin()
        numbered = islice(trail.heirs.items(), TOGETHER)
        heirs = [(number, heir, self._ways(heir)) for number, heir in numbered if number <= trail.last]
        room = _ROWS
        for queue, entry in self._ahead(trail, max(heir.end for _, heir, _ in heirs)):
            trail.at = queue.name, entry.row
            if room <= 0:
                self._later(trail)
                return
            done = trail.served.get(entry.row, 0)
            left = ((heir, ways) for number, heir, ways in heirs if number > done)
            room -= 1 + self._give(entry, left)
        self._pass_over(trail)
        if trail.heirs:
            self._later(trail)
        else:
            self._end(trail)

    def _ahead(self, trail: Trail, end: int) -> Iterator[tuple[Queue, QueueEntry]]:
        name, row = trail.at
        for queue in self._queues(trail.key):
            if queue.name >= name:
                for entry in self._all_in(queue, row if queue.name == name else 0):
                    if entry.row >= end:
                        break
                    yield queue, entry

    def _all_in(self, queue: Queue, first: int) -> Iterator[QueueEntry]:
        """All that waits or rests there, or is numbered for its link, in order and from a row on."""
        neighbour = self._context.neighbours.get(queue.name.removeprefix(_LINK))
        there = list(queue.resting.values())
        if neighbour is not None and neighbour.queue is queue:
            there += neighbour.outbox
        ahead = sorted((entry for entry in there if entry.row >= first), key=attrgetter("row"))
        return merge(queue.waiting.look(first), ahead, key=attrgetter("row"))

    def _later(self, trail: Trail) -> None:
        for number in trail.heirs:
            if number > trail.kept:
                self._keep_heir(trail, number)
        at = msgspec.msgpack.encode((trail.last, *trail.at))
        self._context.custody.transaction.put(MetaRow(f"{AT}{trail.key}", at))
        self._context.clock.go_on((self._go_along, trail.key), partial(self._go_along, trail.key))

    def _keep_heir(self, trail: Trail, number: int) -> None:
        row = MetaRow(f"{HEIR}{number}", msgspec.msgpack.encode(trail.heirs[number]))
        self._context.custody.transaction.put(row)
        trail.kept = max(trail.kept, number)

    def _pass_over(self, trail: Trail) -> None:
        transaction = self._context.custody.transaction
        for number in [number for number in islice(trail.heirs, TOGETHER) if number <= trail.last]:
            del trail.heirs[number]
            if number <= trail.kept:
                transaction.delete(MetaRow, f"{HEIR}{number}")
        trail.last, trail.at = 0, ("", 0)

    def _end(self, trail: Trail) -> None:
        del self._trails[trail.key]
        if trail.kept:
            self._context.custody.transaction.delete(MetaRow, f"{AT}{trail.key}")
        for queue in self._queues(trail.key):
            queue.unfollowed = 0
        for neighbour in list(self._context.neighbours.values()):
            if not neighbour.up and self._key(neighbour.queue) == trail.key:
                self._context.policies.tell(Policy.waits_for_lost, neighbour)

    def must_stay(self, entry: QueueEntry) -> bool:
        """Before an entry leaves its queue: has each heir got it? If that takes too long, it is to stay."""
        if entry.stored.header.destination.kind != Kind.TOPIC:
            return False
        queue = entry.queue
        trail = self._trails.get(self._key(queue))
        if trail is None:
            return False
        done = trail.served.get(entry.row, 0)
        for number, heir in trail.heirs.items():
            if number <= done or trail.has(number, queue.name, entry.row):
                continue
            if not self._has_room():
                return True
            self._give(entry, ((heir, self._ways(heir)),))
            trail.served[entry.row] = number
        return False

    def _forget(self, entry: QueueEntry) -> None:
        """It is in its queue no more, nor on its way from there."""
        if (trail := self._trails.get(self._key(entry.queue))) is not None:
            trail.served.pop(entry.row, None)

    def waits_again(self, entry: QueueEntry) -> bool:
        """A peer has acknowledged an entry that is to stay: it goes there once more."""
        if not self.must_stay(entry):
            self._forget(entry)
            return False
        queue, forwarder = entry.queue, self._forwarder
        entry.number = 0
        self._context.custody.flag(entry.stored, Flag.MAYBE_DUPLICATE)
        self._context.custody.changed(entry)
        queue.waiting.add(entry)
        self._context.clock.go_on((forwarder.dispatch, queue), partial(forwarder.dispatch, queue))
        return True

    def _has_room(self) -> bool:
        """For so many heirs in one moment."""
        if self._moment != self._context.clock.now:
            self._moment, self._room = self._context.clock.now, PART
        self._room -= 1
        return self._room >= 0

    # --- one entry

    def _ways(self, heir: Heir) -> set[str]:
        """The other ways to one that has left."""
        return self.elsewhere(heir.child, heir.name) if heir.has_left else set()

    def _give(self, entry: QueueEntry, heirs: Iterable[tuple[Heir, set[str]]]) -> int:
        """To each heir whose it is. Returns to how many."""
        destination, table = entry.stored.header.destination, self._context.table
        if destination.kind != Kind.TOPIC or not entry.stored.row:
            return 0
        matched, count = table.match(destination.name).gateways, 0
        for heir, ways in heirs:
            if entry.row < heir.end and inherits(heir, entry, matched, ways):
                self.follow(entry, heir.name, Flag.MAYBE_DUPLICATE)
                count += 1
        return count

    def elsewhere(self, child: str, name: str) -> set[str]:
        """The other ways to a name; what nodes of the mesh say of their lines is none."""
        table = self._context.table
        return set(table.gateways(domain(name))).difference((child, *table.mesh))

    def follows_node(self, entry: QueueEntry) -> None:
        """An entry for a child was handed over: nodes that have left it meanwhile are to have it too, those
        included that it was told of and still offers: it may let go of them before this entry is there.
        """
        destination = entry.stored.header.destination
        child = self._context.neighbours.get(destination.node)
        if child is None or child.relation is not Relation.CHILD or not entry.stored.row:
            return
        for name in (*child.former, *sorted(child.untold.keys() - child.former.keys())):
            matched = self._context.table.match(destination.name).gateways
            if not matched.isdisjoint(self.elsewhere(child.name, name)):
                self.follow(entry, name, Flag.MAYBE_DUPLICATE)

    def follow(self, entry: QueueEntry, node: str, flags: int) -> None:
        """A topic's entry goes after a node that moved, or that another node of the mesh has a line to."""
        custody, now = self._context.custody, self._context.clock.now
        old = outgoing(entry, self._context.clock.now)
        header = Header(
            id=old.id,
            destination=Destination(Kind.TOPIC, old.destination.name, node),
            scope=old.scope,
            flags=old.flags | flags | Flag.REROUTED,
            count=old.count,
            size=old.size,
            origin_store=old.origin_store,
            origin=old.origin,
            expires_first=old.expires_first,
            expires_last=old.expires_last,
            reroutes=old.reroutes,
            done=old.done,
            start=old.start,
        )
        body = custody.peek(entry)  # one that somebody only looks at would keep it for ever
        assert body is not None, f"the store lacks the body of {entry}"
        stored = custody.store(header, body, now)
        stored.safe = True
        self._arrivals.wait(stored, "")

    # --- a neighbour that is gone

    def link_up(self, neighbour: Neighbour, up: events.LinkUp) -> None:
        if neighbour.relation is Relation.PARENT:
            self._adopt()

    def _adopt(self) -> None:
        """A parent has come: messages that topics have for it, since before there was one, go to it."""
        queue = self._context.custody.queues.get(UPWARD)
        if queue is not None and queue.waiting and queue not in self._gone and self._context.parents:
            self._gone[queue] = Gone(Relation.PARENT, False)
            self._empty(queue)

    def decided(self, queue: Queue, *, wanted: bool) -> None:
        """It is known now whether anybody above wants what waits here: it goes up, or nowhere."""
        is_going = queue in self._gone
        self._gone[queue] = Gone(Relation.PARENT, False, wanted)
        if not is_going:
            self._empty(queue)

    def scatter(self, neighbour: Neighbour, numbered: Iterable[QueueEntry], *, moved: bool) -> None:
        """A neighbour is none any more: what waited for it is routed again.

        `numbered`: what has no number any more, but may have arrived there.
        """
        custody, queue = self._context.custody, neighbour.queue
        waiting: list[QueueEntry] = []
        for entry in numbered:
            if entry.stored.header.destination.kind == Kind.QUEUE:
                self._forwarder.requeue(entry, Flag.MAYBE_DUPLICATE | Flag.REROUTED)
            else:
                self._context.custody.flag(entry.stored, Flag.MAYBE_DUPLICATE)
                custody.changed(entry)
                waiting.append(entry)
        queue.waiting.put_back(waiting)
        queue.end_rest()
        queue.targets = frozenset()
        custody.queues.pop(queue.name, None)
        self._gone[queue] = Gone(neighbour.relation, moved)
        self._empty(queue)

    def _empty(self, queue: Queue) -> None:
        gone, touched = self._gone[queue], dict[Queue, None]()
        for _ in range(min(_ROWS, len(queue.waiting))):
            if queue.name == UPWARD and not self._context.parents:
                break
            entry = queue.waiting.popleft()
            if entry.row < queue.unfollowed and self.must_stay(entry):
                queue.waiting.add(entry)
                break
            self._forget(entry)
            self._route_again(entry, queue, gone, touched)
        for each in touched:
            self._forwarder.dispatch(each)
        if queue.waiting and (queue.name != UPWARD or self._context.parents):
            self._keep_gone(queue, gone)
            self._context.clock.go_on((self._empty, queue), partial(self._empty, queue))
            return
        del self._gone[queue]
        if queue.name.startswith(UNDECIDED):
            self._upward.has_left(queue)
        if all(other.name != queue.name for other in self._gone):
            self._context.custody.transaction.delete(MetaRow, f"{GONE}{queue.name}")

    def _keep_gone(self, queue: Queue, gone: Gone) -> None:
        if not _goes_up(queue):
            row = MetaRow(f"{GONE}{queue.name}", msgspec.msgpack.encode(gone))
            self._context.custody.transaction.put(row)

    def _route_again(self, entry: QueueEntry, queue: Queue, gone: Gone, touched: dict[Queue, None]) -> None:
        context, forwarder = self._context, self._forwarder
        destination = entry.stored.header.destination
        if not gone.wanted:
            context.counters["unmatched"] += entry.open
            context.custody.trace.dropped(entry.stored.header, "no subscriber")
            context.custody.discard(entry)
            return
        if destination.kind == Kind.QUEUE or destination.node:
            forwarder.requeue(entry, Flag.REROUTED)
            return
        if gone.relation is Relation.PARENT:
            parent = self._lookup.parent_for(destination)
            upward = parent.queue if parent is not None else context.custody.queue_named(UPWARD)
            context.custody.move(entry, upward)
            upward.waiting.add(entry)
            touched[upward] = None
            return
        if gone.moved:
            self.follow(entry, queue.name.removeprefix(_LINK), Flag.MAYBE_DUPLICATE)
        else:
            context.counters["unsubscribed"] += entry.open
        context.custody.discard(entry)

    # --- start

    def restore(self, meta: Mapping[str, bytes]) -> None:
        """Take up the unfinished work of the last start."""
        for name, value in meta.items():
            if name.startswith(HEIR):
                number, heir = int(name.removeprefix(HEIR)), msgspec.msgpack.decode(value, type=Heir)
                self._trails.setdefault(heir.trail, Trail(heir.trail)).heirs[number] = heir
            elif name.startswith(GONE):
                queue = self._context.custody.queue_named(name.removeprefix(GONE))
                self._gone[queue] = msgspec.msgpack.decode(value, type=Gone)
        for key, trail in self._trails.items():
            trail.heirs = dict(sorted(trail.heirs.items()))
            trail.kept = max(trail.heirs)
            self._number = max(self._number, trail.kept)
            if at := meta.get(f"{AT}{key}"):
                trail.last, name, row = msgspec.msgpack.decode(at, type=tuple[int, str, int])
                trail.at = name, row

    def was_neighbour(self, queue: str) -> bool:
        """Did it wait for a neighbour that is gone, and is it still to be routed?"""
        return any(each.name == queue for each in self._gone)

    def begin(self) -> None:
        """All is there again: go on, but not for a neighbour that has come back."""
        context = self._context
        for queue in list(self._gone):
            if queue.name.removeprefix(_LINK) in context.neighbours:
                del self._gone[queue]
                context.custody.transaction.delete(MetaRow, f"{GONE}{queue.name}")
            else:
                context.custody.queues.pop(queue.name, None)
        for key, trail in list(self._trails.items()):
            for queue in self._queues(key):
                queue.unfollowed = max(heir.end for heir in trail.heirs.values())
            self._go_along(key)
        for queue in list(self._gone):
            self._empty(queue)
        self._adopt()


def _goes_up(queue: Queue) -> bool:
    """Do messages of topics wait here that are on their way up, and at no neighbour's link?"""
    return queue.name == UPWARD or queue.name.startswith(UNDECIDED)


def _is_of_a_topic(queue: Queue) -> bool:
    return queue.destination is not None and queue.destination.kind == Kind.TOPIC
