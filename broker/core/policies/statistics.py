"""Figures of one node: what went through, how fast, and how long it took. Counted per bundle or slice.

What there is to read (all since this start; seconds, bytes, messages):

- `core.counters`: dict of node-wide totals: `entered` (from clients here), `in` and `out` (over links),
  `delivered` (handed to consumers here), `acknowledged` (by them), `unmatched`, `unsubscribed`, `rerouted`,
  `volatile_dropped`, `duplicates_dropped`, `buried`, `declined`, and those that appear when they first
  happen: `dead_overflow`, `retained_overflow`, `unreadable`, `deleted`, `transient_ended`, `dead_returned`,
  `dead_deleted`, `moved`, `wills_refused`. What nodes say to each other is traffic of links.
- `core.statistics.rates`: node-wide, smoothed over `SMOOTH` seconds: see `MessageRates`.
- `core.statistics.latency`: `Histogram` of all messages that were acknowledged by consumers here, from their
  arrival at this node.
- For each queue (`core.custody.queues`; a queue has `queue.destination`, a link's is `neighbour.queue`, the
  dead letters' is `core.custody.dead`): `queue.messages`, `queue.size` now; `queue.tally.entered` (came in),
  `queue.left` (went, whatever way), `queue.tally.in_per_s`, `.out_per_s`, `queue.tally.latency` (`Histogram`
  or None: nothing was acknowledged yet), `.latency_s` (the mean of the last seconds in which something was);
  `queue.waiting.since` (`since` of the first that waits, None = none).
- For each neighbour: `neighbour.counters` (`in`, `out` messages, `in_bundles`, `out_bundles`,
  `volatile_dropped`), `neighbour.flow.in_per_s`, `.out_per_s`, `neighbour.bytes_in`, `.bytes_out`
  (on the line, over all its links), `.heard_at` (running time; None while it is down).
- For each connection of a session (`core.switch.sessions[…].connections`): `messages_in`, `messages_out`,
  `bytes_in`, `bytes_out`, `heard`, `kind` ('http' or 'stream').

A `Histogram` is `broker.histogram`'s; `mean_of` and `count_of` read it.

Law: a queue that holds nothing and that nobody reads is forgotten, and its figures with it.
"""

from bisect import bisect_left
from math import exp
from typing import Final, NamedTuple

from broker.core.clock import Clock, Round
from broker.core.custody.custody import Custody
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.tally import smoothed
from broker.core.policy import Policy
from broker.histogram import Histogram

COUNTED: Final = (
    "entered",
    "in",
    "out",
    "delivered",
    "acknowledged",
    "unmatched",
    "unsubscribed",
    "rerouted",
    "out_of_order",
    "volatile_dropped",
    "duplicates_dropped",
    "buried",
    "declined",
)
"""The totals of a node that are there from its start on."""

SMOOTH: Final = 5.0
LATENCY_BOUNDS: Final[tuple[float, ...]] = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0, 86_400.0),
)


class MessageRates(NamedTuple):
    """Messages each second, smoothed. Over links `in`, `out`; from and to this node's own clients."""

    in_per_s: float = 0.0
    out_per_s: float = 0.0
    entered_per_s: float = 0.0
    delivered_per_s: float = 0.0
    acknowledged_per_s: float = 0.0


_AT_REST: Final = MessageRates()


_RATED: Final = ("in", "out", "entered", "delivered", "acknowledged")


class Statistics(Policy):
    """What is figured out once a second, and at each acknowledgement. See the module for all there is."""

    __slots__ = (
        *("_clock", "_counters", "_custody", "_elapsed", "_flows", "_queues", "_sampled", "_seen", "_weight"),
        *("latency", "rates"),
    )

    def __init__(
        self,
        clock: Clock,
        custody: Custody,
        counters: dict[str, int],
        neighbours: dict[str, Neighbour],
    ) -> None:
        self._clock = clock
        self._custody = custody
        self._counters = counters
        self._sampled = clock.now
        self._elapsed = self._weight = 0.0
        self._queues = Round(clock, self._stirred, self._sample_queue)
        self._flows = Round(clock, neighbours.values, self._sample_flow)
        self._seen = dict.fromkeys(_RATED, 0)
        self.rates = _AT_REST
        self.latency = Histogram(LATENCY_BOUNDS)

    def __repr__(self) -> str:
        return f"<Statistics {self.rates} active={len(self._custody.stirred)}>"

    def begin(self) -> None:
        """The start is over: what was on disk did not come in, it was there."""
        for queue in self._custody.queues.values():
            queue.tally.brought, queue.tally.entered = queue.messages, 0
            queue.tally.seen_out = queue.left

    def acknowledged(self, entry: QueueEntry, messages: int) -> None:
        """Consumers here have dealt with so many messages of an entry."""
        self._counters["acknowledged"] += messages
        seconds = max(self._clock.now - entry.since, 0.0)
        found = entry.queue.tally.latency
        if found is None:
            found = entry.queue.tally.latency = Histogram(LATENCY_BOUNDS)
        index = bisect_left(LATENCY_BOUNDS, seconds)
        found.counts[index] += messages
        found.total += seconds * messages
        self.latency.counts[index] += messages
        self.latency.total += seconds * messages

    def second_passed(self) -> None:
        self.sample()

    def sample(self) -> None:
        """To be called about once a second. Costs as much as there are neighbours, and queues where something
        moves."""
        elapsed = self._clock.now - self._sampled
        if elapsed <= 0:
            return
        self._sampled, self._elapsed = self._clock.now, elapsed
        weight = self._weight = 1.0 - exp(-elapsed / SMOOTH)
        self._queues.second_passed()
        self._flows.second_passed()
        if self.rates is _AT_REST and all(self._counters[name] == seen for name, seen in self._seen.items()):
            return
        self.rates = MessageRates(*(self._rate(name, elapsed, weight) for name in _RATED))
        if not any(self.rates):
            self.rates = _AT_REST

    def _stirred(self) -> list[Queue]:
        stirred, self._custody.stirred = self._custody.stirred, []
        return stirred

    def _sample_queue(self, queue: Queue) -> None:
        queue.tally.active = queue.tally.sample(queue.left, self._elapsed, self._weight)
        if queue.tally.active:
            self._custody.stirred.append(queue)

    def _sample_flow(self, neighbour: Neighbour) -> None:
        neighbour.flow.sample(neighbour.counters, self._elapsed, self._weight)

    def _rate(self, name: str, elapsed: float, weight: float) -> float:
        now, before = self._counters[name], float(getattr(self.rates, f"{name}_per_s"))
        rate = smoothed(before, (now - self._seen[name]) / elapsed, weight)
        self._seen[name] = now
        return rate
