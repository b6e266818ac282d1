"""A tree of node cores whose every step is chosen by hand: literal times, lines that can be cut anywhere.

Nothing happens by itself: the caller says who takes a turn, whose commit returns, which packets arrive;
`settle` lets everything happen until nothing more does. `simulation.world` is the other way to run the same
sites: there time passes by itself.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

from broker.core.settings import CoreSettings
from simulation.clients import Producer, SimulatedClient, SimulatedConsumer
from simulation.site import Site
from simulation.wire import Wire
from treeconnector.link import LinkSettings

AnyClient = TypeVar("AnyClient", bound=SimulatedClient)

QUICK = CoreSettings(linger=0.0, dormant_after=1.0, reattach_time=5.0, probe_time=1.0)
LINKS = LinkSettings(window_bundles=8, keep_alive=5.0, dead_after=2.0, handshake_timeout=5.0)


class Forest:
    """All sites, wires and clients of one test, and the time. `cut_off`: pairs between which no line is."""

    site_type: ClassVar[type[Site]] = Site

    def __init__(self, settings: CoreSettings = QUICK, links: LinkSettings = LINKS) -> None:
        self.now = 1000.0
        self.sites: dict[str, Site] = {}
        self.wires: list[Wire] = []
        self.clients: list[SimulatedClient] = []
        self.settings, self.links = settings, links
        self.cut_off: list[set[str]] = []

    # --- sites

    def add(self, name: str, parent: str = "", role: str = "", **changes: Any) -> Site:
        """A site that runs. `changes`: of its `CoreSettings`; `links`, `mesh`, `zone`: as of `Site`."""
        role = role or ("leaf" if parent else "root")
        links = changes.pop("links", self.links)
        given = {key: changes.pop(key) for key in ("mesh", "zone") if key in changes}
        settings = replace(self.settings, **changes)
        site = self.sites[name] = self.site_type(self, name, parent, role, settings, links, **given)
        site.boot()
        return site

    def grow(self, *places: tuple[str, ...], seconds: float = 0.0) -> Self:
        """Sites that are linked and at rest. Each place: name, parent, role."""
        for place in places:
            self.add(*place)
        self.dial_all()
        self.settle(seconds)
        return self

    def add_mesh(self, *names: str, parent: str = "") -> None:
        """Roots, or branches below `parent`, that are one; the file of each names all others."""
        for name in names:
            beside = [other for other in names if other != name]
            self.add(name, parent, "branch" if parent else "root", mesh=beside)

    def __getitem__(self, name: str) -> Site:
        return self.sites[name]

    def crashed(self, site: Site) -> None:
        for wire in list(self.wires):
            if site in (wire.child, wire.parent):
                self.cut(wire, lost={"up", "down"})
        for client in self.clients:
            if client.site is site:
                client.gone()

    # --- lines

    def wire_of(self, child: str, parent: str = "") -> Wire | None:
        """The wire that a site has dialled, to `parent` if there may be several."""
        found = (wire for wire in self.wires if wire.child.name == child)
        return next((wire for wire in found if parent in ("", wire.parent.name)), None)

    def dial(self, child: str) -> Wire | None:
        """Connect a site with the first parent that its file names, if both run and it has no wire."""
        return self._dial(child, next(iter(self.sites[child].ways), ""), mesh=False)

    def _dial(self, child: str, parent: str, *, mesh: bool) -> Wire | None:
        site, other = self.sites[child], self.sites.get(parent)
        if other is None or not site.running or not other.running:
            return None
        if self.wire_of(child, parent) or self.wire_of(parent, child):
            return None
        if {child, parent} in self.cut_off:
            return None
        wire = Wire(site, other, mesh=mesh)
        self.wires.append(wire)
        return wire

    def dial_all(self) -> bool:
        """Dial as the nodes of these sites would: parents and nodes of the mesh as far as they are known."""
        dialled: list[Wire | None] = []
        for name, site in self.sites.items():
            if not site.running:
                continue
            dialled += [self._dial(name, other, mesh=True) for other in site.core.mesh.to_dial()]
            parents = (*site.ways, *site.core.mesh.parents_to_dial())
            dialled += [self._dial(name, parent, mesh=False) for parent in parents]
        return any(wire is not None for wire in dialled)

    def cut(self, wire: Wire, lost: Iterable[str] = ("up", "down")) -> None:
        """The line breaks. Packets on their way are lost, or arrive before it is noticed."""
        self.wires.remove(wire)
        for name, (_, target, way) in zip(("up", "down"), wire.sides(), strict=True):
            if name not in lost:
                wire.deliver(way, target)
        for source, _, way in wire.sides():
            if source.running:
                source.core.advance(source.now)
                source.core.lost(way.source, "the line was cut")

    def reap(self) -> bool:
        """End wires whose link is over at one end, as the drivers do: last words first."""
        moved = False
        for wire in list(self.wires):
            over = [way for site, _, way in wire.sides() if way.source not in site.core.links.peers]
            if not over:
                continue
            wire.pull()
            for _, target, way in wire.sides():
                if way in over:
                    wire.deliver(way, target)
            for site, _, way in wire.sides():
                if way.source.end_text:
                    site.errors.append(way.source.end_text)
            self.cut(wire)
            moved = True
        for site in self.sites.values():
            if site.running:
                site.core.links.closing.clear()
        return moved

    # --- everything

    def step(self) -> bool:
        """Let everything that can happen now happen once. Whether anything did."""
        moved = self.reap()
        for site in self.sites.values():
            if site.running:
                moved |= site.run()
        for wire in list(self.wires):
            moved |= wire.pull()
            for _, target, way in wire.sides():
                if way.packets:
                    moved |= wire.deliver(way, target)
        for client in self.clients:
            moved |= client.act()
        return moved

    def settle(self, seconds: float = 0.0) -> None:
        """Until nothing more happens, and then for `seconds` more, a fifth of a second at a time."""
        end = self.now + seconds
        while True:
            for _ in range(10_000):
                if not self.step():
                    break
            else:
                raise AssertionError("the tree does not come to rest")
            soonest = min((site.soonest() for site in self.sites.values() if site.running), default=end)
            due = False
            while not due:
                if self.now >= end:
                    return
                self.now += min(0.2, max(end - self.now, 0.001))
                due = (self.now >= soonest or self.now >= end) and self._tick()

    def pass_time(self, seconds: float) -> bool:
        """Whether anything was due in any site: else nothing happens that would not have happened before."""
        self.now += seconds
        return self._tick()

    def _tick(self) -> bool:
        due = [site.tick() for site in self.sites.values() if site.running]
        return any(due)

    def heal(self, seconds: float = 40.0) -> None:
        """Everything runs and is connected, for as long as everything needs to find its way."""
        for site in self.sites.values():
            if not site.running:
                site.boot()
        end = self.now + seconds
        while self.now < end:
            self.reap()
            self.dial_all()
            self.settle(1.0)

    # --- clients

    def producer(self, site: str, name: str = "producer") -> "Producer":
        return self._client(Producer(self.sites[site], name))

    def consumer(
        self, site: str, destination: str, name: str = "consumer", **options: Any
    ) -> "SimulatedConsumer":
        return self._client(SimulatedConsumer(self.sites[site], destination, name, **options))

    def _client(self, client: AnyClient) -> AnyClient:
        self.clients.append(client)
        client.connect()
        return client
