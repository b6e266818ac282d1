"""Telling a sender at once that nobody serves a queue, where it asked for that (`Flag.TELL`).

Law: only who is certain says so. The root knows all routes; any node knows who reads a queue that is
directed to it or at home on it; and one where a queue was made knows it once those above have told that
nobody reads it, which they do when they are certain themselves. All others pass the message on, or let it
wait. A route counts even when it is dormant or recovering, and for `linger` seconds after its consumer has
gone: a service that restarts is not nobody. The node that had the consumer waits for that before it withdraws
the route, and nobody waits again.
The root is not certain while a child sends its routes anew (silent for `reattach_time` at most),
nor after a start until all children it knew
have been here (`reattach_time` at most), nor while another root has been away for less than `dormant_after`.
Then the message waits, and is looked at again once a second.

A message that a consumer may have had waits for the service's successor as any message does.

The answer is a bundle of its own with `Flag.NOTICE`, which no client can set, in the transaction in which
the request goes. Wrinkle: a bundle is told of as a whole; if one of its messages names no `reply_to`, all
wait.
"""

import json
from functools import partial
from itertools import islice, takewhile
from typing import Final

from broker.core.clients.batching import Batching, BundleClass
from broker.core.clock import PART, Round
from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.pages import may_be_told
from broker.core.messages.queue import Queue, QueueEntry, StoredBundle
from broker.core.policy import Policy, first_reason
from sapwood.protocol import bundles, destinations
from sapwood.protocol.bundles import Flag, Message, Properties
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import FrameError, InvalidName
from sapwood.protocol.names import LOCAL, is_incarnation, node_name, queue_name
from treeconnector.advisories import GIVEN_BACK
from treeconnector.relations import Relation

NOBODY_SERVES: Final = "NOBODY_SERVES"
_ROUND: Final = 10
"""Seconds in which each of very many queues where a sender waits is looked at again."""
_MOST_GONE: Final = 100_000
"""Queues whose last route has just gone, for `linger`; of more the oldest are forgotten."""


