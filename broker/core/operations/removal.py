"""Removal: an operator takes away a queue with its consumers, a message, or dead letters.

Law: what is thrown away is counted (`deleted`, `dead_deleted`), and so is what is given back
(`dead_returned`). Whatever is long is taken a part at a time by a caller who lets others have their turn in
between; each part is whole, and in one transaction.
"""

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from broker.core.clients.switch import Switch
from broker.core.clock import PART
from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.errors import InDelivery, NotFound, SwitchError
from broker.core.messages.queue import Backlog, Queue, QueueEntry
from broker.core.messages.queue_names import SYSTEM, is_internal, queue_name_of
from broker.core.messages.trace import DROPPED
from broker.core.policy import Policy
from broker.core.routing.subscriptions import Subscription
from broker.core.routing.topics import Topics
from broker.core.rows import QueueRow
from broker.core.sessions.sessions import PushConsumer
from sapwood.protocol import destinations
from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import InvalidName
from sapwood.protocol.names import node_name, queue_name
from sapwood.protocol.session_frames import ReadingEnded

_TRACED: Final = 10


class RemovedQueue:
    """What a queue held that is no more: it is nowhere else. `consumers`: how many it had.

    `purged`: so many messages were thrown away before.
    """

    __slots__ = ("_held", "_waiting", "consumers", "purged")

    def __init__(
        self, held: Iterable[QueueEntry], waiting: list[Backlog], consumers: int, purged: int = 0
    ) -> None:
        self.consumers = consumers
        self.purged = purged
        self._held = deque(held)
        self._waiting = waiting

    def __repr__(self) -> str:
        return f"<RemovedQueue {len(self)} copies>"

    def __len__(self) -> int:
        return len(self._held) + sum(map(len, self._waiting))

    def take(self, most: int) -> list[QueueEntry]:
        """The next entries; none when there are no more."""
        found = [self._held.popleft() for _ in range(min(len(self._held), most))]
        for waiting in self._waiting:
            found += [waiting.popleft() for _ in range(min(len(waiting), most - len(found)))]
        return found


def queue_key(text: str) -> Destination:
    """Read what a person calls a queue: `NAME`, `NAME@NODE`, `queue:…`, `topic:…@NODE`. Raises `NotFound`."""
    kind, colon, rest = text.partition(":")
    if colon and kind == Kind.TOPIC:
        name, _, node = rest.rpartition("@")
        return Destination(Kind.TOPIC, name, node)
    plain, at, node = (rest if colon and kind == Kind.QUEUE else text).partition("@")
    try:
        return destinations.queue(queue_name(plain), node_name(node) if at else "")
    except InvalidName as error:
        raise NotFound(str(error)) from None


