"""Poison messages: which message a consumer fails on, where it goes with many.

A consumer whose line breaks has often been given hundreds of messages, and nothing says on which of them it
failed. So whatever comes back with others is only suspected; from its second time on it is tried: a consumer
that has nothing else is given it alone. If it comes back from that, it is by its own fault.

Law: a return counts against a message only if its consumer had nothing else, or got it alone and left it
unanswered for `PATIENCE`.

Wrinkle: some consumers gather many messages before they acknowledge any. Who leaves a message unanswered for
that long is given the others as well, as long as it lives.
"""

from collections.abc import Callable, Iterable
from typing import Final

from broker.core.clock import Clock
from broker.core.messages.queue import Queue
from broker.core.sessions.sessions import ConsumerDelivery, PushConsumer

SUSPECTED: Final = 2
"""From so many returns in a row on a message is given alone."""
PATIENCE: Final = 10.0


class PoisonWatch:
    """Of all consumers of one node. `dispatch`: let go on what waits in a queue."""

    __slots__ = ("_awaited", "_clock", "_dispatch")

    def __init__(self, clock: Clock, dispatch: Callable[[Queue], None]) -> None:
        self._clock = clock
        self._dispatch = dispatch
        self._awaited: dict[str, None] = {}

    def __repr__(self) -> str:
        return f"<PoisonWatch awaited in {len(self._awaited)} places>"

    @staticmethod
    def may_have(consumer: PushConsumer) -> bool:
        """May it be given a message that is suspected? It has nothing else, or gathers many."""
        return not tries(consumer) or not any(each.outstanding for each in _together(consumer))

    def begin(self, given: ConsumerDelivery) -> None:
        """It was given alone: its consumer gets nothing else until it has answered."""
        consumer = given.consumer
        consumer.tried = given
        for each in _together(consumer):
            each.alone = True
        self._clock.after(PATIENCE, lambda: self._overdue(given))

    def answered(self, consumer: PushConsumer) -> list[Queue]:
        """What its consumer was given alone is dealt with. Returns where it reads."""
        consumer.tried = None
        return _let_go(consumer)

    def gone(self, consumers: Iterable[PushConsumer]) -> list[ConsumerDelivery]:
        """These read no more. Returns what they had been given alone, and have not answered."""
        found = [consumer for consumer in consumers if consumer.tried is not None]
        queues = {queue.name: queue for consumer in found for queue in _let_go(consumer)}
        for queue in queues.values():
            self._clock.after(0.0, lambda queue=queue: self._dispatch(queue))  # type: ignore[misc]
        return [consumer.tried for consumer in found if consumer.tried is not None]

    def await_idle(self, queue: Queue) -> None:
        """The first that waits is suspected, and no consumer has nothing else."""
        if queue.name not in self._awaited and any(consumer.room > 0 for consumer in queue.consumers):
            self._awaited[queue.name] = None
            self._clock.after(PATIENCE, lambda: self._busy(queue))

    def _busy(self, queue: Queue) -> None:
        self._awaited.pop(queue.name, None)
        if queue.waiting and queue.waiting[0].deliveries >= SUSPECTED:
            for consumer in queue.consumers:
                consumer.gathers = consumer.gathers or consumer.room > 0
        self._dispatch(queue)

    def _overdue(self, given: ConsumerDelivery) -> None:
        consumer = given.consumer
        if consumer.tried is given and consumer.session.unacked.has(given):
            consumer.gathers = True
            for queue in _let_go(consumer):
                self._dispatch(queue)


def tries(consumer: PushConsumer) -> bool:
    """Is it given alone what is suspected? A site's broker has its own way to find out."""
    return consumer.can_fail and not consumer.gathers


def _together(consumer: PushConsumer) -> list[PushConsumer]:
    """Those that go together, itself among them: of one line, or of one session that fetches."""
    return [each for each in consumer.session.consumers if each.connection is consumer.connection]


def _let_go(consumer: PushConsumer) -> list[Queue]:
    together = _together(consumer)
    for each in together:
        each.alone = False
    return [queue for each in together for queue in each.queues]