class MandatoryNotices(Policy):
    """Answers for queues that nobody serves. `watched`: queues where a sender waits to be told."""

    __slots__ = (
        *("_batching", "_began", "_context", "_dispatcher", "_gone", "_gone_here", "_here", "_looks"),
        *("_lookup", "watched"),
    )

    def __init__(self, context: Context, lookup: Lookup, dispatcher: Dispatcher, batching: Batching) -> None:
        self._context = context
        self._lookup = lookup
        self._dispatcher = dispatcher
        self._batching = batching
        self._began = context.clock.now
        self._gone: dict[Destination, float] = {}
        self._gone_here: dict[Destination, float] = {}
        self._here: dict[Destination, None] = {}
        self.watched: dict[str, None] = {}
        self._looks = Round(context.clock, self.watched.keys, self._look_again, _ROUND)
        context.counters.setdefault("nobody_serves", 0)
        context.table.watch(self._route_changed)

    def __repr__(self) -> str:
        return f"<MandatoryNotices at {self._context.name} watched={len(self.watched)}>"

    def begin(self) -> None:
        """After a start: what waited before may be told now."""
        queues = self._context.custody.queues.values()
        self.watched.update((queue.name, None) for queue in queues if queue.waiting and queue.destination)

    def is_nobodys(self, destination: Destination) -> bool:
        queue = self._lookup.queue_of(self._lookup.address(destination))
        return self._decides(queue) and self._is_nobodys(queue) and self._is_certain(queue)

    def is_answered(self, stored: StoredBundle) -> bool:
        """A flagged bundle is here. True: its senders have their answer, it need not be kept."""
        queue = self._context.custody.queue_for(stored.header.destination)
        if not self._decides(queue):
            return False
        if not (self._is_nobodys(queue) and self._is_certain(queue)):
            self.watched[queue.name] = None
            return False
        had = stored.header.flags & Flag.MAYBE_DUPLICATE
        return not had and self._tell(stored, bundles.mask_bits(stored.header.done))

    def second_passed(self) -> None:
        """May those that wait be told by now?"""
        self._forget_long_gone()
        self._looks.second_passed()

    def _look_again(self, name: str) -> None:
        queue = self._context.custody.queues.get(name)
        if queue is None or not (queue.waiting or queue.resting):
            self.watched.pop(name, None)
        elif self._is_nobodys(queue) and self._is_certain(queue):
            self._context.clock.go_on((self._answer, queue), partial(self._answer, queue))

    def _answer(self, queue: Queue) -> None:
        """It has come to its turn. By now somebody may serve it."""
        if self._is_nobodys(queue) and self._is_certain(queue) and self.answer_waiting(queue):
            self.watched.pop(queue.name, None)

    def is_kept(self, queue: Queue) -> None:
        if queue.asking:
            self.watched[queue.name] = None

    def doomed(self, queue: Queue) -> None:
        self.answer_waiting(queue)

    def answer_waiting(self, queue: Queue) -> bool:
        """Answer what waits, so many at a time. True: there is no more to be answered."""
        custody = self._context.custody
        self._read_asking(queue)
        asking = [entry for entry in queue.waiting.warm if may_be_told(entry)]
        told: set[QueueEntry] = set()
        refused: dict[QueueEntry, str] = {}
        for entry in asking[:PART]:
            custody.body(entry)
            if why := first_reason(
                policy.why_not_go_on(entry) for policy in self._context.policies.why_not_go_on
            ):
                refused[entry] = why
            elif self._tell(entry.stored, entry.done):
                told.add(entry)
        queue.waiting.take_out(lambda entry: entry in told or entry in refused)
        for entry in told:
            custody.discard(entry)
        for entry, why in refused.items():
            self._dispatcher.bury(entry, why)
        return len(asking) <= PART and not any(page.tells for page in queue.waiting.pages)

    @staticmethod
    def _read_asking(queue: Queue) -> None:
        """Have some of those in memory that ask, if they are on disk alone."""
        read = 0
        for page in [page for page in queue.waiting.pages if page.tells]:
            if read < PART:
                read += len(page)
                queue.waiting.load(page)

    # --- who is certain

    def _stays_here(self, queue: Queue) -> bool:
        """Is it this node's own queue, whoever reads one of that name elsewhere?"""
        destination = queue.destination
        return destination is not None and (queue.home or destination.node in self._lookup.mine)

    def _decides(self, queue: Queue) -> bool:
        """Would a message wait in this queue here, and nowhere else?"""
        named = queue.destination is None or not is_incarnation(queue.destination.node)
        if self._stays_here(queue) or (named and not self._context.role.has_parent):
            return True
        return named and self._lookup.is_unread(queue)

    def _is_nobodys(self, queue: Queue) -> bool:
        """Is there no consumer, and no route to one, not even a dormant or recovering one?"""
        context, destination = self._context, queue.destination
        if destination is None or destination.kind != Kind.QUEUE or queue.consumers:
            return False
        if self._stays_here(queue):
            return context.table.route(destinations.queue(destination.name), LOCAL) is None
        return self._decides(queue) and not (
            destination.route_key in context.table or self._lookup.targets(queue)
        )

    def _is_certain(self, queue: Queue) -> bool:
        assert queue.destination is not None
        if self._stays_here(queue):
            return not self._is_recent(self._gone_here, queue.destination)
        return not (self.has_just_gone(queue.destination) or self.is_settling(Kind.QUEUE))

    def has_just_gone(self, destination: Destination) -> bool:
        return self._is_recent(self._gone, destination)

    def _is_recent(self, gone: dict[Destination, float], destination: Destination) -> bool:
        at = gone.get(destinations.queue(destination.name))
        return at is not None and self._context.clock.now - at < self._context.settings.linger

    def is_settling(self, kind: Kind) -> bool:
        return any(self._may_know_more(each, kind) for each in self._context.neighbours.values())

    def _may_know_more(self, neighbour: Neighbour, kind: Kind) -> bool:
        """Its routes are on their way to us, or it has not been here since our start; or it is of the mesh
        and has just gone, or has a line to a child that has none to this one: topics pass that child by.
        Of topics what a child says counts early only: one that never ends it could hold up all others'.
        """
        context, now = self._context, self._context.clock.now
        if neighbour.relation is Relation.MESH and not neighbour.up:
            away = now - max(neighbour.since, self._began)
            only_there = kind == Kind.QUEUE and bool(self._lookup.strangers)
            if only_there or away < context.settings.dormant_after:
                return True
        early = now - self._began < context.settings.reattach_time
        held, since = neighbour.held, max(neighbour.held.heard_at, neighbour.since)
        sends = held.in_snapshot and now - since < context.settings.reattach_time
        is_away = early and not neighbour.up and not neighbour.since
        return is_away or (sends and (early or kind == Kind.QUEUE))

    def _route_changed(self, key: Destination, cause: str, origin: str) -> None:
        if key.kind != Kind.QUEUE:
            return
        table, now = self._context.table, self._context.clock.now
        if key not in table:
            if cause == GIVEN_BACK or origin == self._context.name:
                self._gone.setdefault(key, now)
            if len(self._gone) > _MOST_GONE:
                del self._gone[next(iter(self._gone))]
        elif self._gone:
            self._gone.pop(key, None)
        if table.route(key, LOCAL) is not None:
            self._here[key] = None
            self._gone_here.pop(key, None)
        elif key in self._here:
            del self._here[key]
            self._gone_here[key] = now
            if len(self._gone_here) > _MOST_GONE:
                del self._gone_here[next(iter(self._gone_here))]

    def _forget_long_gone(self) -> None:
        old = self._context.clock.now - self._context.settings.linger
        for gone in (self._gone, self._gone_here):
            due = takewhile(lambda left: left[1] <= old, gone.items())
            for key, _ in list(islice(due, PART)):
                del gone[key]

    # --- the answer

    def _tell(self, stored: StoredBundle, done: int) -> bool:
        """Answer each message that is not dealt with. False: not all of them can be."""
        header = stored.header
        try:
            messages = bundles.unpack(header, stored.body or b"")
            answers = [
                (
                    _reply_queue(message.properties.reply_to),
                    self._notice(message.properties, header.destination),
                )
                for index, message in enumerate(messages)
                if not done >> index & 1
            ]
        except (FrameError, InvalidName):
            return False
        together: dict[Destination, list[Message]] = {}
        for where, notice in answers:
            together.setdefault(where, []).append(notice)
        for where, notices in together.items():
            kind = BundleClass(where, Flag.NOTICE | (header.flags & Flag.PERSISTENT), 0, "")
            self._batching.make(kind, notices)
        self._context.counters["nobody_serves"] += len(answers)
        self._context.custody.trace.dropped(header, NOBODY_SERVES)
        return True

    def _notice(self, asked: Properties, destination: Destination) -> Message:
        node = self._context.name
        text = f"nobody serves {destination}: node {node} knows of no reader in the whole tree"
        if is_incarnation(destination.node) and destination.node not in self._lookup.mine:
            text = (
                f"unknown incarnation: nobody serves {destination}, for that node has left or started again"
            )
        error = {
            "code": NOBODY_SERVES,
            "message": text,
            "data": {"destination": str(destination), "node": node},
        }
        properties = Properties(
            correlation_id=asked.correlation_id,
            task_id=asked.task_id,
            expires_in=max(asked.expires_in, 0),
            content_type="application/json",
            headers={"notice": NOBODY_SERVES},
        )
        return Message(json.dumps({"error": error}).encode(), properties)


def _reply_queue(reply_to: str) -> Destination:
    """Where an answer goes. Raises `InvalidName` if that is no queue."""
    name, at, node = reply_to.removeprefix("queue:").partition("@")
    return destinations.queue(queue_name(name), node_name(node) if at else "")
