"""Relocation: a name becomes live elsewhere, two nodes have one name, a neighbour is none any more.

A node that sees one name below two children asks down the older way whether it is still there. If not, the
old parent lets go: it withdraws the name and sends on what it kept for it, marked where it may have arrived.
If it is, the later link is refused: down the newer way goes a conflict.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Final

from broker.core.clock import PART
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.links.open_links import OpenLinks
from broker.core.messages.backlog import Backlog
from broker.core.messages.custody import UPWARD, QueueEntry
from broker.core.policies.loans import Loans
from broker.core.policies.policy import Policy
from broker.core.routing.forwarding import Forwarder
from broker.core.rows import LinkRow
from treeconnector import link_events as events
from treeconnector.advisories import MOVED, RESYNC
from treeconnector.bundles import Flag, Header, Scope
from treeconnector.destinations import Destination, Kind, domain
from treeconnector.errors import Refusal
from treeconnector.frames import Advice
from treeconnector.relations import Relation

CONFLICT: Final = "conflict"
_MOST_SAID: Final = 10_000


class Relocation(Policy):
    """Settles who is where, and where the spool of a neighbour goes that has left."""

    def __init__(self, context: Context, forwarder: Forwarder, links: OpenLinks, loans: Loans) -> None:
        self._context = context
        self._forwarder = forwarder
        self._links = links
        self._loans = loans
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

    def adopt(self, parent: Neighbour) -> None:
        """What topics have for a parent, while there was none, goes to this one."""
        custody = self._context.custody
        orphans = list(custody.queue_named(UPWARD).empty())
        for entry in orphans:
            custody.move(entry, parent.queue)
        parent.queue.put_back(orphans)
        self._forwarder.dispatch(parent.queue)

    def name_came(self, neighbour: Neighbour, advice: Advice) -> None:
        """A child says that a name is below it. Is it somewhere else too?

        What it says of a name that moved may be older than its being told: it lets go, or says that it is a
        conflict.
        """
        context, name = self._context, advice.name
        ways = dict.fromkeys((*context.table.gateways(domain(name)), name))
        below = self._others(neighbour, ways)
        if advice.cause == CONFLICT:
            neighbour.untold.discard(name)
            self._pass_conflict(neighbour, below, advice)
        elif name not in neighbour.untold:
            self._tell_others(name, below)

    def _pass_conflict(self, neighbour: Neighbour, below: list[Neighbour], advice: Advice) -> None:
        """The way that knew a name first says that it is still there: the other way refuses it."""
        text = f"{advice.name!r} is live below {neighbour.name!r} already: stop one of the two"
        for other in below:
            if other.link is not None:
                other.link.conflict(advice.name, text)
            elif other.name == advice.name:
                self.forget(other, moved=True)
            else:
                other.untold.add(advice.name)
        if not below:
            self._tell_parent(advice)

    def _tell_parent(self, advice: Advice) -> None:
        for parent in self._context.parents.values():
            if parent.link is not None:
                parent.link.advise([advice])

    def name_rests(self, neighbour: Neighbour, name: str) -> None:
        """A child misses a name. If it is live elsewhere, it has moved."""
        if self._live_elsewhere(neighbour, name):
            self._tell(neighbour, name)

    def settle(self, neighbour: Neighbour) -> None:
        """A child is back. Tell it of names that went elsewhere while it was away, and the others that it is
        here; and look again when it has had the time to say what has changed below it.
        """
        context, untold = self._context, neighbour.untold
        neighbour.untold = set()
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
        below.untold.add(name)
        if below.link is not None:
            below.link.moved(name)
            self._follow_all(below, name)

    def gone(self, neighbour: Neighbour, name: str, cause: str) -> None:
        """`name` is no more below a child. If it moved, what topics still have for it there follows it."""
        told = name in neighbour.untold
        neighbour.untold.discard(name)
        if not told and (self._has_left(neighbour, cause) or self._elsewhere(neighbour, name)):
            self._follow_all(neighbour, name)

    def _has_left(self, neighbour: Neighbour, cause: str) -> bool:
        """Does a name that is no more below a child come up elsewhere? Another node of the mesh may have told
        the child so while this one was away. A child that lost its database knows nobody, and they come back.
        """
        return cause == MOVED or (
            cause == RESYNC and bool(self._context.table.mesh) and not neighbour.starts_anew
        )

    def _elsewhere(self, neighbour: Neighbour, name: str) -> set[str]:
        """The other ways to a name; what nodes of the mesh say of their lines is none."""
        return set(self._context.table.gateways(domain(name))).difference(
            (neighbour.name, *self._context.table.mesh)
        )

    def _follow_all(self, neighbour: Neighbour, name: str) -> None:
        table, ways = self._context.table, self._elsewhere(neighbour, name)
        for entry in self._for_all_of(neighbour):
            topic = entry.stored.header.destination.name
            if not ways or not ways.isdisjoint(table.match(topic)):
                self.follow(entry, name, Flag.MAYBE_DUPLICATE)

    def _for_all_of(self, neighbour: Neighbour) -> list[QueueEntry]:
        """What topics have here for all below a child: on its link, or handed over by a node of the mesh."""
        there = chain(neighbour.outbox, neighbour.queue.waiting.look(), neighbour.queue.resting.values())
        found = [entry for entry in there if _is_for_all(entry) or _is_handed_over(entry, neighbour)]
        for queue in self._context.custody.directed.get(neighbour.name, {}).values():
            found += [entry for entry in queue.waiting.look() if _is_handed_over(entry, neighbour)]
        return found

    def follows_node(self, entry: QueueEntry) -> None:
        """An entry for a child was handed over: nodes that have left it meanwhile are to have it too."""
        destination = entry.stored.header.destination
        child = self._context.neighbours.get(destination.node)
        if child is None or child.relation is not Relation.CHILD or not entry.stored.row:
            return
        for name in list(child.former):
            if not self._elsewhere(child, name).isdisjoint(self._context.table.match(destination.name)):
                self.follow(entry, name, Flag.MAYBE_DUPLICATE)

    def caught_up(self, neighbour: Neighbour, names: Sequence[str]) -> None:
        """Nodes that were not below a child are now: what topics have on its way up from here may meet them
        nowhere else, for the word of their coming goes before it, and ends the way that they had before.
        """
        context = self._context
        upward: list[Iterable[QueueEntry]] = [context.custody.queue_named(UPWARD).waiting.look()]
        for parent in context.parents.values():
            upward += [parent.outbox, parent.queue.waiting.look(), parent.queue.resting.values()]
        if not names:
            return
        for entry in [entry for entries in upward for entry in entries if self._turns_down(entry, neighbour)]:
            for name in names:
                self.follow(entry, name, Flag.MAYBE_DUPLICATE)

    def _turns_down(self, entry: QueueEntry, neighbour: Neighbour) -> bool:
        """Is it on its way up, and would it have been for this child, had that been there?"""
        header = entry.stored.header
        if not _is_for_all(entry) or entry.came == neighbour.name:
            return False
        turns = header.scope == Scope.TREE or not entry.came
        return turns and neighbour.name in self._context.table.match(header.destination.name)

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
                other.link.conflict(
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
                below.link.conflict(name, text)

    def forget(self, neighbour: Neighbour, *, moved: bool) -> None:
        """A neighbour is none any more: its routes go, what waited for it is routed again.

        `moved`: it is elsewhere in the tree now, so what topics had for it follows it there.
        """
        context = self._context
        if neighbour.link is not None:
            self._links.drop(neighbour, "forgotten")
        for neighbour_gone in context.policies.neighbour_gone:
            neighbour_gone(neighbour, MOVED if moved else "left")
        context.custody.transaction.delete(LinkRow, neighbour.name)
        numbered = neighbour.empty_outbox()
        self._loans.may_have_arrived(neighbour, numbered)
        waiting = neighbour.queue.empty()
        for entry in numbered:
            self._route_again(entry, neighbour, moved, Flag.MAYBE_DUPLICATE)
        context.custody.queues.pop(neighbour.queue.name, None)
        self._route_all(waiting, neighbour, moved)

    def _route_all(self, waiting: Backlog, neighbour: Neighbour, moved: bool) -> None:
        """What a child had below it is over with it, and goes a part at a time. All else has to be in one
        transaction, for after a start nobody would know any more whose it was.
        """
        over = neighbour.relation is Relation.CHILD and not moved
        for _ in range(min(len(waiting), PART) if over else len(waiting)):
            self._route_again(waiting.popleft(), neighbour, moved, 0)
        if waiting:
            self._context.clock.go_on(waiting, partial(self._route_all, waiting, neighbour, moved))

    def _route_again(self, entry: QueueEntry, neighbour: Neighbour, moved: bool, flags: int) -> None:
        context = self._context
        header = entry.stored.header
        if header.destination.kind == Kind.QUEUE or header.destination.node:
            self._forwarder.requeue(entry, flags | Flag.REROUTED)
            return
        if neighbour.relation is Relation.PARENT:
            self._forwarder.flag(entry.stored, flags)
            parent = self._forwarder.parent_for(header.destination)
            upward = parent.queue if parent is not None else context.custody.queue_named(UPWARD)
            context.custody.move(entry, upward)
            upward.waiting.add(entry)
            return
        if moved:
            self.follow(entry, neighbour.name, flags | Flag.MAYBE_DUPLICATE)
        else:
            context.counters["unsubscribed"] += entry.open
        context.custody.discard(entry)

    def follow(self, entry: QueueEntry, node: str, flags: int) -> None:
        """A topic's entry goes after a node that moved, or that another node of the mesh has a line to."""
        context = self._context
        old = self._forwarder.outgoing(entry)
        header = Header(
            id=old.id,
            destination=Destination(Kind.TOPIC, old.destination.name, node),
            scope=old.scope,
            flags=old.flags | flags | Flag.REROUTED,
            count=old.count,
            size=old.size,
            origin_store=old.origin_store,
            origin=old.origin,
            expires_first=old.expires_first,
            expires_last=old.expires_last,
            reroutes=old.reroutes,
            done=old.done,
            start=old.start,
        )
        body = context.custody.peek(entry)  # one that somebody only looks at would keep it for ever
        assert body is not None, f"the store lacks the body of {entry}"
        stored = context.custody.store(header, body, context.clock.now)
        stored.safe = True
        self._forwarder.wait(stored, "")


def _is_handed_over(entry: QueueEntry, child: Neighbour) -> bool:
    destination = entry.stored.header.destination
    return destination.kind == Kind.TOPIC and destination.node == child.name


def _is_for_all(entry: QueueEntry) -> bool:
    """A topic's, kept, and for whoever is on its way; not for one node alone."""
    destination = entry.stored.header.destination
    return destination.kind == Kind.TOPIC and not destination.node and bool(entry.stored.row)
