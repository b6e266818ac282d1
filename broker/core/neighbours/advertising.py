"""Advertising: neighbours tell this node of consumers, and it tells them (rules 2 to 8).

The advisory rules themselves are the protocol's (`treeconnector.advisories`); here they meet the disk, the
links, and what follows from a name that came or went.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice, takewhile
from typing import Final

from broker.core.clock import PART
from broker.core.context import Context
from broker.core.links.neighbour import Neighbour
from broker.core.neighbours.following import Following
from broker.core.neighbours.neighbourhood import Neighbourhood
from broker.core.neighbours.relocation import Relocation
from broker.core.policies.permits import ChildPermits
from broker.core.policy import Policy
from broker.core.routing.topics import Topics
from broker.core.rows import FORMER, MetaRow, RouteRow
from broker.core.tree.offers import Offers
from sapwood.protocol.destinations import Destination, Kind, domain, topic
from sapwood.protocol.names import LOCAL
from treeconnector import link_events as events
from treeconnector.advertiser import MOST_RETURNED
from treeconnector.advisories import RESYNC, Advertiser, Applied
from treeconnector.frames import Advice
from treeconnector.link import Link
from treeconnector.relations import Relation
from treeconnector.routes import Route

_MAX_FORMER: Final = 10_000
_TOLD: Final = {Relation.PARENT: "up", Relation.CHILD: "down", Relation.MESH: "mesh"}
_TELL_AGAIN: Final = 0.5
_WITHDRAWN: Final = "withdrawn:"
_UNHEARD: Final = 60.0
"""Seconds before a link was lost: what was told on it then may not have been heard."""


class Advertising(Policy):
    """The ears and the mouth of one node's routing.

    `heard`, `told`: advisories since the start by direction: 'up' = from a child, or to a parent; 'mesh' =
    between nodes of a mesh.
    """

    __slots__ = (
        *("_context", "_following", "_heirs", "_left", "_neighbourhood", "_offers", "_permits"),
        *("_relocation", "_topics", "_withdrawn", "heard", "told"),
    )

    def __init__(
        self,
        context: Context,
        topics: Topics,
        offers: Offers,
        permits: ChildPermits,
        following: Following,
        relocation: Relocation,
        neighbourhood: Neighbourhood,
    ) -> None:
        self._context = context
        self._topics = topics
        self._offers = offers
        self._permits = permits
        self._following = following
        self._relocation = relocation
        self._neighbourhood = neighbourhood
        self._left: list[Advice] = []
        self._heirs: set[str] = set()
        self._withdrawn: dict[str, float] = {}
        self.heard: Counter[str] = Counter(up=0, down=0, mesh=0)
        self.told: Counter[str] = Counter(up=0, down=0, mesh=0)

    def __repr__(self) -> str:
        return f"<Advertising at {self._context.name}>"

    def said(self, neighbour: Neighbour, event: events.Event) -> None:
        match event:
            case events.Advised(advices):
                self.advised(neighbour, advices)
            case events.SnapshotStarted():
                if not neighbour.held.in_snapshot:
                    neighbour.held.heard_at = self._context.clock.now
                neighbour.held.begin_snapshot()
                self._heirs.discard(neighbour.name)
            case events.SnapshotEnded(digest):
                self._snapshot_ended(neighbour, digest)
            case events.PeerDeclined(keys, text):
                self._declined(neighbour, keys, text)
            case _:
                pass  # it is for another policy

    def advised(self, neighbour: Neighbour, advices: list[Advice]) -> None:
        """A neighbour says what is to be had through it."""
        context = self._context
        direction, from_child = neighbour.relation.direction, neighbour.relation is Relation.CHILD
        context.log.advisories(neighbour.name, direction, advices)
        self.heard[direction] += len(advices)
        advices, returned = self._returned(neighbour, advices)
        known = self._known(neighbour, advices) if self._topics.retained else frozenset()
        nodes = self._permits.claims(neighbour, advices) if from_child else []
        fresh = self._fresh_names(neighbour, nodes)
        applied = neighbour.held.apply(advices, context.clock.now)
        self._keep_routes(neighbour, applied)
        self._decline(neighbour, applied)
        self._greet(neighbour, applied, known)
        for key in returned:
            self._topics.greet_neighbour(neighbour, key)
        if from_child:
            self._following.caught_up(neighbour, fresh)
            self._names(neighbour, nodes)
        elif neighbour.relation is Relation.MESH:
            self._lines(advice.key for advice in advices)
            self._ended_beside(advice.key for advice in advices if advice.op == "remove")

    def _review(self, neighbour: Neighbour) -> None:
        """What a neighbour may offer has changed: some of its routes go, others that were declined come."""
        before = set(neighbour.held.declined)
        applied = neighbour.held.review()
        self._keep_routes(neighbour, applied)
        self._decline(neighbour, applied)
        self._greet(neighbour, applied, frozenset())
        back = [route for route, declined in applied.kept if not declined and route.key in before]
        for route in back:
            if route.key.kind == Kind.DOMAIN and route.live:
                advice = Advice("live", route.key.kind, route.key.name, route.origin, route.cause)
                self._relocation.name_came(neighbour, advice)

    def _decline(self, neighbour: Neighbour, applied: Applied) -> None:
        if applied.declined:
            self._context.counters["declined"] += len(applied.declined)
            self._permits.refuse_routes(neighbour, applied.declined, applied.reason)

    def _greet(self, neighbour: Neighbour, applied: Applied, known: frozenset[Destination]) -> None:
        """The retained messages of patterns that were not to be had through a neighbour before."""
        for route, declined in applied.kept if self._topics.retained else ():
            if route.key.kind == Kind.TOPIC and not declined and route.key not in known:
                self._topics.greet_neighbour(neighbour, route.key)

    def _returned(
        self, neighbour: Neighbour, advices: list[Advice]
    ) -> tuple[list[Advice], list[Destination]]:
        """Topics that are taken back and offered again in one breath: the route stands, and what is retained
        is to be given anew. Returns the other advices, and those topics.
        """
        if not any(advice.op == "remove" and advice.kind == Kind.TOPIC for advice in advices):
            return advices, []
        last, route = {advice.key: advice.op for advice in advices}, self._context.table.route
        returned = {
            advice.key: None
            for advice in advices
            if advice.op == "remove"
            and advice.kind == Kind.TOPIC
            and last[advice.key] != "remove"
            and route(advice.key, neighbour.name) is not None
        }
        rest = [each for each in advices if each.op != "remove" or each.key not in returned]
        return rest, list(returned) if self._topics.retained else []

    def _known(self, neighbour: Neighbour, advices: list[Advice]) -> frozenset[Destination]:
        """The keys that were to be had through this neighbour before."""
        route = self._context.table.route
        return frozenset(advice.key for advice in advices if route(advice.key, neighbour.name) is not None)

    def _fresh_names(self, neighbour: Neighbour, nodes: list[Advice]) -> tuple[str, ...]:
        """The nodes that this child has not had below it so far."""
        route = self._context.table.route
        return tuple(
            advice.name for advice in nodes if advice.op != "remove" and not route(advice.key, neighbour.name)
        )

    def _names(self, neighbour: Neighbour, nodes: list[Advice]) -> None:
        """Nodes that came or went below a child."""
        for advice in nodes:
            if advice.op in ("add", "live"):
                self._relocation.name_came(neighbour, advice)
            elif advice.op == "dormant":
                self._relocation.name_rests(neighbour, advice.name)
            elif advice.op == "remove":
                self._relocation.gone(neighbour, advice.name, advice.cause)

    def _lines(self, keys: Iterable[Destination]) -> None:
        """Another node of the mesh says to whom it has a line."""
        names = [key.name for key in keys if key.kind == Kind.DOMAIN]
        for name in names:
            self._neighbourhood.line_elsewhere(name)
        self._neighbourhood.meet(names)

    def _snapshot_ended(self, neighbour: Neighbour, digest: bytes) -> None:
        applied = neighbour.held.end_snapshot()
        self._keep_routes(neighbour, applied)
        for key in applied.gone:
            if key.kind == Kind.DOMAIN and neighbour.relation is Relation.CHILD:
                self._relocation.gone(neighbour, key.name, RESYNC)
        if neighbour.relation is Relation.MESH:
            self._lines(applied.gone)
            self._ended_beside(applied.gone)

    def _ended_beside(self, keys: Iterable[Destination]) -> None:
        """Another node of the mesh asks for these no more: the children were told by it, not by this one."""
        gone = [Advice("remove", key.kind, key.name) for key in keys]
        self._context.policies.tell(Policy.withdrawn, gone)

    def neighbour_gone(self, neighbour: Neighbour, cause: str) -> None:
        """All that a neighbour told us is void. The next parent may need its topics, see `_inherit`."""
        if neighbour.relation is Relation.PARENT:
            self._left += [
                Advice("add", key.kind, key.name, route.origin, RESYNC)
                for key, route in self._context.table.routes_of(neighbour.name).items()
                if key.kind == Kind.TOPIC
            ]
        self._keep_routes(neighbour, applied := neighbour.held.withdraw(cause))
        if neighbour.relation is Relation.MESH:
            self._ended_beside(applied.gone)
        for name in neighbour.former:
            self._context.custody.transaction.delete(RouteRow, (Kind.DOMAIN, name, neighbour.name))

    def _declined(self, neighbour: Neighbour, keys: list[Destination], text: str) -> None:
        """The neighbour takes none of these routes, or messages, of ours."""
        neighbour.refused_us.add(text, len(keys))
        neighbour.error = f"{len(keys)} declined by {neighbour.name}: {text}"
        self._context.counters["declined"] += len(keys)

    def _keep_routes(self, neighbour: Neighbour, applied: Applied) -> None:
        """Keep on disk what changed. What was withdrawn may have been offered again in the same breath."""
        transaction = self._context.custody.transaction
        for route, declined in applied.kept:
            transaction.put(_route_row(route, declined))
            if route.key.kind == Kind.DOMAIN:
                neighbour.former.pop(route.key.name, None)
        for key in applied.gone:
            if self._context.table.route(key, neighbour.name) is None and key not in neighbour.held.declined:
                transaction.delete(RouteRow, (key.kind, key.name, neighbour.name))
                if key.kind == Kind.DOMAIN and neighbour.relation is Relation.CHILD:
                    self._remember(neighbour, key)

    def _remember(self, neighbour: Neighbour, key: Destination) -> None:
        """A node is no more below a child, which may still have messages of it for us."""
        if self._permits.why_not_below(neighbour, key.name):
            return  # it never was: the child only said so
        now = int(self._context.clock.now)
        neighbour.former.pop(key.name, None)
        neighbour.former[key.name] = now
        row = RouteRow(key.kind, key.name, neighbour.name, 0, "", "", now, FORMER)
        self._context.custody.transaction.put(row)
        if len(neighbour.former) > _MAX_FORMER:
            oldest = next(iter(neighbour.former))
            del neighbour.former[oldest]
            self._context.custody.transaction.delete(RouteRow, (Kind.DOMAIN, oldest, neighbour.name))

    def names_changed(self, names: tuple[str, ...]) -> None:
        """Of who is above or beside this node now, what a child has said counts no more, or it could speak in
        their name; of who is not any more, it does again.
        """
        route, keys = self._context.table.route, [domain(name) for name in names]
        for child in self._context.children():
            if any(key in child.held.declined or route(key, child.name) for key in keys):
                self._review(child)
            for name in names:
                self._unremember(child, name)

    def permit_changed(self, child: Neighbour, *, anew: bool) -> None:
        if anew:
            self._tell_anew(child)
        self._review(child)

    def _unremember(self, neighbour: Neighbour, name: str) -> None:
        """Nothing of this node comes from below a child any more."""
        if neighbour.former.pop(name, None) is not None:
            self._context.custody.transaction.delete(RouteRow, (Kind.DOMAIN, name, neighbour.name))

    def _inherit(self, parent: Neighbour) -> None:
        """A parent that takes the place of another is told what that one wanted, until it has spoken itself.

        Else a topic's message that is sent meanwhile matches nothing, and is complete.
        """
        left, self._left, link = self._left, [], parent.link
        if not left or parent.held.count:
            return
        applied = parent.held.apply(left, self._context.clock.now)
        parent.held.begin_snapshot()  # at its end all goes that it has not said itself
        self._heirs.add(parent.name)
        self._keep_routes(parent, applied)
        self._greet(parent, applied, frozenset())

        def sweep() -> None:
            """It offers nothing, so no snapshot has come."""
            if parent.link is link and parent.name in self._heirs:
                self._heirs.discard(parent.name)
                self._keep_routes(parent, parent.held.end_snapshot())

        self._context.clock.after(self._context.settings.reattach_time, sweep)

    def second_passed(self) -> None:
        self._left.clear()
        before = self._context.clock.now - self._context.settings.route_retention
        for neighbour in self._context.neighbours.values():
            self._forget_former(neighbour, before)

    def _forget_former(self, neighbour: Neighbour, before: float) -> None:
        """Nodes that left a child before that moment are strangers to it: it has nothing of theirs now."""
        due = takewhile(lambda left: left[1] < before, neighbour.former.items())
        for name, _ in list(islice(due, PART)):
            self._unremember(neighbour, name)

    def local_route_changed(self, key: Destination) -> None:
        """Keep a local route, or its absence, on disk."""
        route = self._context.table.route(key, LOCAL)
        if route is None:
            self._context.custody.transaction.delete(RouteRow, (key.kind, key.name, LOCAL))
        else:
            self._context.custody.transaction.put(_route_row(route, False))

    def consumer_changed(self, op: str, key: Destination, cause: str) -> None:
        self._context.log.consumer(op, key, cause)

    def is_offered_up(self, key: Destination) -> bool:
        return self._offers.up.offers(key)

    def may_go_back_up(self, key: Destination) -> bool:
        return self._offers.up.end_linger(key)

    def flush(self) -> None:
        """Tell the neighbours what is due."""
        context, offers, now = self._context, self._offers, self._context.clock.now
        if self.tells_upward:
            self._advise(self._neighbourhood.parents(), offers.up.take(now))
        if offers.down is not None:
            self._advise(context.children(), down := offers.down.take(now))
            self._note_withdrawn(down)
        if offers.beside is not None:
            self._advise(context.peers(), offers.beside.take(now))

    def _note_withdrawn(self, advices: Iterable[Advice]) -> None:
        """Keep on disk which topics a child that is away was not told of: they may be offered again."""
        gone = [each.name for each in advices if each.op == "remove" and each.kind == Kind.TOPIC]
        if not gone or all(child.up for child in self._context.children()):
            return
        transaction, now = self._context.custody.transaction, self._context.clock.now
        for name in gone:
            self._withdrawn.pop(name, None)
            self._withdrawn[name] = now
            transaction.put(MetaRow(_WITHDRAWN + name, str(now).encode()))
            if len(self._withdrawn) > MOST_RETURNED:
                oldest = next(iter(self._withdrawn))
                del self._withdrawn[oldest]
                transaction.delete(MetaRow, _WITHDRAWN + oldest)

    def restore(self, meta: Mapping[str, bytes]) -> None:
        found = [(float(at), name) for name, at in meta.items() if name.startswith(_WITHDRAWN)]
        self._withdrawn = {name.removeprefix(_WITHDRAWN): at for at, name in sorted(found)}

    def begin(self) -> None:
        """After a start, once all routes are there."""
        if self._offers.down is not None:
            self._offers.down.restore({topic(name): at for name, at in self._withdrawn.items()})

    def next_deadline(self) -> float | None:
        """When `flush` has something to tell."""
        offers = self._offers
        upward = offers.up.next_deadline() if self.tells_upward else None
        others = [each.next_deadline() for each in (offers.down, offers.beside) if each is not None]
        return min((time for time in (upward, *others) if time is not None), default=None)

    @property
    def tells_upward(self) -> bool:
        """While all parents are away, changes gather: then they cost increments and no snapshot."""
        parents = self._context.parents.values()
        return not parents or any(parent.up for parent in parents)

    def _advise(self, neighbours: list[Neighbour], advices: list[Advice]) -> None:
        self._context.policies.tell(Policy.withdrawn, advices)
        for neighbour in neighbours if advices else ():
            if neighbour.link is not None:
                told = self._permits.heard(neighbour, advices)
                neighbour.link.say.advise(told)
                self._count_told(neighbour, len(told))

    def link_up(self, neighbour: Neighbour, up: events.LinkUp) -> None:
        """Tell it all, unless it holds what is offered."""
        self._heirs.discard(neighbour.name)
        if neighbour.relation is Relation.PARENT:
            self._inherit(neighbour)
        offers = self._offers.to(neighbour.relation)
        offered = self._permits.offered(neighbour, offers)
        if neighbour.link is not None and (up.held_count, up.held_digest) != offered:
            self.tell_all(neighbour, neighbour.link, offers)
        if neighbour.link is not None and neighbour.broken_at:
            returned = self._permits.heard(neighbour, offers.returned(neighbour.away_since - _UNHEARD))
            neighbour.link.say.advise(returned)
            self._count_told(neighbour, len(returned))

    def tell_all(self, neighbour: Neighbour, link: Link, offers: Advertiser) -> None:
        """Tell a neighbour, whose link is up, everything that is offered to it."""
        told = self._permits.heard(neighbour, offers.snapshot())
        link.say.snapshot(told, self._permits.offered(neighbour, offers)[1])
        self._count_told(neighbour, len(told))

    def _tell_anew(self, neighbour: Neighbour) -> None:
        """What a neighbour may know has changed: tell it all, after what it is being told now."""
        link = neighbour.link
        if link is None:
            return
        if link.say.is_telling:
            self._context.clock.after(_TELL_AGAIN, partial(self._tell_on, neighbour, link))
        else:
            self.tell_all(neighbour, link, self._offers.to(neighbour.relation))

    def _tell_on(self, neighbour: Neighbour, link: Link) -> None:
        if neighbour.link is link:
            self._tell_anew(neighbour)

    def _count_told(self, neighbour: Neighbour, count: int) -> None:
        self.told[_TOLD[neighbour.relation]] += count


def _route_row(route: Route, declined: bool) -> RouteRow:
    key = route.key
    return RouteRow(
        key.kind,
        key.name,
        route.gateway,
        int(route.live),
        route.origin,
        route.cause,
        route.reads,
        int(declined),
    )
