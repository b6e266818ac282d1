"""Queues and topics: how much waits, how long, and what goes through.

A queue has a label of its own if it was created here for good or has readers, or if what is in it has been
there for a while. All others are counted with the rest: made-up names of reply queues, and what only passes
through, would be a new label each time.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.core.messages.queue import Queue
from broker.core.messages.queue_names import is_internal
from broker.core.policies.statistics import LATENCY_BOUNDS
from broker.histogram import Histogram
from broker.metrics.exposition import Family, counter, gauge, histogram
from broker.metrics.label_limit import OTHER, Counters, LabelLimit
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

    def families(self, core: "NodeCore") -> list[Family]:
        now = core.clock.now
        places = {
            place.name.removeprefix("queue:"): place
            for place in core.custody.queues.values()
            if _is_for_applications(place)
        }
        weights = {
            name: place.messages + 1e-9 * place.tally.entered
            for name, place in places.items()
            if _has_a_name(place, now, core.identity.name)
        }
        counters = {name: _counters(place) for name, place in places.items()}
        named = self._seats.look(weights, counters)
        found = _Families()
        for name in sorted(named):
            found.add(name, [places[name]], counters[name], now)
        rest = [place for name, place in places.items() if name not in named]
        if rest or any(self._seats.rest):
            found.add(OTHER, rest, self._seats.rest, now)
        return [_kinds(places.values()), *found.all()]


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

    def add(self, name: str, places: list[Queue], counters: Counters, now: float) -> None:
        oldest = [place.waiting.since for place in places if place.waiting.since is not None]
        readers = list(dict.fromkeys(reader for place in places for reader in place.consumers))
        self.messages.add(sum(place.messages for place in places), queue=name)
        self.size.add(sum(place.size for place in places), queue=name)
        self.age.add(max(round(now - min(oldest), 3), 0.0) if oldest else 0, queue=name)
        self.given.add(sum(reader.outstanding for reader in readers), queue=name)
        self.readers.add(len(readers), queue=name)
        self.entered.add(counters[0], queue=name)
        self.left.add(counters[1], queue=name)
        counts = [int(count) for count in counters[2:-1]]
        if any(counts):
            self.latency.observe(LATENCY_BOUNDS, counts, counters[-1], queue=name)

    def all(self) -> list[Family]:
        gauges = [self.messages, self.size, self.age, self.given, self.readers]
        return [*gauges, self.entered, self.left, self.latency]


def topics(core: "NodeCore") -> list[Family]:
    """Subscriptions to topics, all together: their ids would tell a session's token."""
    found = core.topics.subscriptions.values()
    oldest = [item.queue.waiting.since for item in found if item.queue.waiting.since is not None]
    attached = sum(item.attached for item in found)
    return [
        gauge("sapwood_subscriptions", "Topic subscriptions here; detached: durable, without a reader now.")
        .add(attached, state="attached")
        .add(len(found) - attached, state="detached"),
        gauge("sapwood_subscription_messages", "Messages that wait for topic subscriptions.").add(
            sum(item.queue.messages for item in found)
        ),
        gauge("sapwood_subscription_size_bytes", "Bytes of the bundles that wait for them.").add(
            sum(item.queue.size for item in found)
        ),
        gauge(
            "sapwood_subscription_oldest_age_seconds", "How long the oldest of those has waited; 0: none."
        ).add(max(round(core.clock.now - min(oldest), 3), 0.0) if oldest else 0),
        gauge("sapwood_retained_messages", "Retained messages of topics.").add(len(core.topics.retained)),
    ]


def _kinds(places: Iterable[Queue]) -> Family:
    counts = dict.fromkeys(("persistent", "transient", "passing"), 0)
    for place in places:
        counts["transient" if place.owner else "persistent" if place.created else "passing"] += 1
    family = gauge(
        "sapwood_queues",
        "Queues of this node by kind; passing: not created here, messages are on their way through.",
    )
    for kind, count in counts.items():
        family.add(count, kind=kind)
    return family


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
