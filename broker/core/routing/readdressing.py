"""Readdressing: messages wait in another queue from now on, under an alias's address or in the dumpster."""

from functools import partial
from typing import TYPE_CHECKING

from broker.core.clock import PART
from treeconnector import destinations

if TYPE_CHECKING:
    from broker.core.messages.queue import Queue, QueueEntry
    from broker.core.routing.forwarding import Forwarder


def readdressed(forwarder: "Forwarder", queue: "Queue") -> bool:
    """What waits under an alias goes on under the address that it stands for, unless that is no other."""
    address = forwarder.address(queue.destination) if queue.destination else None
    if address is None or address == queue.destination:
        return False
    for entry in _move_some(forwarder, queue, forwarder.custody.queue_for(address)):
        entry.stored.header.destination = address
        forwarder.custody.header_changed(entry.stored)
    _go_on(forwarder, queue, forwarder.custody.queue_for(address))
    return True


def dumped(forwarder: "Forwarder", queue: "Queue") -> bool:
    """What nothing takes goes into the dumpster, under the address that it came with, if there is room."""
    if forwarder.lacks_parent or not forwarder.is_unroutable(queue):
        return False
    where = destinations.queue(forwarder.static.dumpster)
    dumpster, policy = forwarder.custody.queue_for(where), forwarder.settings.policy(where)
    if dumpster.messages >= policy.max_messages or dumpster.size >= policy.max_bytes:
        return False
    _move_some(forwarder, queue, dumpster)
    _go_on(forwarder, queue, dumpster)
    return True


def _move_some(forwarder: "Forwarder", queue: "Queue", to: "Queue") -> "list[QueueEntry]":
    """The first that wait, so many at a time."""
    custody = forwarder.custody
    queue.end_rest()
    entries = [queue.waiting.popleft() for _ in range(min(len(queue.waiting), PART))]
    for entry in entries:
        if entry.note:
            custody.sent(queue, entry.note, -entry.open)
            entry.note = ""
        custody.move(entry, to)
    to.put_back(entries)
    return entries


def _go_on(forwarder: "Forwarder", queue: "Queue", to: "Queue") -> None:
    """The others follow soon, and those that have moved go on."""
    if queue.held_back:
        forwarder.holds.relieve(queue)
    if queue.waiting:
        forwarder.clock.go_on((forwarder.dispatch, queue), partial(forwarder.dispatch, queue))
    forwarder.dispatch(to)
