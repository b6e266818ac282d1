"""The ways to one parent: those of the file in their order, and in place of a `srv://` what DNS says; each
over each line of this node; in the order that the strategy makes of them.

Law: DNS is asked each time when its turn comes: at the start, after a link was lost, in each round of ways
that all failed, and while a link goes over a way behind its own. So a parent that has moved is found without
a restart.
Law: an address that the parent has announced is tried when all that the file says has failed, and is one more
way for the strategy; only the node that announced it may be there.
Law: whoever is on the same network may answer `srv://local`. It is asked while there is no link alone, in its
turn, or, where a strategy wants all ways together, when the others have failed; its answers move no link.
Law: a link goes back to a better way once that was reachable twice in a row; if going back does not last, the
next time is twice as far.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bridges.dns.errors import LocationError
from broker.location.strategies import InOrder, Strategy, Way, strategy_of
from config.model import ClientTls, Site, TreeConnector
from config.uris import LAN, address

if TYPE_CHECKING:
    from broker.location.finder import Finder

__all__ = ["Way", "Ways", "finders_of", "ways_of"]

_LONGER: Final = 16
_AGAIN: Final = 2
"""How often in a row a better way is reachable before the link goes back to it."""


def finders_of(site: Site, connector: TreeConnector) -> "dict[str, Finder]":
    """One for each srv:// of a connector; `srv://local` is asked for by multicast."""
    looked_up = [uri for uri in connector.ways if address(uri).looked_up]
    if not looked_up:
        return {}
    from broker.location.finder import Finder, ParentWanted, ask_dns
    from broker.location.lan import asking

    wanted = ParentWanted(
        tree=site.tree,
        servers=connector.name_servers,
        timeout=site.link.connect_timeout,
        secure=(
            connector.tls != ClientTls()
            or connector.user is not None
            or any(address(uri).tls for uri in connector.ways if not address(uri).looked_up)
        ),
    )
    return {
        uri: Finder(uri, wanted, look_up=asking(connector.local_addresses) if uri == LAN else ask_dns)
        for uri in looked_up
    }


def ways_of(site: Site, connector: TreeConnector) -> "Ways":
    """The ways of a connector."""
    return Ways(
        connector.ways,
        finders_of(site, connector),
        lines=connector.local_addresses,
        strategy=strategy_of(connector.strategy, site.name),
        go_back=connector.go_back,
    )


