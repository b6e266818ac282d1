"""Bounded labels: the largest have a name of their own, all others together are `other`.

Law: a counter never falls, be it a named one or the rest's. So the rest is no difference of totals: what
each unnamed one has gained since the last look is added to it. And a name stays once it was given: it goes
only with what it names, or to something more than twice as large. So the labels that exist over a day are
few as well, not only those of one answer.

Law: there may be very many, so all is done in steps, between which the node may do other work.

Wrinkle: what is really called `other` never has a name of its own: it is counted with the rest.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, Final, Protocol, TypeVar

OTHER: Final = "other"
_MUCH: Final = 2.0
_MOST_WAITING: Final = 1000
STEP: Final = 50
"""Items of one step: less than a millisecond."""

Counters = tuple[float, ...]
Item = TypeVar("Item")


class Sums(Protocol):
    """Of some of the things that are counted."""

    def add(self, item: Any, /) -> None: ...


SumsOf = TypeVar("SumsOf", bound=Sums)


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

    def counters(self, name: str) -> Counters:
        """Of one that has a name, as it was seen last; of `other`, the rest's."""
        return self.rest if name == OTHER else self._before[name]

    def look(self, seen: Iterable[tuple[str, float | None, Counters]]) -> Generator[None, None, set[str]]:
        """Go over all there is, some items a step; returns who has a name then. One look at a time.

        `seen`: name, weight (None: it may have no name), and as many counters as `width` said.
        """
        now: dict[str, Counters] = {}
        kept: dict[str, float] = {}
        waiting: list[tuple[float, str]] = []
        for number, (name, weight, counters) in enumerate(seen):
            now[name] = counters
            if name in self._taken and weight is not None:
                kept[name] = weight
            elif weight is not None and name != OTHER:
                waiting.append((weight, name))
                if len(waiting) > _MOST_WAITING + self._limit:
                    waiting = nlargest(self._limit, waiting)
            if number % STEP == 0:
                yield
        named = self._taken = self._seat(kept, nlargest(self._limit, waiting))
        for number, (name, counters) in enumerate(now.items()):
            before = self._before.get(name)
            if name not in named and counters != before:
                gained = _gained(counters, before)
                self._rest = [rest + more for rest, more in zip(self._rest, gained, strict=True)]
            self._before[name] = counters
            if number % STEP == 0:
                yield
        for number, name in enumerate(list(self._before)):
            if name not in now:
                del self._before[name]
            if number % STEP == 0:
                yield
        return named

    def _seat(self, kept: Mapping[str, float], largest: list[tuple[float, str]]) -> set[str]:
        taken = set(kept)
        smallest = sorted(taken, key=lambda name: kept[name], reverse=True)
        for weight, name in largest:
            if len(taken) >= self._limit:
                if not smallest or weight <= _MUCH * kept[smallest[-1]]:
                    break
                taken.discard(smallest.pop())
            taken.add(name)
        return taken


def summed(
    seats: LabelLimit,
    items: Callable[[], Iterable[tuple[str, Item]]],
    weigh: Callable[[Item], float | None],
    count: Callable[[Item], Counters],
    make: Callable[[], SumsOf],
) -> Generator[None, None, dict[str, SumsOf]]:
    """The sums of each item that has a name, in order, and those of all others; some items a step."""
    named = yield from seats.look((name, weigh(item), count(item)) for name, item in items())
    found: dict[str, SumsOf] = {}
    rest, is_needed = make(), any(seats.rest)
    for number, (name, item) in enumerate(items()):
        if name in named:
            found[name] = make()
            found[name].add(item)
        else:
            rest.add(item)
            is_needed = True
        if number % STEP == 0:
            yield
    found = {name: found[name] for name in sorted(found)}
    return {**found, OTHER: rest} if is_needed else found


def _gained(now: Counters, before: Counters | None) -> Counters:
    """Since the last look; all of it, if it is new or began again."""
    if before is None or any(one < was for one, was in zip(now, before, strict=True)):
        return now
    return tuple(one - was for one, was in zip(now, before, strict=True))
