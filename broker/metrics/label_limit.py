"""Bounded labels: the largest have a name of their own, all others together are `other`.

Law: a counter never falls, be it a named one or the rest's. So the rest is no difference of totals: what
each unnamed one has gained since the last look is added to it. And a name stays once it was given: it goes
only with what it names, or to something more than twice as large. So the labels that exist over a day are
few as well, not only those of one answer.

Wrinkle: what is really called `other` never has a name of its own: it is counted with the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Final

OTHER: Final = "other"
_MUCH: Final = 2.0

Counters = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Labels:
    """How many queues, links and sessions have labels of their own; the others are `other`."""

    queues: int = 100
    links: int = 200
    sessions: int = 50


class LabelLimit:
    """At most `limit` names at a time. Give it all there is, again and again; keep it as long as the node."""

    def __init__(self, limit: int, width: int) -> None:
        self._limit = limit
        self._taken: set[str] = set()
        self._before: dict[str, Counters] = {}
        self._rest: list[float] = [0] * width

    def __repr__(self) -> str:
        return f"<LabelLimit {len(self._taken)} of {self._limit} taken, of {len(self._before)}>"

    @property
    def rest(self) -> Counters:
        """The counters of all that have no name."""
        return tuple(self._rest)

    def look(self, weights: Mapping[str, float], counters: Mapping[str, Counters]) -> set[str]:
        """Who has a name now: some of the keys of `weights`.

        `counters`: of all there are, those that may have no name too; as many each as `width` said.
        """
        named = self._seat(weights)
        before = self._before
        for name, now in counters.items():
            if name not in named and now != before.get(name):
                gained = _gained(now, before.get(name))
                self._rest = [rest + more for rest, more in zip(self._rest, gained, strict=True)]
        self._before = dict(counters)
        return named

    def _seat(self, weights: Mapping[str, float]) -> set[str]:
        taken = self._taken = {name for name in self._taken if name in weights}
        waiting = [name for name in weights if name not in taken and name != OTHER]
        largest = nlargest(self._limit, waiting, key=lambda name: (weights[name], name))
        smallest = sorted(taken, key=lambda name: weights[name], reverse=True)
        for name in largest:
            if len(taken) >= self._limit:
                if not smallest or weights[name] <= _MUCH * weights[smallest[-1]]:
                    break
                taken.discard(smallest.pop())
            taken.add(name)
        return taken


def _gained(now: Counters, before: Counters | None) -> Counters:
    """Since the last look; all of it, if it is new or began again."""
    if before is None or any(one < was for one, was in zip(now, before, strict=True)):
        return now
    return tuple(one - was for one, was in zip(now, before, strict=True))
