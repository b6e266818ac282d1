"""Settlement: what becomes of messages that a session was given: acknowledged, refused, or given back."""

from collections.abc import Container
from itertools import islice
from sys import maxsize
from typing import Final

from broker.core.context import Context
from broker.core.delivery.delivery import Dispatcher
from broker.core.delivery.poison_messages import SUSPECTED
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.trace import RETURNED
from broker.core.routing.forwarding import Forwarder
from broker.core.sessions.sessions import ConsumerDelivery, PushConsumer, Session

_MOST_SAID: Final = 300


class Settlement:
    """Of all sessions of one node."""

    __slots__ = ("_context", "_custody", "_dispatcher", "_forwarder", "_policies")

    def __init__(self, context: Context, forwarder: Forwarder, dispatcher: Dispatcher) -> None:
        self._context = context
        self._forwarder = forwarder
        self._dispatcher = dispatcher
        self._custody = context.custody
        self._policies = context.policies

    def __repr__(self) -> str:
        return f"<Settlement of {self._context.name}>"

    def acknowledge(self, session: Session, first: int, last: int) -> int:
        """Those with these transfer ids are dealt with. Returns how many had not been before."""
        count = 0
        touched: dict[str, Queue] = {}
        for given in session.unacked.within(first, last):
            count += self._settle(session, given, given.bits_of(first, last), touched)
            touched.update((queue.name, queue) for queue in given.consumer.queues)
        for queue in touched.values():
            self._forwarder.dispatch(queue)
            if queue.held_back:
                self._dispatcher.holds.relieve(queue)
        return count

    def count(self, entry: QueueEntry, messages: int) -> None:
        """So many messages of an entry were acknowledged."""
        for policy in self._policies.acknowledged:
            policy.acknowledged(entry, messages)

    def _settle(self, session: Session, given: ConsumerDelivery, bits: int, touched: dict[str, Queue]) -> int:
        entry = given.entry
        bits &= ~entry.done
        count = bits.bit_count()
        if not count:
            return 0
        entry.deliveries = min(entry.deliveries, 1)
        if session.token:
            self.count(entry, count)
        self._custody.trace.dealt_with(given, bits, count)
        if self._custody.mark_done(entry, bits):
            self._dispatcher.finished(entry)
        given.consumer.took(-count)
        self._clear(session, given, touched)
        return count

    def refuse(self, session: Session, first: int, last: int, reason: str) -> int:
        """A consumer can do nothing with these, nor another like it: dead letters. Returns how many."""
        count = 0
        touched: dict[str, Queue] = {}
        for given in session.unacked.within(first, last):
            entry, bits = given.entry, given.bits_of(first, last) & ~given.entry.done
            touched.update((queue.name, queue) for queue in given.consumer.queues)
            if bits:
                count += bits.bit_count()
                given.consumer.took(-bits.bit_count())
                self._dispatcher.bury_part(entry, bits, reason[:_MOST_SAID])
            self._clear(session, given, touched)
        for queue in touched.values():
            self._forwarder.dispatch(queue)
        return count

    def take_back(self, session: Session, first: int, last: int) -> None:
        """A consumer gives these back: each counts as a delivery that failed, and is given again."""
        touched: dict[str, Queue] = {}
        for given in session.unacked.within(first, last):
            entry, bits = given.entry, given.bits_of(first, last) & ~given.entry.done
            if given.consumer.connection is None or not bits:
                continue
            touched.update((queue.name, queue) for queue in given.consumer.queues)
            session.unacked.split(given, first, last)
            given.consumer.took(-bits.bit_count())
            entry.given &= ~bits
            entry.queue.waiting.put_back([entry])
            self._came_back(entry, bits, guilty=True)
            self._answered(given, touched)
        for queue in touched.values():
            self._forwarder.dispatch(queue)

    def _clear(self, session: Session, given: ConsumerDelivery, touched: dict[str, Queue]) -> None:
        """Is all of a slice dealt with?"""
        if not given.bits & ~given.entry.done and session.unacked.has(given):
            session.unacked.remove(given)
            self._answered(given, touched)

    def _answered(self, given: ConsumerDelivery, touched: dict[str, Queue]) -> None:
        """Its consumer may have other messages again, if it was given this one alone."""
        if given.consumer.tried is given:
            freed = self._dispatcher.trials.answered(given.consumer)
            touched.update((queue.name, queue) for queue in freed)

    def give_back(
        self, session: Session, gone: Container[PushConsumer], *, stopping: bool, most: int = maxsize
    ) -> bool:
        """These consumers have gone: what they had waits again. `stopping`: by no fault of a message.

        Returns whether that was all: `most` slices are given back at a time.
        """
        theirs = (given for given in session.unacked.all() if given.consumer in gone)
        found = list(islice(theirs, most))
        again: dict[Queue, dict[QueueEntry, int]] = {}
        told: dict[QueueEntry, int] = {}
        tried = self._dispatcher.trials.gone({given.consumer: None for given in found})
        for given in found:
            session.unacked.remove(given)
            entry = given.entry
            entry.given &= ~given.bits
            left = given.bits & ~entry.done
            if not session.mail.take(given):
                told[entry] = told.get(entry, 0) | left
            if entry.done != entry.all:
                entries = again.setdefault(entry.queue, {})
                entries[entry] = entries.get(entry, 0) | left
        for queue, entries in again.items():
            queue.waiting.put_back(entries)
        whole = len(found) < most
        if stopping:
            return whole
        culprits = {given.entry for given in tried if not _is_replaced(given)}
        alone = not any(map(_is_replaced, found)) and sum(bits.bit_count() for bits in told.values()) == 1
        for entry, bits in told.items():
            if bits:
                self._came_back(entry, bits, guilty=(whole and alone) or entry in culprits)
        for queue in () if whole else again:
            self._forwarder.dispatch(queue)
        return whole

    def _came_back(self, entry: QueueEntry, bits: int, *, guilty: bool) -> None:
        """A consumer went and left these. `guilty`: it was by the fault of the first of them."""
        most = self._context.settings.max_deliveries
        entry.deliveries = (
            entry.deliveries + 1 if guilty else max(entry.deliveries, min(entry.deliveries + 1, SUSPECTED))
        )
        self._custody.trace.happened(RETURNED, entry, bits, "")
        self._custody.changed(entry)
        if guilty and entry.deliveries >= most:
            entry.deliveries = 1
            if self._dispatcher.bury_part(entry, bits & -bits, "TOO_MANY_DELIVERIES"):
                entry.queue.waiting.remove(entry)


def _is_replaced(given: ConsumerDelivery) -> bool:
    """Did its consumer's connection make room for another one? Perhaps it was never read then."""
    line = given.consumer.connection
    return line is not None and line.replaced
