"""Tallies: what went through one queue, or over the links with one neighbour, and how fast."""

from dataclasses import dataclass
from typing import Final

from broker.histogram import Histogram

_QUIET: Final = 0.005


def count_of(histogram: Histogram | None) -> int:
    return sum(histogram.counts) if histogram is not None else 0


def mean_of(histogram: Histogram | None) -> float | None:
    """None before the first value."""
    count = count_of(histogram)
    return histogram.total / count if histogram is not None and count else None


def quantile_of(histogram: Histogram, share: float) -> float | None:
    """The bound below which that share of the values lies; None: above the last bound, or no values."""
    wanted, seen = share * count_of(histogram), 0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        seen += count
        if wanted and seen >= wanted:
            return bound
    return None


@dataclass(slots=True, eq=False, repr=False)
class Tally:
    """Counts and rates of one queue. `brought`: what was there at the start. Kept by `Custody`."""

    entered: int = 0
    brought: int = 0
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    seen_in: int = 0
    seen_out: int = 0
    active: bool = False
    latency: "Histogram | None" = None
    _seen_count: int = 0
    _seen_total: float = 0.0
    _recent_count: float = 0.0
    _recent_total: float = 0.0

    def __repr__(self) -> str:
        return f"<Tally entered={self.entered} in_per_s={self.in_per_s:.1f} out_per_s={self.out_per_s:.1f}>"

    def sample(self, left: int, elapsed: float, weight: float) -> bool:
        """Another second is over. False once nothing moves here any more."""
        self.in_per_s += weight * ((self.entered - self.seen_in) / elapsed - self.in_per_s)
        self.out_per_s += weight * ((left - self.seen_out) / elapsed - self.out_per_s)
        self.seen_in, self.seen_out = self.entered, left
        if self.latency is not None:
            self._sample_latency(self.latency, 1.0 - weight)
        if self.in_per_s > _QUIET or self.out_per_s > _QUIET:
            return True
        self.in_per_s = self.out_per_s = 0.0
        return False

    def _sample_latency(self, latency: Histogram, keep: float) -> None:
        count = count_of(latency)
        self._recent_count = keep * self._recent_count + count - self._seen_count
        self._recent_total = keep * self._recent_total + latency.total - self._seen_total
        self._seen_count, self._seen_total = count, latency.total

    @property
    def latency_s(self) -> float | None:
        """Mean of the messages acknowledged of late, the latest weighing most; of all until the first second
        is over. None: none was acknowledged yet."""
        return self._recent_total / self._recent_count if self._recent_count else mean_of(self.latency)


class Flow:
    """Messages each second over the links with one neighbour, smoothed."""

    __slots__ = ("_seen_in", "_seen_out", "in_per_s", "out_per_s")

    def __init__(self) -> None:
        self.in_per_s = self.out_per_s = 0.0
        self._seen_in = self._seen_out = 0

    def __repr__(self) -> str:
        return f"<Flow in_per_s={self.in_per_s:.1f} out_per_s={self.out_per_s:.1f}>"

    def sample(self, counters: dict[str, int], elapsed: float, weight: float) -> None:
        """Another second is over. `counters`: the neighbour's."""
        came, went = counters["in"], counters["out"]
        self.in_per_s = smoothed(self.in_per_s, (came - self._seen_in) / elapsed, weight)
        self.out_per_s = smoothed(self.out_per_s, (went - self._seen_out) / elapsed, weight)
        self._seen_in, self._seen_out = came, went


def smoothed(before: float, now: float, weight: float) -> float:
    rate = before + weight * (now - before)
    return rate if rate > _QUIET else 0.0