class Ways:
    """Gives one way after the other, round and round.

    `one_of_many`: tells whether the addresses lead to several parents, each of which has a link of its own:
    then another address is no better way. `announced`: gives the addresses that the parent has said of
    itself, with its name. `lines`: local addresses to bind, none = as the system chooses.
    `go_back`: seconds between two looks for a better way while a link is up, 0 = never. `sleep`, `clock`:
    seconds; a test's own.
    """

    def __init__(
        self,
        uris: tuple[str, ...],
        finders: "dict[str, Finder]",
        *,
        lines: Sequence[str] = (),
        strategy: Strategy | None = None,
        go_back: float = 0.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uris = uris
        self._left: deque[Way] = deque()
        self._found: deque[Way] = deque()
        self._pairs: deque[Way] = deque()
        self._lines = tuple(lines) or ("",)
        self._strategy = strategy or InOrder()
        self._go_back = self._pause = go_back
        self._went_back = -float("inf")
        self._others_failed = False
        self._sleep = sleep
        self._clock = clock
        self.one_of_many: Callable[[], bool] = lambda: False
        self.announced: Callable[[], Mapping[str, str]] = dict
        self.finders = finders

    def __repr__(self) -> str:
        left = len(self._left) + len(self._pairs)
        return f"<Ways {' '.join(self._uris)} left={left} found={len(self._found)}>"

    async def next(self) -> Way:
        """The next one to try. Raises `LocationError` where only DNS is left, and says nothing."""
        if not self._pairs:
            addresses = [await self._address()] if self._strategy.lazy else await self._addresses()
            self._pairs.extend(await self._strategy.order(self._over_lines(addresses)))
        return self._pairs.popleft()

    async def _address(self) -> Way:
        """The next address, whatever the line."""
        failed: LocationError | None = None
        for _ in range(2 * len(self._uris)):
            if self._found:
                break
            if not self._left:
                if failed is not None:
                    raise failed
                self._left.extend([*map(Way, self._uris), *self._further()])
            way = self._left.popleft()
            finder = self.finders.get(way.uri)
            if finder is None:
                return way
            try:
                await finder.look()
                self._found.extend(Way(each, finder) for each in finder.ways())
            except LocationError as error:
                failed = error
        if not self._found and failed is not None:
            raise failed
        return self._found.popleft()

    async def _addresses(self) -> list[Way]:
        """All addresses at once; those that anybody may have told in the round after all others have failed.

        Raises `LocationError` where there is none.
        """
        failed: LocationError | None = None
        for _ in range(2):
            of_anybody, self._others_failed = self._others_failed, not self._others_failed
            for finder in self.finders.values():
                if finder.anybody == of_anybody:
                    try:
                        await finder.look()
                    except LocationError as error:
                        failed = error
            if found := self._known(of_anybody=of_anybody):
                return found
        raise failed or LocationError("nothing says where the parent is")

    def _known(self, *, of_anybody: bool = False) -> list[Way]:
        """All addresses, as the file, the latest answers of DNS and the parent have them; or those others."""
        found: list[Way] = []
        for uri in self._uris:
            finder = self.finders.get(uri)
            if finder is None:
                found += [] if of_anybody else [Way(uri)]
            elif finder.anybody == of_anybody:
                found += [Way(each, finder) for each in finder.ways()]
        return found if of_anybody else [*found, *self._further()]

    def _further(self) -> list[Way]:
        """The addresses that the parent has announced, and neither the file nor DNS says."""
        return [
            Way(uri, name=name)
            for uri, name in self.announced().items()
            if uri not in self._uris and not any(finder.names(uri) for finder in self.finders.values())
        ]

    def _over_lines(self, addresses: list[Way]) -> list[Way]:
        """Each address over each line; the lines take turns at the first address, then at the second."""
        steps = {way: self._step(way) for way in (*self._known(), *addresses)}
        ordered = sorted(set(steps.values()))
        places = {step: number * len(self._lines) for number, step in enumerate(ordered)}
        return [
            replace(way, local=line, place=places[steps[way]] + number)
            for way in addresses
            for number, line in enumerate(self._lines)
        ]

    def _step(self, way: Way) -> tuple[int, int]:
        """The smaller the better: where its URI stands in the file, then the priority that DNS gives it."""
        finder = way.finder
        return self._index(way), finder.priority(way.uri) if self._may_be_unnamed(way) and finder else 0

    def _index(self, way: Way) -> int:
        """Where the URI stands in the file that is, or found, a way; behind all if it was announced."""
        if way.name:
            return len(self._uris)
        named = next((uri for uri, finder in self.finders.items() if finder is way.finder), way.uri)
        return self._uris.index(named)

    def restart(self) -> None:
        """A link was up: begin with the first way again."""
        self._left.clear()
        self._found.clear()
        self._pairs.clear()
        self._others_failed = False

    def follows(self, way: Way) -> bool:
        """Whether a link over this way may have to leave it while it works; see `moved`."""
        return self._may_be_unnamed(way) or self._may_go_back

    @staticmethod
    def _may_be_unnamed(way: Way) -> bool:
        return way.finder is not None and not way.finder.anybody

    @property
    def _may_go_back(self) -> bool:
        dns = any(not finder.anybody for finder in self.finders.values())
        several = dns or len(self._uris) * len(self._lines) > 1 or bool(self._further())
        return self._go_back > 0 and several

    async def moved(self, way: Way) -> str:
        """Return, saying why, once a link should leave `way`: DNS names it no more, or a better one works."""
        reasons: list[Coroutine[Any, Any, str]] = []
        if way.finder is not None and not way.finder.anybody:
            reasons.append(self._unnamed(way, way.finder))
        if self._may_go_back:
            reasons.append(self._back(way))
            reasons += [self._looked_up(way, finder) for finder in self._of_better_ways(way)]
        waiting = [asyncio.ensure_future(reason) for reason in reasons]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for each in waiting:
                each.cancel()

    async def _unnamed(self, way: Way, finder: "Finder") -> str:
        """DNS says so twice in a row, a TTL apart: one odd answer cuts nothing. On request once is enough."""
        missed = 0
        while True:
            asked = await finder.due()
            if not await finder.look():
                continue
            missed = 0 if finder.names(way.uri) else missed + 1
            if missed and (asked or missed > 1):
                return f"DNS for {finder.domain} names {way.uri} no more"

    async def _back(self, way: Way) -> str:
        lasted = self._clock() - self._went_back > 2 * self._pause
        self._pause = self._go_back if lasted else min(2 * self._pause, _LONGER * self._go_back)
        seen = 0
        while seen < _AGAIN:
            await self._sleep(self._pause)
            better = await self._better(way)
            seen = seen + 1 if better is not None else 0
        self._went_back = self._clock()
        return _goes_to(better, way)

    async def _better(self, way: Way) -> Way | None:
        """Than this one, as it stands now: DNS may have given it another priority since it was dialled."""
        known = [each for each in self._known() if each.uri == way.uri or not self.one_of_many()]
        pairs = self._over_lines(known)
        present = next((each for each in pairs if (each.uri, each.local) == (way.uri, way.local)), way)
        return await self._strategy.better(present, pairs)

    def _of_better_ways(self, way: Way) -> "list[Finder]":
        """The domains that may name a better way than this one, which none of them has named."""
        found = []
        for place, uri in enumerate(self._uris):
            finder = self.finders.get(uri)
            behind = self._strategy.lazy and place > self._index(way)
            if finder is not None and finder is not way.finder and not (finder.anybody or behind):
                found.append(finder)
        return found

    async def _looked_up(self, way: Way, finder: "Finder") -> str:
        """DNS is asked also while the link goes over none of its ways; on request the link goes to a better
        one at once.
        """
        while True:
            asked = await finder.due()
            try:
                await finder.look()
            except LocationError:
                continue  # the finder has said so
            better = await self._better(way) if asked else None
            if better is not None:
                return _goes_to(better, way)

    def status(self) -> list[dict[str, Any]]:
        return [finder.status() for finder in self.finders.values()]


def _goes_to(better: Way | None, way: Way) -> str:
    return f"{better} is better than {way}, and can be reached"
