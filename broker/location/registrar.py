"""Keeps this node's own records in DNS: one SRV and one TXT for each address at which children reach it.

Law: a record lives by its beat. This node changes its beat four times in a lease; whoever registers in the
same domain removes what nobody has renewed for a lease (see `bridges.dns.leases`), and what an earlier
start of itself has left. On SIGTERM the records go at once.
Law: a server that is away, or refuses, stops nothing but this: it is said once, and tried again for ever.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from tenacity import RetryCallState, retry_if_exception_type

from bridges.dns.errors import LocationError, without_library
from bridges.dns.leases import Leases
from bridges.dns.records import NamedParent
from broker.pauses import retrying
from config.credentials import registration_key
from config.model import Site
from config.uris import address

if TYPE_CHECKING:
    from bridges.dns.zone import Records, Registered, Zone

_log = logging.getLogger("sapwood.location")
_RENEWALS: Final = 4
_LAST_WORDS: Final = 3.0


class Directory(Protocol):
    """`bridges.dns.zone.Zone`, or what a test puts in its place."""

    async def read(self) -> "Records": ...

    async def change(self, remove: Iterable[Any], add: Iterable[NamedParent], ttl: int) -> None: ...


def zone_of(site: Site) -> "Zone":
    """The zone that a site's file names. Raises `SapwoodError`: no library, no key, a key that cannot be."""
    try:
        from bridges.dns.zone import Zone, ZoneAccess
    except ModuleNotFoundError as error:
        raise without_library(error) from None
    given, key = site.registration, registration_key(site)
    assert given.domain
    assert given.server
    assert given.key_name
    assert key is not None
    return Zone(
        ZoneAccess(
            domain=given.domain,
            zone=given.zone or given.domain,
            server=given.server,
            key_name=given.key_name,
            secret=key.reveal(),
            algorithm=given.key_algorithm,
            timeout=site.link.connect_timeout,
        )
    )


def own_places(site: Site, incarnation: str, beat: int) -> list[NamedParent]:
    """The ways to this node that it registers. `beat`: how often it has renewed them."""
    given = site.registration
    return [
        NamedParent(
            uri=address(uri).uri,
            priority=given.priority + index,
            weight=given.weight,
            tree=site.tree,
            node=site.name,
            incarnation=incarnation,
            beat=str(beat),
            lease=float(max(round(given.lease), 1)),
        )
        for index, uri in enumerate(site.listener.announced)
    ]


class Registrar:
    """Of one node. `state`: 'registering', 'registered', 'waiting' (it failed) or 'withdrawn'.

    `renewals`: how often the records were written. `swept`: records of others that were removed.
    """

    def __init__(
        self,
        site: Site,
        incarnation: str,
        directory: Directory,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._site = site
        self._incarnation = incarnation
        self._directory = directory
        self._clock = clock
        self._leases = Leases()
        self._renewed = 0.0
        self._told = False
        self.state = "registering"
        self.error = ""
        self.failures = 0
        self.renewals = 0
        self.swept = 0

    def __repr__(self) -> str:
        return f"<Registrar {self._site.registration.domain} {self.state} renewals={self.renewals}>"

    @property
    def ttl(self) -> int:
        """Seconds for which others may remember the records."""
        return max(int(self._site.registration.lease / _RENEWALS), 1)

    async def run(self) -> None:
        """Until cancelled; then the records are withdrawn."""
        try:
            while True:
                await retrying(self._site.link, retry_if_exception_type(LocationError), self._failed)(
                    self.renew
                )
                await asyncio.sleep(self._site.registration.lease / _RENEWALS)
        finally:
            await self._last_words()

    async def renew(self) -> None:
        """Write the records anew and remove those whose time is over. Raises `LocationError`."""
        records = await self._directory.read()
        own = own_places(self._site, self._incarnation, self.renewals + 1)
        before = [each for each in records.texts if self._is_own(each)]
        others = [each for each in records.texts if each.place is not None and each not in before]
        lapsed = self._leases.lapsed([each.place for each in others if each.place], self._clock())
        gone = [each for each in others if each.place in lapsed]
        leaving = [*before, *gone]
        removed = [*(each.record for each in leaving), *records.serving(leaving, own)]
        self._told = True
        await self._directory.change(removed, own, self.ttl)
        self.renewals += 1
        self._renewed = self._clock()
        for each in gone:
            self._swept(each)
        if self.state != "registered":
            ways = ", ".join(place.uri for place in own)
            _log.info("= registered in DNS for %s: %s", self._site.registration.domain, ways)
        self.state, self.error, self.failures = "registered", "", 0

    def _is_own(self, registered: "Registered") -> bool:
        """Ours, of this start or one before. A record that another tree has in the domain is not."""
        place = registered.place
        return place is not None and (place.tree, place.node) == (self._site.tree, self._site.name)

    def _swept(self, registered: "Registered") -> None:
        self.swept += 1
        place = registered.place
        assert place is not None
        _log.warning(
            "! DNS for %s: removed %s of %s, which has not renewed it in its lease of %g s",
            *(self._site.registration.domain, place.uri, place.node or "nobody", place.lease),
        )

    async def withdraw(self) -> None:
        """Remove the records of this start. Raises `LocationError`."""
        records = await self._directory.read()
        own = [
            each
            for each in records.texts
            if self._is_own(each) and each.place and each.place.incarnation == self._incarnation
        ]
        await self._directory.change(
            [*(each.record for each in own), *records.serving(own, ())], (), self.ttl
        )
        self.state = "withdrawn"
        _log.info("= withdrawn from DNS for %s", self._site.registration.domain)

    async def _last_words(self) -> None:
        if not self._told:
            return
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await self.withdraw()
        except (LocationError, TimeoutError) as error:
            reason = str(error) or f"no answer within {_LAST_WORDS:g} s"
            lease = self._site.registration.lease
            _log.warning(
                "! not withdrawn from DNS (%s): the records end with their lease of %g s", reason, lease
            )

    def _failed(self, state: RetryCallState) -> None:
        self.failures += 1
        error = state.outcome.exception() if state.outcome else None
        text = str(error)
        if text != self.error:
            fields = {"domain": self._site.registration.domain, "reason": text}
            _log.warning(
                "! not registered in DNS for %s: %s", self._site.registration.domain, text, extra=fields
            )
        self.state, self.error = "waiting", text

    def status(self) -> dict[str, Any]:
        return {
            "domain": self._site.registration.domain,
            "server": self._site.registration.server,
            "ways": list(self._site.listener.announced),
            "state": self.state,
            "renewals": self.renewals,
            "renewed_s": round(self._clock() - self._renewed, 3) if self.renewals else None,
            "lease_s": self._site.registration.lease,
            "swept": self.swept,
            "failures": self.failures,
            "error": self.error,
        }
