"""The other nodes of a mesh, found in DNS: whoever registers under one domain is dialled by all the others.

Law: DNS proves nothing. A node that it names is of the mesh once it has proved the secret of the mesh; until
then nobody is told of it.
"""

from typing import TYPE_CHECKING, Final

from bridges.dns.errors import LocationError
from broker.host import Host
from config.model import ClientTls, Site
from config.schemes import LOOKED_UP

if TYPE_CHECKING:
    from broker.location.finder import Finder

_MOST: Final = 31


def finder_of(site: Site) -> "Finder | None":
    """The domain under which the nodes of this node's mesh register; None: its file names none."""
    mesh = site.mesh
    named = f"{LOOKED_UP}://{site.registration.domain}" if site.registration.domain else None
    implied = named if site.scheme == "core" and (mesh.secret_env or mesh.secret_file) else None
    uri = mesh.uri or implied
    if uri is None:
        return None
    from broker.location.finder import Finder, ParentWanted

    wanted = ParentWanted(
        tree=site.tree,
        servers=mesh.name_servers,
        timeout=site.link.connect_timeout,
        secure=mesh.tls != ClientTls(),
    )
    return Finder(uri, wanted)


class CoreFinder:
    """Looks for the others as long as the node runs: at each end of the TTL, and on request."""

    def __init__(self, host: Host, finder: "Finder") -> None:
        self._host = host
        self.finder = finder

    def __repr__(self) -> str:
        return f"<CoreFinder {self.finder.domain}: {', '.join(sorted(self._named())) or 'nobody'}>"

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.finder.look()
            except LocationError:
                pass  # the finder has said so; what is linked stays
            else:
                self._host.core.mesh.registered(self._named())
            await self.finder.due()

    def _named(self) -> dict[str, list[str]]:
        """The ways to each node that says its name, in the order in which to try them."""
        found: dict[str, list[str]] = {}
        living = set(self.finder.ways())
        for place in sorted(self.finder.places, key=lambda place: (place.priority, place.uri)):
            if place.node and place.uri in living and (place.node in found or len(found) < _MOST):
                found.setdefault(place.node, []).append(place.uri)
        return found
