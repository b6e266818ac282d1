"""Queues and topics: how much waits, how long, and what goes through.

A queue has a label of its own if it was created here for good or has readers, or if what is in it has been
there for a while. All others are counted with the rest: made-up names of reply queues, and what only passes
through, would be a new label each time.
"""

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import is_internal
from broker.core.policies.statistics import LATENCY_BOUNDS
from broker.histogram import Histogram
from broker.metrics import label_limit
from broker.metrics.exposition import Family, counter, gauge, histogram
from broker.metrics.label_limit import Counters, LabelLimit, summed
from sapwood.protocol.destinations import Kind

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_SETTLED: Final = 60.0
_NONE: Final = (0,) * (len(LATENCY_BOUNDS) + 2)
_WIDTH: Final = 2 + len(_NONE)


class QueueFigures:
    """Families of all queues. Keep one for each node, since counters of unnamed queues go on in it."""

    def __init__(self, limit: int) -> None:
        self._seats = LabelLimit(limit, _WIDTH)

    def __repr__(self) -> str:
        return f"<QueueFigures {self._seats!r}>"

    def families(self, core: "NodeCore") -> Generator[None, None, list[Family]]:
        """Some queues a step."""
        now, node = core.clock.now, core.identity.name
        queues = list(core.custody.queues.values())
        kinds = dict.fromkeys(("persistent", "transient", "passing"), 0)
        for number, queue in enumerate(queues):
            if _is_for_applications(queue):
                kinds["transient" if queue.owner else "persistent" if queue.created else "passing"] += 1
            if number % label_limit.STEP == 0:
                yield
        sums = yield from summed(
            self._seats,
            lambda: (
                (each.name.removeprefix("queue:"), each) for each in queues if _is_for_applications(each)
            ),
            lambda each: each.messages + 1e-9 * each.tally.entered if _has_a_name(each, now, node) else None,
            _counters,
            QueueSums,
        )
        found = _Families()
        for name, each in sums.items():
            found.add(name, each, self._seats.counters(name), now)
        family = gauge(
            "sapwood_queues",
            "Queues of this node by kind; passing: not created here, messages are on their way through.",
        )
        for kind, count in kinds.items():
            family.add(count, kind=kind)
        return [family, *found.all()]


class QueueSums:
    """Of some queues. `since`: the first message that waits in any of them."""

    def __init__(self) -> None:
        self.messages = self.size = self.given = 0
        self.since: float | None = None
        self.readers: set[Any] = set()

    def add(self, queue: Queue) -> None:
        self.messages += queue.messages
        self.size += queue.size
        since = queue.waiting.since
        if since is not None and (self.since is None or since < self.since):
            self.since = since
        for reader in queue.consumers:
            if reader not in self.readers:
                self.readers.add(reader)
                self.given += reader.outstanding


class _Families:
    """The families of one answer."""

    def __init__(self) -> None:
        self.messages = gauge("sapwood_queue_messages", "Messages in the queue, with readers or waiting.")
        self.size = gauge("sapwood_queue_size_bytes", "Bytes of the bundles in the queue, as stored.")
        self.age = gauge(
            "sapwood_queue_oldest_age_seconds", "How long the oldest waiting message has been there; 0: none."
        )
        self.given = gauge(
            "sapwood_queue_given_messages", "Messages that readers here have and have not acknowledged."
        )
        self.readers = gauge("sapwood_queue_readers", "Subscriptions of applications here to the queue.")
        self.entered = counter(
            "sapwood_queue_messages_entered", "Messages that came into the queue at this node."
        )
        self.left = counter(
            "sapwood_queue_messages_left", "Messages that went from the queue, whatever way they went."
        )
        self.latency = histogram(
            "sapwood_queue_latency_seconds",
            "Time of a message from its arrival at this node to its acknowledgement by a reader here.",
        )

    def add(self, name: str, sums: QueueSums, counters: Counters, now: float) -> None:
        self.messages.add(sums.messages, queue=name)
        self.size.add(sums.size, queue=name)
        self.age.add(0 if sums.since is None else max(round(now - sums.since, 3), 0.0), queue=name)
        self.given.add(sums.given, queue=name)
        self.readers.add(len(sums.readers), queue=name)
        self.entered.add(counters[0], queue=name)
        self.left.add(counters[1], queue=name)
        counts = [int(count) for count in counters[2:-1]]
        if any(counts):
            self.latency.observe(LATENCY_BOUNDS, counts, counters[-1], queue=name)

    def all(self) -> list[Family]:
        gauges = [self.messages, self.size, self.age, self.given, self.readers]
        return [*gauges, self.entered, self.left, self.latency]


def topics(core: "NodeCore") -> Generator[None, None, list[Family]]:
    """Subscriptions to topics, all together, some a step: their ids would tell a session's token."""
    subscriptions = list(core.topics.subscriptions.values())
    attached, sums = 0, QueueSums()
    for number, each in enumerate(subscriptions):
        attached += each.attached
        sums.add(each.queue)
        if number % label_limit.STEP == 0:
            yield
    return [
        gauge("sapwood_subscriptions", "Topic subscriptions here; detached: durable, without a reader now.")
        .add(attached, state="attached")
        .add(len(subscriptions) - attached, state="detached"),
        gauge("sapwood_subscription_messages", "Messages that wait for topic subscriptions.").add(
            sums.messages
        ),
        gauge("sapwood_subscription_size_bytes", "Bytes of the bundles that wait for them.").add(sums.size),
        gauge(
            "sapwood_subscription_oldest_age_seconds", "How long the oldest of those has waited; 0: none."
        ).add(0 if sums.since is None else max(round(core.clock.now - sums.since, 3), 0.0)),
        gauge("sapwood_retained_messages", "Retained messages of topics.").add(len(core.topics.retained)),
    ]


def _is_for_applications(place: Queue) -> bool:
    destination = place.destination
    return destination is not None and destination.kind == Kind.QUEUE and not is_internal(destination)


def _has_a_name(place: Queue, now: float, node: str) -> bool:
    if place.owner:
        return False
    if place.destination is not None and place.destination.node == node and not place.tally.entered:
        return bool(place.messages)
    old = place.waiting.since is not None and now - place.waiting.since >= _SETTLED
    return place.created or bool(place.consumers) or old


def _counters(place: Queue) -> Counters:
    latency: Histogram | None = place.tally.latency
    return (
        place.tally.entered,
        place.left,
        *(_NONE if latency is None else (*latency.counts, round(latency.total, 6))),
    )
