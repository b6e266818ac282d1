"""The ways to one parent: those of the file in their order, and in place of a `srv://` what DNS says.

Law: DNS is asked each time when its turn comes: at the start, after a link was lost, and in each round of
ways that all failed. So a parent that has moved is found without a restart.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

from bridges.location.errors import LocationError
from broker.location.finder import Finder, Wanted
from config.model import ClientTls, Site, TreeConnector
from config.uris import address


@dataclass(frozen=True, slots=True)
class Way:
    """One address to dial. `finder`: who found it, None for one of the file."""

    uri: str
    finder: Finder | None = None


def finders_of(site: Site, connector: TreeConnector) -> dict[str, Finder]:
    """One for each srv:// of a connector."""
    wanted = Wanted(
        tree=site.tree,
        servers=connector.name_servers,
        timeout=site.link.connect_timeout,
        secure=connector.tls != ClientTls() or connector.user is not None,
    )
    return {uri: Finder(uri, wanted) for uri in connector.ways if address(uri).scheme == "srv"}


class Ways:
    """Gives one way after the other, round and round."""

    def __init__(self, uris: tuple[str, ...], finders: dict[str, Finder]) -> None:
        self._uris = uris
        self._left: deque[str] = deque()
        self._found: deque[Way] = deque()
        self.finders = finders

    def __repr__(self) -> str:
        return f"<Ways {' '.join(self._uris)} left={len(self._left)} found={len(self._found)}>"

    async def next(self) -> Way:
        """The next one to try. Raises `LocationError` where only DNS is left, and says nothing."""
        failed: LocationError | None = None
        for _ in range(2 * len(self._uris)):
            if self._found:
                break
            if not self._left:
                if failed is not None:
                    raise failed
                self._left.extend(self._uris)
            uri = self._left.popleft()
            finder = self.finders.get(uri)
            if finder is None:
                return Way(uri)
            try:
                await finder.look()
                self._found.extend(Way(each, finder) for each in finder.ways())
            except LocationError as error:
                failed = error
        if not self._found and failed is not None:
            raise failed
        return self._found.popleft()

    def restart(self) -> None:
        """A link was up: begin with the first way again."""
        self._left.clear()
        self._found.clear()

    async def moved(self, way: Way) -> str:
        """Return, saying why, once DNS has said that the parent is not at `way` any more.

        Twice in a row, a TTL apart: one odd answer cuts no link that works. On request, once is enough.
        """
        finder = way.finder
        assert finder is not None
        missed = 0
        while True:
            asked = await finder.due()
            if not await finder.look():
                continue
            missed = 0 if finder.names(way.uri) else missed + 1
            if missed and (asked or missed > 1):
                return f"DNS for {finder.domain} names {way.uri} no more"

    def status(self) -> list[dict[str, Any]]:
        return [finder.status() for finder in self.finders.values()]