class Removal(Policy):
    """Deletes at one node. All calls are synchronous; `NodePort.wake` must follow."""

    __slots__ = ("_context", "_custody", "_dispatcher", "_ending", "_switch", "_topics")

    def __init__(self, context: Context, dispatcher: Dispatcher, topics: Topics, switch: Switch) -> None:
        self._context = context
        self._dispatcher = dispatcher
        self._topics = topics
        self._switch = switch
        self._custody = context.custody
        self._ending: list[tuple[RemovedQueue, str, bool]] = []

    def __repr__(self) -> str:
        return f"<Removal at {self._context.name}>"

    # --- queues

    def queues(self, name: str) -> list[Queue]:
        """The queues of a queue: `sales` means `sales@this-node` as well. Raises `NotFound`."""
        key, node = queue_key(name), self._context.name
        keys = [key]
        if key.kind == Kind.QUEUE and key.node in ("", node):
            keys = [destinations.queue(key.name), destinations.queue(key.name, node)]
        if is_internal(key):
            raise SwitchError(f"REFUSED: the queue {key.name!r} is the node's own")
        found = [self._custody.queues.get(queue_name_of(each)) for each in keys]
        queues = [queue for queue in found if queue is not None]
        if not any(queue.created or queue.consumers or queue.messages for queue in queues):
            raise NotFound(f"node {node} has no queue {name!r}")
        return queues

    def delete_queue(self, name: str) -> RemovedQueue:
        """Make an end of a queue: nobody reads it, it was never created, and what it held is nowhere.

        Caller's duty: `discard` all its entries. Raises `NotFound`, or `SwitchError` for the node's own.
        """
        queues = self.queues(name)
        every: Iterable[PushConsumer] = (consumer for queue in queues for consumer in queue.consumers)
        consumers = list(dict.fromkeys(every))
        held = self._end_readers(consumers, "QUEUE_DELETED", f"the queue {name} was deleted")
        waiting: list[Backlog] = []
        for consumer in consumers:
            self._switch.interest.went(consumer)
        for queue in queues:
            waiting.append(queue.empty())
            if queue.created and not queue.owner and queue.destination is not None:
                self._custody.transaction.delete(QueueRow, queue.destination.name)
                self._switch.local_queues.forget(queue.destination.name)
            if queue.owner and queue.destination is not None:
                owner = self._switch.sessions.get(queue.owner)
                if owner is not None:
                    owner.transient.discard(queue.destination.name)
                if queue.owner != SYSTEM:
                    self._switch.local_queues.disowned(queue.owner)
            queue.created, queue.home, queue.owner = False, False, ""
        return RemovedQueue(held, waiting, len(consumers))

    def empty_queue(self, name: str) -> RemovedQueue:
        """Take all that waits from a queue. It stays, and its readers with what they have.

        Entries that readers have a part of are purged at once: a reader that goes later gives its part back
        to the queue, and what waited beside it must be gone by then.
        Caller's duty: `purge` all others. Raises `NotFound`, or `SwitchError` for the node's own.
        """
        queues = self.queues(name)
        sessions = {consumer.session for queue in queues for consumer in queue.consumers}
        shared = frozenset(given.entry for session in sessions for given in session.unacked.of(None))
        waiting = [queue.empty() for queue in queues]
        purged = sum(self.purge(backlog.take_these(shared)) for backlog in waiting if shared)
        return RemovedQueue((), waiting, 0, purged)

    def purge(self, entries: Iterable[QueueEntry]) -> int:
        """Throw away what no reader has of entries that are in no `waiting`; return how many messages."""
        count, queues = 0, dict[Queue, None]()
        for number, entry in enumerate(entries):
            bits = entry.all & ~(entry.done | entry.given)
            count += bits.bit_count()
            queues[entry.queue] = None
            if number < _TRACED:
                self._custody.trace.happened(DROPPED, entry, bits, "", "deleted")
            if self._custody.mark_done(entry, bits):
                self._dispatcher.finished(entry)
        self._count("deleted", count)
        for queue in queues:
            if queue.held_back:
                self._dispatcher.holds.relieve(queue)
        return count

    def _end_readers(self, consumers: list[PushConsumer], code: str, text: str) -> dict[QueueEntry, None]:
        """End them, and tell whoever streams. The caller gets back entries that were with them alone."""
        gone = frozenset(consumers)
        sessions = dict.fromkeys(consumer.session for consumer in consumers)
        slices = [each for session in sessions for each in session.unacked.of(None) if each.consumer in gone]
        entries = {
            each.entry: None
            for each in slices
            if each.entry.given | each.entry.done == each.entry.all != each.entry.done
        }
        for given in slices:
            session = given.consumer.session
            session.unacked.remove(given)
            session.mail.take(given)
            given.entry.given &= ~given.bits
        for consumer in consumers:
            consumer.session.remove(consumer)
            for queue in consumer.queues:
                queue.consumers[:] = [each for each in queue.consumers if each is not consumer]
            if consumer.connection is not None:
                consumer.connection.send(ReadingEnded(consumer.number, code, text))
        return entries

    def transient_ended(self, queue: str) -> None:
        """A session ends, and with it a queue of its own with all its messages, whoever has them.

        What is long goes a part at a time, so that others have their turn; a start throws away what a crash
        has left.
        """
        with suppress(NotFound):
            self._end(self.delete_queue(queue), "transient_ended")

    def queue_destroyed(self, queue: str) -> None:
        """An application deletes a queue: a part at a time, as a transient one ends."""
        self._end(self.delete_queue(queue), "deleted")

    def end_orphans(self, queue: Queue) -> None:
        """A start has found entries in a queue that is none any more."""
        self._custody.forget(queue)
        self._end(RemovedQueue((), [queue.empty()], 0), "lost", counted=True)

    def abandoned(self, backlog: Backlog) -> None:
        """What waited for a subscription that is over goes; it has been counted."""
        self._end(RemovedQueue((), [backlog], 0), "unsubscribed", counted=True)

    def _end(self, doomed: RemovedQueue, counter: str, *, counted: bool = False) -> None:
        self._ending.append((doomed, counter, counted))
        if len(self._ending) == 1:
            self._end_some()

    def _end_some(self) -> None:
        room = PART
        while self._ending and room > 0:
            doomed, counter, counted = self._ending[0]
            part = doomed.take(room)
            room -= len(part)
            if counted:
                self._discard(part, counter)
            else:
                self.discard(part, counter)
            if not doomed:
                self._ending.pop(0)
        if self._ending:
            self._context.clock.go_on(self._end_some, self._end_some)

    def discard(self, entries: Iterable[QueueEntry], counter: str = "deleted") -> int:
        """Throw away entries that are in no `waiting`; return how many messages that were."""
        count = self._discard(entries, counter)
        self._count(counter, count)
        return count

    def _discard(self, entries: Iterable[QueueEntry], why: str) -> int:
        count = 0
        for number, entry in enumerate(entries):
            count += entry.open
            if number < _TRACED:
                self._custody.trace.happened(DROPPED, entry, entry.all, "", why)
            self._custody.discard(entry)
        return count

    def _count(self, counter: str, count: int) -> None:
        counters = self._context.counters
        counters[counter] = counters.get(counter, 0) + count

    # --- one message

    def delete_message(self, entry: QueueEntry, position: int) -> None:
        """Throw away one message that waits in a queue here. Raises `InDelivery` or `NotFound`."""
        bit = 1 << position
        if position >= entry.stored.header.count or entry.done & bit:
            raise NotFound("that message is not here any more")
        if entry.given & bit:
            raise InDelivery(
                "a reader has that message now: it is dealt with when that reader acknowledges it, and waits"
                " here again when it does not; delete it then, or delete the queue"
            )
        queue = entry.queue
        self._custody.trace.happened(DROPPED, entry, bit, "", "deleted")
        if self._custody.mark_done(entry, bit):
            self.unlist(queue, frozenset((entry,)))
            self._dispatcher.finished(entry)
        self._count("deleted", 1)
        if queue.held_back:
            self._dispatcher.holds.relieve(queue)

    @staticmethod
    def unlist(queue: Queue, gone: frozenset[QueueEntry]) -> None:
        """These entries wait here no more."""
        waiting = [entry for entry in gone if queue.resting.take(entry.row) is None]
        if len(waiting) == 1 and waiting[0] in queue.waiting:
            queue.waiting.remove(waiting[0])
        elif waiting:
            queue.waiting.take_these(frozenset(waiting))

    # --- subscriptions

    def subscription_ended(self, subscription: str) -> None:
        self.end_subscription(self._topics.subscriptions[subscription])

    def end_subscription(self, subscription: Subscription) -> int:
        """End a subscription for good, read or not; return how many messages go with it."""
        queue = subscription.queue
        text = f"the subscription to {subscription.pattern} was ended"
        held = self._end_readers(list(queue.consumers), "SUBSCRIPTION_ENDED", text)
        count, waiting = queue.messages, queue.empty()
        self._switch.interest.end(subscription)
        self._end(RemovedQueue(held, [waiting], 0), "unsubscribed", counted=True)
        return count
