"""In which order the ways to a parent are tried, where there are several addresses and several lines out.

A way is a pair: the local address that is bound, which chooses the line (LAN, LTE, VPN), and the address that
is dialled. A strategy orders pairs, and says when a better one than the present can be reached again.
Neither address says who the parent is, or who we are.

Law: a strategy forgets nothing that works: what it puts last is still tried.

Four are here. A package adds others: its entry point `sapwood.address_strategies` is a callable that takes
the node's name and returns a `Strategy`.
"""

import asyncio
import hashlib
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from bridges.dns.errors import LocationError
from config.strategies import GROUP, why_not
from config.uris import address

if TYPE_CHECKING:
    from broker.location.finder import Finder

PROBE_TIMEOUT: Final = 3.0
_DROPPED_WITHIN: Final = 0.2
_WORTH_IT: Final = 0.8
_WORTH_SECONDS: Final = 0.002
_NEVER: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Way:
    """One address to dial. `finder`: who found it, None for one of the file. `local`: what is bound, '' = as
    the system chooses. `place`: from 0, where the pair stands in the file and in DNS. `name`: the node that
    has announced it and alone may be there, '' = the file or DNS leads to whoever it is.
    """

    uri: str
    finder: "Finder | None" = None
    local: str = ""
    place: int = 0
    name: str = ""

    def __str__(self) -> str:
        return f"{self.uri} from {self.local}" if self.local else self.uri

    @property
    def of_anybody(self) -> bool:
        """Whether whoever is on the same network may have told it."""
        return self.finder is not None and self.finder.anybody


Reach = Callable[[Way], Awaitable[float | None]]
"""Seconds that a connection takes to be made, None if none can be."""


async def reach(way: Way) -> float | None:
    """Make a connection, see that nobody on the way drops it at once, and drop it. Nothing is said."""
    from bridges.carriers.websocket import line_to  # most nodes look for no better way

    place, began = address(way.uri), time.monotonic()
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            line = await line_to(place.host, place.port, way.local)
    except (OSError, TimeoutError):
        return None
    took = time.monotonic() - began
    try:
        async with asyncio.timeout(_DROPPED_WITHIN):
            await asyncio.get_running_loop().sock_recv(line, 1)
    except TimeoutError:
        return took
    except OSError:
        return None
    finally:
        line.close()
    return None


class Strategy(Protocol):
    """`lazy`: pairs are wanted one address after the other, as their turn comes; else all together."""

    lazy: bool

    async def order(self, ways: list[Way]) -> list[Way]:
        """All of them, best first."""

    async def better(self, present: Way, ways: Iterable[Way]) -> Way | None:
        """A better one than the present, which can be reached now."""


class InOrder:
    """As they stand in the file: the first that works, and back to an earlier one when it works again."""

    lazy = True

    def __init__(self, reach: Reach = reach) -> None:
        self._reach = reach

    async def order(self, ways: list[Way]) -> list[Way]:
        return ways

    async def better(self, present: Way, ways: Iterable[Way]) -> Way | None:
        for way in sorted(ways, key=self.rank):
            if self.rank(way) < self.rank(present) and await self._reach(way) is not None:
                return way
        return None

    def rank(self, way: Way) -> int:
        """The lower the better. All ways that one name in DNS gives one priority are equal."""
        return way.place


class LoadShared(InOrder):
    """Each node has an order of its own, made from its name: many nodes spread, one stays where it is."""

    lazy = False

    def __init__(self, name: str, reach: Reach = reach) -> None:
        super().__init__(reach)
        self._name = name

    async def order(self, ways: list[Way]) -> list[Way]:
        return sorted(ways, key=self.rank)

    def rank(self, way: Way) -> int:
        drawn = hashlib.sha256("\0".join((self._name, way.uri, way.local)).encode()).digest()
        return int.from_bytes(drawn[:8], "big")


class Random:
    """Drawn anew in each round; none is better than another."""

    lazy = False

    def __init__(self, chance: random.Random | None = None) -> None:
        self._chance = chance or random.Random()

    async def order(self, ways: list[Way]) -> list[Way]:
        return self._chance.sample(ways, len(ways))

    async def better(self, present: Way, ways: Iterable[Way]) -> Way | None:
        return None


class LeastLatency:
    """The one where a connection is made soonest; all are measured at the same time, before each round."""

    lazy = False

    def __init__(self, reach: Reach = reach) -> None:
        self._reach = reach

    async def order(self, ways: list[Way]) -> list[Way]:
        took = await self._measure(ways)
        return sorted(ways, key=lambda way: took[way])

    async def better(self, present: Way, ways: Iterable[Way]) -> Way | None:
        """One that is faster by a fifth and 2 ms: what is about the same is not worth a new link."""
        took = await self._measure([*dict.fromkeys((present, *ways))])
        best = min(took, key=lambda way: took[way])
        return best if took[best] + _WORTH_SECONDS < took[present] * _WORTH_IT else None

    async def _measure(self, ways: list[Way]) -> dict[Way, float]:
        found = await asyncio.gather(*(self._reach(way) for way in ways))
        return {way: _NEVER if took is None else took for way, took in zip(ways, found, strict=True)}


def strategy_of(word: str, name: str) -> Strategy:
    """The strategy that a site's file names. `name`: of the node. Raises `LocationError` where one that is
    installed cannot be made.
    """
    made: dict[str, Callable[[], Strategy]] = {
        "in-order": InOrder,
        "random": Random,
        "least-latency": LeastLatency,
        "load-shared": lambda: LoadShared(name),
    }
    return made[word]() if word in made else _installed(word, name)


def _installed(word: str, name: str) -> Strategy:
    from importlib.metadata import entry_points

    found = entry_points(group=GROUP, name=word)
    if not found:
        raise LocationError(why_not(word))
    try:
        made: Strategy = next(iter(found)).load()(name)
    except Exception as error:
        raise LocationError(f"the installed strategy {word!r} cannot be made: {error!r}") from error
    return made
