"""The neighbourhood: who is linked with this node, and what follows when a link comes up or goes.

Law: a link that is down keeps its routes. A child's queue and domain routes fall asleep when it stays away;
those of a child that another node of the mesh has a line to do not.
"""

from collections.abc import Iterable

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.lookup import Lookup
from broker.core.messages.queue_names import Spool
from broker.core.neighbours.handover import Handover
from broker.core.operations.static_routing import StaticRouting
from broker.core.policies.permits import ChildPermits
from broker.core.policy import Policy
from broker.core.routing.forwarding import Forwarder
from broker.core.tree.ancestry import Ancestry
from sapwood.protocol.destinations import domain
from treeconnector.advisories import Held
from treeconnector.link_events import Event, PeerPaused
from treeconnector.relations import Relation


class Neighbourhood(Policy):
    """The neighbours of one node, by relation."""

    __slots__ = ("_ancestry", "_context", "_forwarder", "_handover", "_lookup", "_permits", "_static_routing")

    def __init__(
        self,
        context: Context,
        forwarder: Forwarder,
        lookup: Lookup,
        ancestry: Ancestry,
        permits: ChildPermits,
        static_routing: StaticRouting,
        handover: Handover,
    ) -> None:
        self._context = context
        self._forwarder = forwarder
        self._lookup = lookup
        self._ancestry = ancestry
        self._permits = permits
        self._static_routing = static_routing
        self._handover = handover
        context.custody.spools.parents = context.parents

    def __repr__(self) -> str:
        return f"<Neighbourhood of {self._context.name} parents={len(self._context.parents)}>"

    def parents(self) -> list[Neighbour]:
        return list(self._context.parents.values())

    # --- who comes and goes

    def add(self, name: str, relation: Relation) -> Neighbour:
        """A neighbour that is new; its link is down."""
        context, permits = self._context, self._permits
        queue = context.custody.queue_named(f"link:{name}")
        context.table.relate(name, relation)
        held = Held(context.table, name, permits.limits(name), permits.legality(relation))
        made = context.neighbours[name] = Neighbour(name, relation, queue, held)
        permits.welcome(made)
        queue.targets = frozenset((name,))
        queue.spool = Spool.UP if relation is Relation.PARENT else Spool.DOWN
        if relation is Relation.PARENT:
            context.parents[name] = made
        self._lookup.strangers.pop(name, None)
        if relation is not Relation.CHILD:
            self.look_again()
        return made

    def neighbour_gone(self, neighbour: Neighbour, cause: str) -> None:
        """Its routes are withdrawn. Whoever says that it is gone sees to what waits for it."""
        context, name = self._context, neighbour.name
        del context.neighbours[name]
        while neighbour.wants:
            neighbour.next_wanted()
        context.table.relate(name, Relation.CHILD)
        context.parents.pop(name, None)
        self._permits.gone(neighbour)
        if neighbour.relation is Relation.PARENT:
            self._ancestry.look()
        if self._lookup.meshed:
            self.look_again()
            self.meet((name, *self._lookup.strangers))

    def look_again(self) -> None:
        """Is this node in a mesh now, or next to one? And which neighbours are of one mesh?"""
        context = self._context
        for neighbour in context.neighbours.values():
            if neighbour.detail.mesh or neighbour.kin:
                neighbour.stand_with(context.neighbours)
        in_mesh = len(context.parents) > 1 or bool(context.table.mesh)
        self._lookup.meshed = in_mesh or any(child.detail.mesh for child in context.children())

    def meet(self, names: Iterable[str]) -> None:
        """Which of these are linked with another root of the mesh, and were never with this one? What finds
        no way here goes to that root. (A branch waits for its parent, who does not know it before.)
        """
        context, table = self._context, self._context.table
        if context.role.has_parent:
            return
        strangers, more = self._lookup.strangers, False
        for name in names:
            elsewhere = any(table.route(domain(name), peer) for peer in table.mesh)
            if elsewhere and name not in context.neighbours and name not in context.members:
                more = more or name not in strangers
                strangers[name] = None
            else:
                strangers.pop(name, None)
        if more:
            queues = context.custody.queues.values()
            self._forwarder.look_again(
                queue for queue in queues if queue.waiting and queue.destination and not queue.targets
            )

    # --- links

    def wake(self, neighbour: Neighbour) -> None:
        """A link is up: its routes are live again."""
        self._wake(neighbour)
        self._context.log_link("up", neighbour)

    def said(self, neighbour: Neighbour, event: Event) -> None:
        if isinstance(event, PeerPaused):
            neighbour.error = event.text or "paused"

    def go_on(self, neighbour: Neighbour) -> None:
        """A link is up, and all that has to be known of each other was said: what waits goes on."""
        context, forwarder = self._context, self._forwarder
        if neighbour.queue.messages:
            neighbour.want(neighbour.queue)
        self._static_routing.link_changed(neighbour)
        if neighbour.relation is Relation.PARENT:
            forwarder.look_again(context.custody.queues.values())
        else:
            forwarder.routes_changed(context.table.routes_of(neighbour.name))
        forwarder.pump(neighbour)
        if self._lookup.meshed:
            self._handover.look_soon()

    def link_down(self, neighbour: Neighbour) -> None:
        context = self._context
        context.log_link("down", neighbour)
        self._static_routing.link_changed(neighbour)
        self.rest_while_down(neighbour)
        if neighbour.relation is Relation.MESH:
            for child in context.children():
                self.line_elsewhere(child.name)
        if self._lookup.meshed:
            self._handover.look(neighbour)
            self._go_other_ways(neighbour)

    def _go_other_ways(self, neighbour: Neighbour) -> None:
        """A line has gone that others can stand in for: what waits for it goes their way."""
        context, forwarder = self._context, self._forwarder
        if neighbour.relation is Relation.CHILD:
            forwarder.routes_changed(context.table.routes_of(neighbour.name))
            return
        queues = context.custody.queues.values()
        forwarder.look_again(
            queue for queue in queues if neighbour.name in queue.targets and queue is not neighbour.queue
        )

    def rest_while_down(self, neighbour: Neighbour) -> None:
        """A child that stays away makes its queue and node routes dormant."""
        context, since = self._context, neighbour.since
        if neighbour.relation is Relation.PARENT:
            return

        def sleep() -> None:
            current = context.neighbours.get(neighbour.name)
            if current is neighbour and not neighbour.up and neighbour.since == since:
                self._sleep(neighbour)

        context.clock.after(context.settings.dormant_after, sleep)

    def _sleep(self, neighbour: Neighbour) -> None:
        """Unless another node of the mesh has a line to it: then it is looked at when that goes."""
        if not neighbour.dormant and not self._lookup.peers_to(neighbour.name):
            neighbour.dormant = True
            neighbour.held.set_dormant()

    def line_elsewhere(self, name: str) -> None:
        """Another node of the mesh has a line to a child, or has none any more."""
        neighbour = self._context.neighbours.get(name)
        if neighbour is None or neighbour.up or neighbour.relation is not Relation.CHILD:
            return
        if self._lookup.peers_to(name):
            self._wake(neighbour)
            self._handover.look(neighbour)
        else:
            self.rest_while_down(neighbour)

    @staticmethod
    def _wake(neighbour: Neighbour) -> None:
        if neighbour.dormant:
            neighbour.dormant = False
            neighbour.held.set_live()
