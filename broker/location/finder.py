"""What DNS says of one `srv://DOMAIN`: looked up, remembered, put in order.

Law: a DNS that is away, or takes no changes, cuts nothing off: the last good answer counts until there is
another one, and ways whose lease has ended are left out only while there are others.
Law: DNS proves nothing. Where the connector says `tls` or has a password, no way without TLS is taken.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from bridges.dns.errors import LocationError, without_library
from bridges.dns.leases import Leases
from bridges.dns.records import NamedParent, in_order
from config.uris import LAN, address

if TYPE_CHECKING:
    from bridges.dns.lookup import LookupResult

_log = logging.getLogger("sapwood.location")
_AFTER_FAILURE: Final = 5.0
_BEHIND_ALL: Final = 65_536
"""One more than a priority can be (RFC 2782)."""


class LookUp(Protocol):
    """`bridges.dns.lookup.look_up`, or what a test puts in its place."""

    async def __call__(self, domain: str, *, servers: Sequence[str], timeout: float) -> "LookupResult": ...


@dataclass(frozen=True, slots=True)
class ParentWanted:
    """What this node looks for. `secure`: over TLS only."""

    tree: str
    servers: tuple[str, ...] = ()
    timeout: float = 10.0
    secure: bool = False


async def ask_dns(domain: str, *, servers: Sequence[str], timeout: float) -> "LookupResult":
    """Ask DNS. Raises `LocationError`, also where the library for it is not installed."""
    try:
        from bridges.dns.lookup import look_up
    except ModuleNotFoundError as error:
        raise without_library(error) from None
    return await look_up(domain, servers=servers, timeout=timeout)


class Finder:
    """Of one domain. `lookups`, `failures`: how many, ever. `error`: of the latest look-up, '' if good.

    `places`: of the latest good answer, all that could be used. `anybody`: whoever is on the same network may
    have answered.
    """

    def __init__(
        self,
        uri: str,
        wanted: ParentWanted,
        *,
        look_up: LookUp = ask_dns,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self.domain = address(uri).host
        self.anybody = uri == LAN
        self._source = "the same network" if self.anybody else f"DNS for {self.domain}"
        self._wanted = wanted
        self._look_up = look_up
        self._clock = clock
        self._chance = chance or random.Random()
        self._leases = Leases()
        self._lapsed: frozenset[NamedParent] = frozenset()
        self._asked = asyncio.Event()
        self._due = 0.0
        self.places: tuple[NamedParent, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.error = ""
        self.lookups = 0
        self.failures = 0

    def __repr__(self) -> str:
        counts = f"places={len(self.places)} lookups={self.lookups} failures={self.failures}"
        return f"<Finder {self.domain} {counts}>"

    async def look(self) -> bool:
        """Ask DNS now. True if it gave a good answer; else the one before still counts, if there was one.

        Raises `LocationError` where there is none.
        """
        self.lookups += 1
        wanted = self._wanted
        try:
            answer = await self._look_up(self.domain, servers=wanted.servers, timeout=wanted.timeout)
            self._take(answer)
        except LocationError as error:
            self.failures += 1
            self._due = self._clock() + _AFTER_FAILURE
            self._say(str(error))
            if not self.places:
                raise
            return False
        self._say("")
        return True

    def _take(self, answer: "LookupResult") -> None:
        now = self._clock()
        usable, notes = [], list(answer.notes)
        for place in answer.places:
            why = self._objection(place)
            if why:
                notes.append(f"left out {place.uri}: {why}")
            else:
                usable.append(place)
        if tuple(notes) != self.notes:
            for note in notes:
                _log.warning("! %s: %s", self._source, note, extra={"domain": self.domain, "reason": note})
        self.notes = tuple(notes)
        if not usable:
            raise LocationError(f"{self._source} names no way for us: {'; '.join(notes)}")
        self._lapsed = self._leases.lapsed(usable, now)
        self.places = tuple(usable)
        self._due = now + answer.ttl

    def _objection(self, place: NamedParent) -> str:
        if place.tree and place.tree != self._wanted.tree:
            return f"it is of tree {place.tree!r}, we are of {self._wanted.tree!r}"
        if self._wanted.secure and not address(place.uri).tls:
            return (
                "it goes without TLS, and this connector has TLS or a password: no answer can take that away"
            )
        return ""

    def _say(self, error: str) -> None:
        """Once for each new text."""
        if error and error != self.error:
            _log.warning("! %s", error, extra={"domain": self.domain, "reason": error})
        elif self.error and not error:
            _log.info("= %s answers again", self._source, extra={"domain": self.domain})
        self.error = error

    def ways(self) -> list[str]:
        """The ways that DNS names, by priority and weight: drawn anew at each call."""
        living = [place for place in self.places if place not in self._lapsed]
        return list(dict.fromkeys(place.uri for place in in_order(living or self.places, self._chance)))

    def names(self, uri: str) -> bool:
        """Whether the latest good answer names this way, lapsed or not."""
        return any(place.uri == uri for place in self.places)

    def priority(self, uri: str) -> int:
        """That of this way in the latest good answer; behind all where it is not named there."""
        return min((place.priority for place in self.places if place.uri == uri), default=_BEHIND_ALL)

    def ask(self) -> None:
        """On request: whoever waits in `due` looks now."""
        self._asked.set()

    async def due(self) -> bool:
        """Wait for the end of the TTL, or for a request: True if it was a request."""
        try:
            async with asyncio.timeout(max(self._due - self._clock(), 0.0)):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True

    def status(self) -> dict[str, Any]:
        return {
            "domain": self.domain,
            "ways": [
                {
                    "uri": place.uri,
                    "node": place.node,
                    "priority": place.priority,
                    "weight": place.weight,
                    "lapsed": place in self._lapsed,
                }
                for place in self.places
            ],
            "next_s": round(max(self._due - self._clock(), 0.0), 3),
            "lookups": self.lookups,
            "failures": self.failures,
            "error": self.error,
            "notes": list(self.notes),
        }
