"""Readdressing: messages wait in another queue from now on, under an alias's address or in the dumpster."""

from collections.abc import Callable
from functools import partial

from broker.core.clock import PART
from broker.core.context import Context
from broker.core.delivery.queue_limits import QueueLimits
from broker.core.lookup import Lookup
from broker.core.messages.queue import Queue, QueueEntry
from sapwood.protocol import destinations


class Readdressing:
    """Of one node. `dispatch` lets the messages of a queue go on."""

    __slots__ = ("_context", "_dispatch", "_holds", "_lookup")

    def __init__(
        self, context: Context, lookup: Lookup, holds: QueueLimits, dispatch: Callable[[Queue], None]
    ) -> None:
        self._context = context
        self._lookup = lookup
        self._holds = holds
        self._dispatch = dispatch

    def __repr__(self) -> str:
        return f"<Readdressing of {self._context.name}>"

    def by_alias(self, queue: Queue) -> bool:
        """Messages under an alias go on under the address that it stands for, unless that is no other."""
        address = self._lookup.address(queue.destination) if queue.destination else None
        if address is None or address == queue.destination:
            return False
        custody = self._context.custody
        for entry in self._move_some(queue, custody.queue_for(address)):
            entry.stored.readdress(address)
            custody.header_changed(entry.stored)
        self._go_on(queue, custody.queue_for(address))
        return True

    def by_dumpster(self, queue: Queue) -> bool:
        """Messages that nothing takes go into the dumpster, under their own address, if there is room."""
        context = self._context
        waits_for_parent = context.role.has_parent and not context.parents
        if waits_for_parent or not self._lookup.is_unroutable(queue):
            return False
        where = destinations.queue(context.table.static.dumpster)
        dumpster, policy = context.custody.queue_for(where), context.settings.policy(where)
        if dumpster.messages >= policy.max_messages or dumpster.size >= policy.max_bytes:
            return False
        self._move_some(queue, dumpster)
        self._go_on(queue, dumpster)
        return True

    def _move_some(self, queue: Queue, to: Queue) -> list[QueueEntry]:
        """The first that wait, so many at a time."""
        custody = self._context.custody
        queue.end_rest()
        entries = [queue.waiting.popleft() for _ in range(min(len(queue.waiting), PART))]
        for entry in entries:
            if entry.note:
                custody.sent(queue, entry.note, -entry.open)
                entry.note = ""
            custody.move(entry, to)
        to.waiting.put_back(entries)
        return entries

    def _go_on(self, queue: Queue, to: Queue) -> None:
        """The others follow soon, and those that have moved go on."""
        if queue.held_back:
            self._holds.relieve(queue)
        if queue.waiting:
            self._context.clock.go_on((self._dispatch, queue), partial(self._dispatch, queue))
        self._dispatch(to)
