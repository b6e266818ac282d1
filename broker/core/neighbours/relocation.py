"""Relocation: a name becomes live elsewhere, two nodes have one name, a neighbour is none any more.

A node that sees one name below two children asks down the older way whether it is still there. If not, the
old parent lets go: it withdraws the name and sends on what it kept for it, marked where it may have arrived.
If it is, the later link is refused: down the newer way goes a conflict.
"""

from collections.abc import Iterable
from typing import Final

from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.neighbours.demand import Demand
from broker.core.neighbours.following import Following
from broker.core.policies.loans import Loans
from broker.core.policy import Policy
from broker.core.rows import LinkRow
from broker.core.tree.open_links import OpenLinks
from sapwood.protocol.destinations import Kind, domain
from sapwood.protocol.errors import Refusal
from treeconnector import link_events as events
from treeconnector.advisories import MOVED, RESYNC
from treeconnector.frames import Advice
from treeconnector.relations import Relation

CONFLICT: Final = "conflict"
_MOST_SAID: Final = 10_000


class Relocation(Policy):
    """Settles who is where, and where the spool of a neighbour goes that has left."""

    __slots__ = ("_context", "_demand", "_following", "_links", "_loans", "_looks", "_said")

    def __init__(
        self, context: Context, links: OpenLinks, loans: Loans, following: Following, demand: Demand
    ) -> None:
        self._context = context
        self._demand = demand
        self._links = links
        self._loans = loans
        self._following = following
        self._said: dict[str, tuple[float, set[str]]] = {}
        self._looks = False

    def __repr__(self) -> str:
        return f"<Relocation at {self._context.name}>"

    def said(self, neighbour: Neighbour, event: events.Event) -> None:
        match event:
            case events.PeerMoved(name) if neighbour.relation is Relation.PARENT:
                self.told(name, neighbour)
            case events.PeerConflict(name, text) if neighbour.relation is Relation.PARENT:
                self.conflict(name, text)
            case _:
                pass  # it is for another policy

    def name_came(self, neighbour: Neighbour, advice: Advice) -> None:
        """A child says that a name is below it. Is it somewhere else too?

        What it says of a name that moved may be older than its being told: it lets go, or says that it is a
        conflict.
        """
        context, name = self._context, advice.name
        ways = dict.fromkeys((*context.table.gateways(domain(name)), name))
        below = self._others(neighbour, ways)
        if advice.cause == CONFLICT:
            neighbour.untold.pop(name, None)
            self._pass_conflict(neighbour, below, advice)
        elif name not in neighbour.untold:
            self._tell_others(name, below)

    def _pass_conflict(self, neighbour: Neighbour, below: list[Neighbour], advice: Advice) -> None:
        """The way that knew a name first says that it is still there: the other way refuses it."""
        text = f"{advice.name!r} is live below {neighbour.name!r} already: stop one of the two"
        for other in below:
            if other.link is not None:
                other.link.say.conflict(advice.name, text)
            elif other.name == advice.name:
                self.forget(other, moved=True)
            else:
                other.untold[advice.name] = None
        if not below:
            self._tell_parent(advice)

    def _tell_parent(self, advice: Advice) -> None:
        for parent in self._context.parents.values():
            if parent.link is not None:
                parent.link.say.advise([advice])

    def name_rests(self, neighbour: Neighbour, name: str) -> None:
        """A child misses a name. If it is live elsewhere, it has moved."""
        if self._live_elsewhere(neighbour, name):
            self._tell(neighbour, name)

    def settle(self, neighbour: Neighbour) -> None:
        """A child is back. Tell it of names that went elsewhere while it was away, and the others that it is
        here; and look again when it has had the time to say what has changed below it.
        """
        context, untold = self._context, neighbour.untold
        neighbour.untold = {}
        for name in (neighbour.name, *untold):
            others = self._others(neighbour, context.table.gateways(domain(name)))
            if context.table.route(domain(name), neighbour.name) is None or not others:
                continue
            if name == neighbour.name:
                self._tell_others(name, others)
            else:
                self._tell(neighbour, name)
        link = neighbour.link

        def look_again() -> None:
            if (
                neighbour.link is link
                and link is not None
                and context.neighbours.get(neighbour.name) is neighbour
            ):
                self._compare(neighbour)

        context.clock.after(context.settings.probe_time, look_again)

    def _compare(self, neighbour: Neighbour) -> None:
        """Where names below a child are below another one too, that is wrong whose way is not live."""
        context = self._context
        for key, route in list(context.table.routes_of(neighbour.name).items()):
            if key.kind != Kind.DOMAIN or context.table.spread(key)[0] < 2 or key.name in neighbour.untold:
                continue
            others = self._others(neighbour, context.table.gateways(key))
            if any(other.up for other in self._live_elsewhere(neighbour, key.name)):
                self._tell(neighbour, key.name)
            elif route.live:
                self._tell_others(key.name, others)

    def _live_elsewhere(self, neighbour: Neighbour, name: str) -> list[Neighbour]:
        """The other children with a live way to a name, but for those that were told to let go of it.

        Such a child's word may be older than its being told. If it counted, both would let go, and nobody
        would keep anything for that node while it is away.
        """
        ways = self._context.table.gateways(domain(name))
        others = self._others(neighbour, ways)
        return [each for each in others if ways[each.name].live and name not in each.untold]

    def _others(self, neighbour: Neighbour, ways: Iterable[str]) -> list[Neighbour]:
        """The other children among these; those of one mesh are one."""
        return [other for other in self._below(ways) if other.group != neighbour.group]

    def _below(self, ways: Iterable[str]) -> list[Neighbour]:
        context = self._context
        found = [context.neighbours[way] for way in ways if way in context.neighbours]
        return [neighbour for neighbour in found if neighbour.relation is Relation.CHILD]

    def _tell_others(self, name: str, others: list[Neighbour]) -> None:
        """Other ways led to a node that is live below a child: one of them may be its own link."""
        for other in others:
            if other.name == name:
                self.moved(name)
            else:
                self._tell(other, name)

    def _tell(self, below: Neighbour, name: str) -> None:
        """Say *moved* down a way; and again when it is there again, if it does not let go before.

        What is on its way there may come when it has let go: what topics have there follows the name at once.
        """
        below.untold[name] = None
        if below.link is not None:
            self._demand.tell_now(below)
            below.link.say.moved(name)
            self._following.left(below, name)

    def gone(self, neighbour: Neighbour, name: str, cause: str) -> None:
        """`name` is no more below a child. If it moved, what topics still have for it there follows it."""
        told = name in neighbour.untold
        neighbour.untold.pop(name, None)
        if told:
            return
        if self._has_left(neighbour, cause) or self._following.elsewhere(neighbour.name, name):
            self._following.left(neighbour, name)

    def _has_left(self, neighbour: Neighbour, cause: str) -> bool:
        """Does a name that is no more below a child come up elsewhere? Another node of the mesh may have told
        the child so while this one was away. A child that lost its database knows nobody, and they come back.
        """
        return cause == MOVED or (
            cause == RESYNC and bool(self._context.table.mesh) and not neighbour.starts_anew
        )

    def told(self, name: str, parent: Neighbour) -> None:
        """A parent says that `name` is live elsewhere. Of several, all are to know first: one that had lost
        the old way, and did not know the new one, would let a topic's message pass by. One that is away for
        long is not waited for; nor is anybody for the oldest of too many names.
        """
        context = self._context
        _, said = self._said.setdefault(name, (context.clock.now + context.settings.dormant_after, set()))
        said.add(parent.name)
        if said.issuperset(context.parents):
            self._believe(name)
        elif len(self._said) > _MOST_SAID:
            self._believe(next(iter(self._said)))
        self._look_later()

    def _believe(self, name: str) -> None:
        del self._said[name]
        self.moved(name)

    def _look_later(self) -> None:
        """One timer for all of them: the first is that which has waited for longest."""
        if self._said and not self._looks:
            self._looks = True
            due, _ = self._said[next(iter(self._said))]
            self._context.clock.after(max(due - self._context.clock.now, 0.0), self._look)

    def _look(self) -> None:
        self._looks = False
        for name in [name for name, (due, _) in self._said.items() if due <= self._context.clock.now]:
            self._believe(name)
        self._look_later()

    def moved(self, name: str) -> None:
        """`name` is live elsewhere. If it is our child: is it gone? Else pass it on."""
        context = self._context
        neighbour = context.neighbours.get(name)
        if neighbour is None or neighbour.relation is not Relation.CHILD:
            for below in self._below(list(context.table.gateways(domain(name)))):
                self._tell(below, name)
            return
        holder = neighbour.link
        if holder is None:
            self.forget(neighbour, moved=True)
            return
        heard = holder.heard_at
        holder.probe(context.clock.now)

        def decide() -> None:
            now_there = context.neighbours.get(name)
            if now_there is not neighbour:
                return
            current = neighbour.link
            if current is not None and (current is not holder or holder.heard_at > heard):
                self._still_here(name)
            else:
                self._links.drop(neighbour, "moved")
                self.forget(neighbour, moved=True)

        context.clock.after(context.settings.probe_time, decide)

    def _still_here(self, name: str) -> None:
        """Two nodes have one name; the one that was here first keeps it."""
        context = self._context
        route = context.table.route(domain(name), name)
        self._tell_parent(
            Advice("live", Kind.DOMAIN, name, name, CONFLICT, route.reads if route is not None else 0)
        )
        for other in self._below(list(context.table.gateways(domain(name)))):
            if other.name != name and other.link is not None:
                other.link.say.conflict(
                    name, f"{name!r} is live at {context.name!r} already: stop one of the two"
                )

    def conflict(self, name: str, text: str) -> None:
        """From above: the later link to `name` is to be refused. Here, or further down."""
        context = self._context
        neighbour = context.neighbours.get(name)
        if neighbour is not None and neighbour.relation is Relation.CHILD:
            if neighbour.link is not None:
                self._links.refuse(neighbour.link, Refusal.NAME, text)
            self.forget(neighbour, moved=True)
            return
        for below in self._below(list(context.table.gateways(domain(name)))):
            if below.link is not None:
                below.link.say.conflict(name, text)

    def forget(self, neighbour: Neighbour, *, moved: bool) -> None:
        """A neighbour is none any more: its routes go, what waited for it is routed again.

        `moved`: it is elsewhere in the tree now, so what topics had for it follows it there.
        """
        context = self._context
        if neighbour.link is not None:
            self._links.drop(neighbour, "forgotten")
        context.policies.tell(Policy.neighbour_gone, neighbour, MOVED if moved else "left")
        context.custody.transaction.delete(LinkRow, neighbour.name)
        numbered = neighbour.empty_outbox()
        self._loans.may_have_arrived(neighbour, numbered)
        self._following.scatter(neighbour, numbered, moved=moved)
