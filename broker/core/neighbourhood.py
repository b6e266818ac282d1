"""The neighbourhood: who is linked with this node, and what follows when a link comes up or goes.

Law: a link that is down keeps its routes. A child's queue and domain routes fall asleep when it stays away.
"""

from typing import TYPE_CHECKING

import msgspec

from broker.core.custody import Spool
from broker.core.neighbours import Neighbour
from broker.core.rows import MetaRow
from treeconnector.advisories import Held, Limits
from treeconnector.destinations import Kind
from treeconnector.held import anything_goes
from treeconnector.relations import Relation
from treeconnector.routes import Route

if TYPE_CHECKING:
    from broker.core.node import NodeCore


class Neighbourhood:
    """The neighbours of one node, by relation."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core

    def __repr__(self) -> str:
        core = self._core
        return f"<Neighbourhood of {core.identity.name} parents={len(core.forwarder.parents)}>"

    def children(self) -> list[Neighbour]:
        neighbours = self._core.neighbours.values()
        return [neighbour for neighbour in neighbours if neighbour.relation is Relation.CHILD]

    def parents(self) -> list[Neighbour]:
        return list(self._core.forwarder.parents.values())

    # --- who comes and goes

    def add(self, name: str, relation: Relation) -> Neighbour:
        """A neighbour that is new; its link is down."""
        core, settings = self._core, self._core.settings
        place = core.custody.place(f"link:{name}")
        core.table.relate(name, relation)
        limits = Limits(settings.max_routes, settings.max_filter_length, settings.max_levels)
        legality = self._why_not_from_below if relation is Relation.CHILD else anything_goes
        made = core.neighbours[name] = Neighbour(
            name, relation, place, Held(core.table, name, limits, legality)
        )
        place.targets = frozenset((name,))
        place.spool = Spool.UP if relation is Relation.PARENT else Spool.DOWN
        if relation is Relation.PARENT:
            core.forwarder.parents[name] = made
            core.custody.spools.parents.add(name)
        return made

    def remove(self, neighbour: Neighbour) -> None:
        """It is a neighbour no more. The caller has withdrawn its routes, and sees to what waits for it."""
        core, name = self._core, neighbour.name
        del core.neighbours[name]
        core.table.relate(name, Relation.CHILD)
        core.forwarder.parents.pop(name, None)
        core.custody.spools.parents.discard(name)

    def _why_not_from_below(self, route: Route) -> str:
        """A child cannot have below it what is here or above."""
        if route.key.kind == Kind.DOMAIN and route.key.name in self._core.chain:
            return f"{route.key.name!r} is this node or above it: it cannot be below {route.gateway!r}"
        return ""

    # --- links

    def link_up(self, neighbour: Neighbour, held_count: int, held_digest: bytes) -> None:
        """A link is up: routes wake, offers are compared, what waits goes on."""
        core = self._core
        self._wake(neighbour)
        self.log_link("up", neighbour)
        offers = core.advising.offers_to(neighbour)
        if neighbour.link is not None and (held_count, held_digest) != (offers.count, offers.digest):
            core.advising.tell_all(neighbour, neighbour.link, offers)
        neighbour.want(neighbour.place)
        core.static_routing.link_changed(neighbour)
        if neighbour.relation is Relation.PARENT:
            for place in list(core.custody.places.values()):
                core.forwarder.dispatch(place)
        else:
            for key in list(core.table.routes_of(neighbour.name)):
                core.forwarder.route_changed(key)
        core.forwarder.pump(neighbour)

    def link_down(self, neighbour: Neighbour) -> None:
        self.log_link("down", neighbour)
        self._core.static_routing.link_changed(neighbour)
        self.rest_while_down(neighbour)

    def log_link(self, op: str, neighbour: Neighbour) -> None:
        self._core.chronicle.link(op, neighbour.name, neighbour.relation.direction)

    def rest_while_down(self, neighbour: Neighbour) -> None:
        """A child that stays away makes its queue and node routes dormant."""
        core, since = self._core, neighbour.since
        if neighbour.relation is not Relation.CHILD:
            return

        def sleep() -> None:
            current = core.neighbours.get(neighbour.name)
            if current is neighbour and not neighbour.up and neighbour.since == since:
                neighbour.dormant = True
                neighbour.held.set_dormant()

        core.moment.after(core.settings.dormant_after, sleep)

    @staticmethod
    def _wake(neighbour: Neighbour) -> None:
        if neighbour.dormant:
            neighbour.dormant = False
            neighbour.held.set_live()

    # --- the way up

    def set_chain(self, chain: list[str]) -> None:
        """Our chain of names up to the root, ourselves first; children learn a change at once."""
        core = self._core
        if chain == core.chain:
            return
        core.chain = chain
        core.custody.transaction.put(MetaRow("chain", msgspec.msgpack.encode(chain)))
        core.chronicle.chain(core.root.known_way(chain))
        for neighbour in self.children():
            if neighbour.link is not None and neighbour.up:
                neighbour.link.send_chain(chain)
