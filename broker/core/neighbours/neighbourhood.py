"""The neighbourhood: who is linked with this node, and what follows when a link comes up or goes.

Law: a link that is down keeps its routes. A child's queue and domain routes fall asleep when it stays away;
those of a child that another node of the mesh has a line to do not.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from broker.core.links.neighbour import Neighbour
from broker.core.messages.custody import Spool
from treeconnector.advisories import Held
from treeconnector.destinations import domain
from treeconnector.relations import Relation

if TYPE_CHECKING:
    from broker.core.node import NodeCore


class Neighbourhood:
    """The neighbours of one node, by relation."""

    def __init__(self, core: "NodeCore") -> None:
        self._core = core

    def __repr__(self) -> str:
        core = self._core
        return f"<Neighbourhood of {core.identity.name} parents={len(core.forwarder.parents)}>"

    def parents(self) -> list[Neighbour]:
        return list(self._core.forwarder.parents.values())

    # --- who comes and goes

    def add(self, name: str, relation: Relation) -> Neighbour:
        """A neighbour that is new; its link is down."""
        core = self._core
        queue = core.custody.queue_named(f"link:{name}")
        core.table.relate(name, relation)
        permitting = core.permitting
        held = Held(core.table, name, permitting.limits(name), permitting.legality(relation))
        made = core.neighbours[name] = Neighbour(name, relation, queue, held)
        permitting.welcome(made)
        queue.targets = frozenset((name,))
        queue.spool = Spool.UP if relation is Relation.PARENT else Spool.DOWN
        if relation is Relation.PARENT:
            core.forwarder.parents[name] = made
            core.custody.spools.parents.add(name)
        core.forwarder.strangers.discard(name)
        if relation is not Relation.CHILD:
            self.look_again()
        return made

    def remove(self, neighbour: Neighbour) -> None:
        """It is a neighbour no more. The caller has withdrawn its routes, and sees to what waits for it."""
        core, name = self._core, neighbour.name
        del core.neighbours[name]
        core.table.relate(name, Relation.CHILD)
        core.forwarder.parents.pop(name, None)
        core.custody.spools.parents.discard(name)
        core.permitting.gone(neighbour)
        if neighbour.relation is Relation.PARENT:
            core.ancestry.look()
        if core.forwarder.meshed:
            self.look_again()
            self.meet((name, *core.forwarder.strangers))

    def look_again(self) -> None:
        """Is this node in a mesh now, or next to one? And which neighbours are of one mesh?"""
        core = self._core
        for neighbour in core.neighbours.values():
            if neighbour.detail.mesh or neighbour.kin:
                neighbour.stand_with(core.neighbours)
        in_mesh = len(core.forwarder.parents) > 1 or bool(core.table.mesh)
        core.forwarder.meshed = in_mesh or any(child.detail.mesh for child in self._core.context.children())

    def meet(self, names: Iterable[str]) -> None:
        """Which of these are linked with another root of the mesh, and were never with this one? What finds
        no way here goes to that root. (A branch waits for its parent, who does not know it before.)
        """
        if self._core.role.has_parent:
            return
        core, strangers, more = self._core, self._core.forwarder.strangers, False
        for name in names:
            elsewhere = any(core.table.route(domain(name), peer) for peer in core.table.mesh)
            if elsewhere and name not in core.neighbours and name not in core.mesh.members:
                more = more or name not in strangers
                strangers.add(name)
            else:
                strangers.discard(name)
        for queue in list(core.custody.queues.values()) if more else ():
            if queue.waiting and queue.destination is not None and not queue.targets:
                core.forwarder.dispatch(queue)

    def why_not_below(self, gateway: str, name: str) -> str:
        """A child cannot have below it what is here, beside or above."""
        core = self._core
        if core.ancestry.may_administer(name) or name in core.mesh.members:
            return f"{name!r} is this node, beside it or above it: it cannot be below {gateway!r}"
        return ""

    # --- links

    def link_up(self, neighbour: Neighbour, held_count: int, held_digest: bytes) -> None:
        """A link is up: routes wake, offers are compared, what waits goes on."""
        core = self._core
        self._wake(neighbour)
        self.log_link("up", neighbour)
        self._tell_since_hello(neighbour)
        core.permitting.greet(neighbour)
        offers = core.advising.offers_to(neighbour)
        offered = core.permitting.offered(neighbour, offers)
        if neighbour.link is not None and (held_count, held_digest) != offered:
            core.advising.tell_all(neighbour, neighbour.link, offers)
        core.mesh.line_changed(neighbour)
        neighbour.want(neighbour.queue)
        core.static_routing.link_changed(neighbour)
        if neighbour.relation is Relation.PARENT:
            for queue in list(core.custody.queues.values()):
                core.forwarder.dispatch(queue)
        else:
            for key in list(core.table.routes_of(neighbour.name)):
                core.forwarder.route_changed(key)
        core.forwarder.pump(neighbour)
        if core.forwarder.meshed:
            core.handover.look_soon()

    def _tell_since_hello(self, neighbour: Neighbour) -> None:
        """What has changed while the link came up, for our hello was made before."""
        core, link = self._core, neighbour.link
        if link is None or neighbour.relation is Relation.MESH:
            return
        said, now = (link.hello.chain, link.hello.above), (core.chain, core.ancestry.further)
        if neighbour.relation is Relation.CHILD and said != now:
            link.send_chain(*now)
        if link.hello.mesh != core.mesh.said:
            link.send_mesh(core.mesh.said)

    def link_down(self, neighbour: Neighbour) -> None:
        core = self._core
        self.log_link("down", neighbour)
        core.static_routing.link_changed(neighbour)
        core.mesh.line_changed(neighbour)
        self.rest_while_down(neighbour)
        if neighbour.relation is Relation.MESH:
            for child in self._core.context.children():
                self.line_elsewhere(child.name)
        if core.forwarder.meshed:
            core.handover.look(neighbour)
            self._go_other_ways(neighbour)

    def _go_other_ways(self, neighbour: Neighbour) -> None:
        """A line has gone that others can stand in for: what waits for it goes their way."""
        core = self._core
        if neighbour.relation is Relation.CHILD:
            for key in list(core.table.routes_of(neighbour.name)):
                core.forwarder.route_changed(key)
            return
        for queue in list(core.custody.queues.values()):
            if neighbour.name in queue.targets and queue is not neighbour.queue:
                core.forwarder.dispatch(queue)

    def log_link(self, op: str, neighbour: Neighbour) -> None:
        self._core.chronicle.link(op, neighbour.name, neighbour.relation.direction)

    def rest_while_down(self, neighbour: Neighbour) -> None:
        """A child that stays away makes its queue and node routes dormant."""
        core, since = self._core, neighbour.since
        if neighbour.relation is Relation.PARENT:
            return

        def sleep() -> None:
            current = core.neighbours.get(neighbour.name)
            if current is neighbour and not neighbour.up and neighbour.since == since:
                self._sleep(neighbour)

        core.clock.after(core.settings.dormant_after, sleep)

    def _sleep(self, neighbour: Neighbour) -> None:
        """Unless another node of the mesh has a line to it: then it is looked at when that goes."""
        if not neighbour.dormant and not self._core.forwarder.peers_to(neighbour.name):
            neighbour.dormant = True
            neighbour.held.set_dormant()

    def line_elsewhere(self, name: str) -> None:
        """Another node of the mesh has a line to a child, or has none any more."""
        neighbour = self._core.neighbours.get(name)
        if neighbour is None or neighbour.up or neighbour.relation is not Relation.CHILD:
            return
        if self._core.forwarder.peers_to(name):
            self._wake(neighbour)
            self._core.handover.look(neighbour)
        else:
            self.rest_while_down(neighbour)

    @staticmethod
    def _wake(neighbour: Neighbour) -> None:
        if neighbour.dormant:
            neighbour.dormant = False
            neighbour.held.set_live()
