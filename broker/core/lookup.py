"""The look-up: where a queue's message goes from here.

Law: a local cell always wins; then exact routes and aliases; a well-known name through queue routes,
`cell@node` through domain routes; then the defaults, of which each parent is one; then the dumpster.

The hot path asks `targets` only, which costs one test more where an operator has set nothing.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.messages.queue import Queue, QueueEntry
from broker.core.messages.queue_names import Spool, is_internal, queue_name_of
from sapwood.protocol import destinations
from sapwood.protocol.destinations import Destination, Kind, domain
from sapwood.protocol.names import is_incarnation
from treeconnector.relations import Relation
from treeconnector.routes import LOCAL, Route
from treeconnector.static_routes import chosen_default

_MOST_ALIASES: Final = 10_000


class LookupResult(NamedTuple):
    """The result of a look-up. `address`: after aliases. `gateways`: neighbours; any of them may take it.

    `how`: 'local', 'exact', 'queue', 'domain', 'default', 'dumpster', or 'none': it waits here.
    """

    address: Destination
    how: str
    gateways: tuple[str, ...]


class Lookup:
    """Of one node. `zone`: where this node stands, '' = nowhere in particular. `parents`: by name.

    `mine`: what may stand after the '@' for this node: its name and its incarnation. `meant` gives an
    incarnation's address with its node's name, None if it is not known; `unresolved` is told of these.
    `meshed`: is this node in a mesh, or next to one? Then what follows a route takes one of several lines.
    `leaving`: it is about to stop, and hands to the others of its mesh what it cannot deliver itself.
    `strangers`: children of the other roots of the mesh that were never linked with this one.
    """

    __slots__ = (
        *("custody", "leaving", "meshed", "mine", "neighbours", "parents", "policies", "static", "strangers"),
        *("table", "zone"),
    )

    def __init__(self, context: Context, zone: str) -> None:
        self.policies = context.policies
        self.custody = context.custody
        self.table = context.table
        self.static = context.table.static
        self.neighbours = context.neighbours
        self.parents = context.parents
        self.meshed = False
        self.leaving = False
        self.strangers: dict[str, None] = {}
        self.zone = zone
        self.mine = frozenset((context.name,))

    def __repr__(self) -> str:
        return f"<Lookup with {len(self.neighbours)} neighbours meshed={self.meshed}>"

    def _named(self, destination: Destination) -> Destination | None:
        for policy in self.policies.named:
            if (named := policy.named(destination)) is not None:
                return named
        return None

    def is_here(self, destination: Destination) -> bool:
        """Is it a cell of this node: read here, before a restart at least, or at home here?"""
        if destination.node and destination.node not in self.mine:
            return False
        queue = self.custody.queues.get(queue_name_of(destination))
        if self.custody.consumers.get(destination.name) or (queue is not None and queue.home):
            return True
        return self.table.route(destinations.queue(destination.name), LOCAL) is not None

    def address(self, destination: Destination) -> Destination:
        """The address that is meant: aliases are followed as long as nothing comes before them."""
        static = self.static
        for _ in range(_MOST_ALIASES if static.aliases else 0):
            further = static.aliases.get(destination)
            if further is None or destination in static.exact or self.is_here(destination):
                break
            destination = further
        return destination

    def targets(self, queue: Queue, *, waits: bool = True) -> frozenset[str]:
        """The neighbours that may take these entries: by live child routes, else dormant, else a default.

        `waits`: can they wait until it is known whether anybody above wants them?
        """
        destination = queue.destination
        if destination is None or queue.home or destination.node in self.mine:
            return queue.targets if destination is None else frozenset()
        if self.static.exact and (exact := self.static.exact.get(destination)):
            return frozenset(self._up_first(exact))
        if is_incarnation(destination.node):
            named = self._named(destination)
            if named is None:
                return frozenset()
            destination = named
        child = self.neighbours.get(destination.node)
        if child is not None and child.relation is Relation.CHILD and child.up:
            return frozenset((child.name,))
        routes = self.table.gateways(destination.route_key)
        if self.meshed:
            found = self._through_mesh(destination, routes.values())
            if found is None:
                found = frozenset() if self._stays(queue, waits) else self._default(destination)
            return self._or_beside(found, queue) if self.leaving else found
        below = [
            route for name, route in routes.items() if name not in self.parents and name in self.neighbours
        ]
        live = [route.gateway for route in below if route.live]
        if live:
            if destination.node:
                return frozenset((self._incumbent(live),))
            return frozenset(self._nearest(live))
        if below:
            return frozenset(route.gateway for route in below)
        if self._stays(queue, waits):
            return frozenset()
        if self.static.defaults or self.static.reserves or len(self.parents) > 1:
            return self._default(destination)
        return frozenset(self.parents)

    def spool_of(self, queue: Queue) -> Spool:
        """Where messages go that enter here and wait in a queue."""
        return Spool.UP if queue.consumers else self.spool_to(self.targets(queue))

    def spool_to(self, targets: frozenset[str]) -> Spool:
        return Spool.DOWN if targets and targets.isdisjoint(self.parents) else Spool.UP

    def way(self, destination: Destination) -> LookupResult:
        """The same for people, with the reason; nothing is kept of the question."""
        address = self.address(destination)
        if self.is_here(address) or address.node in self.mine:
            return LookupResult(address, "local", ())
        found = tuple(sorted(self.targets(self.queue_of(address))))
        return LookupResult(address, self._how(address, found), found)

    def queue_of(self, address: Destination) -> Queue:
        """Where messages for an address wait, or would wait; nothing is kept of the question."""
        name = queue_name_of(address)
        return self.custody.queues.get(name) or Queue(name, address, self.custody.paging)

    def _how(self, address: Destination, found: tuple[str, ...]) -> str:
        if not found:
            return "dumpster" if self.static.dumpster else "none"
        if address in self.static.exact:
            return "exact"
        address = self._named(address) or address if is_incarnation(address.node) else address
        child = self.neighbours.get(address.node)
        below = set(self.table.gateways(address.route_key)) - {LOCAL, *self.parents}
        if below & set(found) or (child is not None and child.relation is Relation.CHILD and child.up):
            return str(address.route_key.kind)
        return "default"

    def _incumbent(self, ways: list[str]) -> str:
        """A node is in one place: whoever claims its name later gets nothing while the older way is up."""
        return next((way for way in ways if self.neighbours[way].up), ways[0])

    def _up_first(self, names: tuple[str, ...]) -> list[str]:
        """Those that are up; all of them if none is."""
        known = [name for name in names if name in self.neighbours]
        return [name for name in known if self.neighbours[name].up] or known

    def _nearest(self, names: list[str]) -> list[str]:
        """Those that are up and stand in this node's zone; all of them if there is none."""
        if not self.zone or len(names) < 2:
            return names
        neighbours = (self.neighbours[name] for name in names)
        return [each.name for each in neighbours if each.up and each.detail.zone == self.zone] or names

    # --- in a mesh, or next to one

    def _stays(self, queue: Queue, waits: bool) -> bool:
        """Is it a queue that was made here, and that nobody off this node is known to read?

        Defaults that an operator has set take its messages all the same; so do nodes of the mesh that have
        lines which this one has not.
        """
        destination = queue.destination
        if not queue.created or destination is None or self.strangers:
            return False
        if self._added(destination):
            return False
        return not any(
            wanted or (wanted is None and not waits)
            for wanted in (policy.is_wanted(destination) for policy in self.policies.is_wanted)
        )

    def is_unread(self, queue: Queue) -> bool:
        """Is it certain that a queue that was made here is read nowhere, as far as those above have told?"""
        return queue.created and not self.targets(queue, waits=False)

    def is_read_off(self, destination: Destination, came: str) -> bool:
        """Would a queue's message of that neighbour go anywhere from here but up?

        A dumpster takes none that another node keeps: its queue exists.
        """
        address = self.address(destination)
        if address != destination or self.is_here(address) or self.strangers:
            return True
        sender = self.neighbours.get(came)
        group = sender.group if sender is not None else ""
        ways = set(self.static.exact.get(address, ())) or set(self.table.gateways(address))
        if not ways - self.parents.keys() and self._added(address):
            ways = set(self._default(address))
        ways -= self.parents.keys()
        return any(self.neighbours[name].group != group for name in ways if name in self.neighbours)

    def _through_mesh(self, destination: Destination, routes: Iterable[Route]) -> frozenset[str] | None:
        """The same where several lines lead to one place: of each mesh below, the node that the destination
        chooses; and for a child that has no line to this node, another node that has one. None: no route
        leads there.
        """
        node = destination.node
        near = self.neighbours.get(node)
        if near is not None and near.up:
            return frozenset((node,))
        found = [route for route in routes if self._leads_there(route, node)]
        ways = [route.gateway for route in found if route.live] or [route.gateway for route in found]
        if not ways and (peers := self.peers_to(node)):
            return frozenset((chosen_default(destination, peers),))
        if not ways:
            return None
        chosen = self._one_of_each(ways, destination)
        if node:
            return frozenset((self._incumbent(chosen),))
        return frozenset(self._nearest(chosen))

    def _or_beside(self, found: frozenset[str], queue: Queue) -> frozenset[str]:
        """What would wait here goes to another node of the mesh; but a queue that was made here stays."""
        peers = [name for name in self.table.mesh if self.neighbours[name].up]
        stays = queue.created or any(self.neighbours[name].up for name in found)
        if stays or not peers or queue.destination is None:
            return found
        return frozenset((chosen_default(queue.destination, peers),))

    def _leads_there(self, route: Route, node: str) -> bool:
        """Is it a way down, or one to what is wanted at another node of the mesh itself?"""
        neighbour = self.neighbours.get(route.gateway)
        if neighbour is None or neighbour.relation is Relation.PARENT:
            return False
        return neighbour.relation is Relation.CHILD or node in ("", route.gateway)

    def _one_of_each(self, ways: list[str], destination: Destination) -> list[str]:
        """One line to each queue, and always the same for a destination, while it is up."""
        groups: dict[str, list[str]] = {}
        for way in ways:
            beside = self.neighbours[way].relation is Relation.MESH
            groups.setdefault(way if beside else self.neighbours[way].group, []).append(way)
        return [self._line(self._chosen(group, destination), destination) for group in groups.values()]

    def _chosen(self, names: list[str], destination: Destination) -> str:
        if len(names) == 1:
            return names[0]
        return chosen_default(destination, self._nearest(self._up_first(tuple(names))))

    def _line(self, name: str, destination: Destination) -> str:
        """The line to a child, or to a node of the mesh that has one."""
        if self.neighbours[name].up or self.neighbours[name].relation is not Relation.CHILD:
            return name
        peers = self.peers_to(name)
        return chosen_default(destination, peers) if peers else name

    def peers_to(self, name: str) -> list[str]:
        """The nodes of the mesh that have a line to a neighbour of this node's."""
        found = []
        for peer in self.table.mesh:
            route = self.table.route(domain(name), peer)
            if route is not None and route.live and self.neighbours[peer].up:
                found.append(peer)
        return found

    def fan_out(self, asked: Iterable[str], came: str, destination: Destination) -> list[Neighbour]:
        """The neighbours below, and beside, that a topic's message goes to: of each mesh below one."""
        sender = self.neighbours.get(came)
        if sender is not None and sender.relation is Relation.MESH:
            return []
        known = [self.neighbours[name] for name in asked if name in self.neighbours and name != came]
        group = sender.group if sender is not None else ""
        below = [each.name for each in known if each.relation is Relation.CHILD and each.group != group]
        groups: dict[str, list[str]] = {}
        for name in below:
            groups.setdefault(self.neighbours[name].group, []).append(name)
        found = [self.neighbours[self._chosen(names, destination)] for names in groups.values()]
        return found + [each for each in known if each.relation is Relation.MESH]

    def is_back(self, entry: QueueEntry, neighbour: Neighbour) -> bool:
        """Is this neighbour where it came from: the very node, or another one of its mesh above or below?"""
        if entry.came == neighbour.name or not self.meshed or neighbour.relation is Relation.MESH:
            return entry.came == neighbour.name
        sender = self.neighbours.get(entry.came)
        return sender is not None and sender.group == neighbour.group

    # --- what no route names

    def _default(self, destination: Destination) -> frozenset[str]:
        """One of the defaults that are up, chosen by the destination; each parent is one of them.

        Those in this node's zone are preferred, so that what leaves it does so over one line of several.
        """
        known = self._nearest(self._up_first(tuple({*self.parents, *self._added(destination)})))
        if self.table.mesh and not any(self.neighbours[name].up for name in known):
            known = sorted({peer for name in self.parents for peer in self.peers_to(name)}) or known
            known = known or self._peers_to_strangers()
        return frozenset((chosen_default(destination, known),)) if known else frozenset()

    def _added(self, destination: Destination) -> tuple[str, ...]:
        """The neighbours that an operator has set for what no route names."""
        defaults = self.static.defaults
        if defaults and (is_internal(destination) or self._is_above(destination.node)):
            defaults = ()
        return (*defaults, *self.static.reserves.get(destination, ()))

    def _is_above(self, node: str) -> bool:
        """Is it known to be up the way? Over another default its messages might go in a circle."""
        details = (parent.detail for parent in self.parents.values())
        return any(node in each.chain or node in each.above for each in details)

    def _peers_to_strangers(self) -> list[str]:
        """Who is linked with nodes that this one does not know may know the way."""
        found: set[str] = set()
        for name in self.strangers:
            found.update(self.peers_to(name))
            if len(found) == len(self.table.mesh):
                break
        return sorted(found)

    def parent_for(self, destination: Destination) -> Neighbour | None:
        """The parent over which this destination's messages go up: always the same while that is up."""
        if len(self.parents) < 2:
            return next(iter(self.parents.values()), None)
        return self.parents[self._chosen(list(self.parents), destination)]

    def look_for(self, queue: Queue) -> None:
        """There is no way from this queue: if it is an incarnation's that is not known, or was made here and
        is read nowhere, ask for that.
        """
        node = queue.destination.node if queue.destination is not None else ""
        if is_incarnation(node) and node not in self.mine:
            for policy in self.policies.is_unknown:
                policy.is_unknown(queue)
        elif queue.created and not queue.home:
            for policy in self.policies.is_kept:
                policy.is_kept(queue)

    def is_unroutable(self, queue: Queue) -> bool:
        """Is it for the dumpster: a queue's address that is no cell here, and that nothing else takes?

        A queue that was made here is this node's own, whether it is read now or not.
        """
        destination = queue.destination
        if destination is None or destination.kind != Kind.QUEUE or destination.node in self.mine:
            return False
        if is_incarnation(destination.node):
            return False
        return not (queue.created or queue.home or queue.consumers) and not self.is_here(destination)
