"""Advertising: neighbours tell this node of consumers, and it tells them (rules 2 to 8).

The advisory rules themselves are the protocol's (`treeconnector.advisories`); here they meet the disk, the
links, and what follows from a name that came or went.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.core.clock import PART
from broker.core.links.neighbour import Neighbour
from broker.core.policies.policy import Policy
from broker.core.rows import FORMER, RouteRow
from treeconnector.advisories import RESYNC, Advertiser, Applied
from treeconnector.destinations import Destination, Kind
from treeconnector.frames import Advice
from treeconnector.link import Link
from treeconnector.names import LOCAL
from treeconnector.relations import Relation
from treeconnector.routes import Route

if TYPE_CHECKING:
    from broker.core.node import NodeCore

_MAX_FORMER: Final = 10_000
_TOLD: Final = {Relation.PARENT: "up", Relation.CHILD: "down", Relation.MESH: "mesh"}
_TELL_AGAIN: Final = 0.5


class Advertising(Policy):
    """The ears and the mouth of one node's routing.

    `heard`, `told`: advisories since the start by direction: 'up' = from a child, or to a parent; 'mesh' =
    between nodes of a mesh.
    """

    def __init__(self, core: "NodeCore") -> None:
        self._core = core
        self.heard: Counter[str] = Counter(up=0, down=0, mesh=0)
        self.told: Counter[str] = Counter(up=0, down=0, mesh=0)

    def __repr__(self) -> str:
        return f"<Advertising at {self._core.identity.name}>"

    def advised(self, neighbour: Neighbour, advices: list[Advice]) -> None:
        """A neighbour says what is to be had through it."""
        core = self._core
        direction, from_child = neighbour.relation.direction, neighbour.relation is Relation.CHILD
        core.chronicle.advisories(neighbour.name, direction, advices)
        self.heard[direction] += len(advices)
        known = self._known(neighbour, advices) if core.topics.retained else frozenset()
        nodes = core.permitting.claims(neighbour, advices) if from_child else []
        fresh = self._fresh_names(neighbour, nodes)
        applied = neighbour.held.apply(advices, core.clock.now)
        self._keep_routes(neighbour, applied)
        self._decline(neighbour, applied)
        self._greet(neighbour, applied, known)
        if from_child:
            core.moves.caught_up(neighbour, fresh)
            self._names(neighbour, nodes)
        elif neighbour.relation is Relation.MESH:
            self._lines(advice.key for advice in advices)

    def review(self, neighbour: Neighbour) -> None:
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
                self._core.moves.name_came(neighbour, advice)

    def _decline(self, neighbour: Neighbour, applied: Applied) -> None:
        if applied.declined:
            self._core.counters["declined"] += len(applied.declined)
            self._core.permitting.refuse_routes(neighbour, applied.declined, applied.reason)

    def _greet(self, neighbour: Neighbour, applied: Applied, known: frozenset[Destination]) -> None:
        """The retained messages of patterns that were not to be had through a neighbour before."""
        for route, declined in applied.kept if self._core.topics.retained else ():
            if route.key.kind == Kind.TOPIC and not declined and route.key not in known:
                self._core.topics.greet_neighbour(neighbour, route.key)

    def _known(self, neighbour: Neighbour, advices: list[Advice]) -> frozenset[Destination]:
        """The keys that were to be had through this neighbour before."""
        route = self._core.table.route
        return frozenset(advice.key for advice in advices if route(advice.key, neighbour.name) is not None)

    def _fresh_names(self, neighbour: Neighbour, nodes: list[Advice]) -> tuple[str, ...]:
        """The nodes that this child has not had below it so far."""
        route = self._core.table.route
        return tuple(
            advice.name for advice in nodes if advice.op != "remove" and not route(advice.key, neighbour.name)
        )

    def _names(self, neighbour: Neighbour, nodes: list[Advice]) -> None:
        """Nodes that came or went below a child."""
        for advice in nodes:
            if advice.op in ("add", "live"):
                self._core.moves.name_came(neighbour, advice)
            elif advice.op == "dormant":
                self._core.moves.name_rests(neighbour, advice.name)
            elif advice.op == "remove":
                self._core.moves.gone(neighbour, advice.name, advice.cause)

    def _lines(self, keys: Iterable[Destination]) -> None:
        """Another node of the mesh says to whom it has a line."""
        names = [key.name for key in keys if key.kind == Kind.DOMAIN]
        for name in names:
            self._core.neighbourhood.line_elsewhere(name)
        self._core.neighbourhood.meet(names)

    def snapshot_ended(self, neighbour: Neighbour, digest: bytes) -> None:
        applied = neighbour.held.end_snapshot()
        self._keep_routes(neighbour, applied)
        for key in applied.gone:
            if key.kind == Kind.DOMAIN and neighbour.relation is Relation.CHILD:
                self._core.moves.gone(neighbour, key.name, RESYNC)
        if neighbour.relation is Relation.MESH:
            self._lines(applied.gone)

    def withdraw(self, neighbour: Neighbour, cause: str) -> None:
        """All that a neighbour told us is void."""
        self._keep_routes(neighbour, neighbour.held.withdraw(cause))
        for name in neighbour.former:
            self._core.custody.transaction.delete(RouteRow, (Kind.DOMAIN, name, neighbour.name))

    def declined(self, neighbour: Neighbour, keys: list[Destination], text: str) -> None:
        """The neighbour takes none of these routes, or messages, of ours."""
        neighbour.refused_us.add(text, len(keys))
        neighbour.error = f"{len(keys)} declined by {neighbour.name}: {text}"
        self._core.counters["declined"] += len(keys)

    def _keep_routes(self, neighbour: Neighbour, applied: Applied) -> None:
        """Keep on disk what changed. What was withdrawn may have been offered again in the same breath."""
        transaction = self._core.custody.transaction
        for route, declined in applied.kept:
            transaction.put(_route_row(route, declined))
            if route.key.kind == Kind.DOMAIN:
                neighbour.former.pop(route.key.name, None)
        for key in applied.gone:
            if self._core.table.route(key, neighbour.name) is None and key not in neighbour.held.declined:
                transaction.delete(RouteRow, (key.kind, key.name, neighbour.name))
                if key.kind == Kind.DOMAIN and neighbour.relation is Relation.CHILD:
                    self._remember(neighbour, key)

    def _remember(self, neighbour: Neighbour, key: Destination) -> None:
        """A node is no more below a child, which may still have messages of it for us."""
        if self._core.permitting.why_not_below(neighbour, key.name):
            return  # it never was: the child only said so
        now = int(self._core.clock.now)
        neighbour.former.pop(key.name, None)
        neighbour.former[key.name] = now
        row = RouteRow(key.kind, key.name, neighbour.name, 0, "", "", now, FORMER)
        self._core.custody.transaction.put(row)
        if len(neighbour.former) > _MAX_FORMER:
            oldest = next(iter(neighbour.former))
            del neighbour.former[oldest]
            self._core.custody.transaction.delete(RouteRow, (Kind.DOMAIN, oldest, neighbour.name))

    def unremember(self, neighbour: Neighbour, name: str) -> None:
        """Nothing of this node comes from below a child any more."""
        if neighbour.former.pop(name, None) is not None:
            self._core.custody.transaction.delete(RouteRow, (Kind.DOMAIN, name, neighbour.name))

    def forget_former(self, neighbour: Neighbour, before: float) -> None:
        """Nodes that left a child before that moment are strangers to it: it has nothing of theirs now."""
        for name, since in list(islice(neighbour.former.items(), PART)):
            if since < before:
                self.unremember(neighbour, name)

    def local_route_changed(self, key: Destination) -> None:
        """Keep a local route, or its absence, on disk."""
        route = self._core.table.route(key, LOCAL)
        if route is None:
            self._core.custody.transaction.delete(RouteRow, (key.kind, key.name, LOCAL))
        else:
            self._core.custody.transaction.put(_route_row(route, False))

    def consumer_changed(self, op: str, key: Destination, cause: str) -> None:
        self._core.chronicle.consumer(op, key, cause)

    def is_offered_up(self, key: Destination) -> bool:
        return self._core.up.offers(key)

    def flush(self) -> None:
        """Tell the neighbours what is due."""
        core, now = self._core, self._core.clock.now
        if self.tells_upward:
            self._advise(core.neighbourhood.parents(), core.up.take(now))
        self._advise(core.context.children(), core.down.take(now))
        if core.mesh.offers is not None:
            self._advise(core.context.peers(), core.mesh.offers.take(now))

    @property
    def tells_upward(self) -> bool:
        """While all parents are away, changes gather: then they cost increments and no snapshot."""
        parents = self._core.forwarder.parents.values()
        return not parents or any(parent.up for parent in parents)

    def offers_to(self, neighbour: Neighbour) -> Advertiser:
        """What such a neighbour is told."""
        core = self._core
        match neighbour.relation:
            case Relation.PARENT:
                return core.up
            case Relation.CHILD:
                return core.down
            case Relation.MESH:
                assert core.mesh.offers is not None
                return core.mesh.offers

    def _advise(self, neighbours: list[Neighbour], advices: list[Advice]) -> None:
        self._core.renewal.withdrawn(advices)
        for neighbour in neighbours if advices else ():
            if neighbour.link is not None:
                told = self._core.permitting.heard(neighbour, advices)
                neighbour.link.advise(told)
                self._count_told(neighbour, len(told))

    def tell_all(self, neighbour: Neighbour, link: Link, offers: Advertiser) -> None:
        """Tell a neighbour, whose link is up, everything that is offered to it."""
        told = self._core.permitting.heard(neighbour, offers.snapshot())
        link.snapshot(told, self._core.permitting.offered(neighbour, offers)[1])
        self._count_told(neighbour, len(told))

    def tell_anew(self, neighbour: Neighbour) -> None:
        """What a neighbour may know has changed: tell it all, after what it is being told now."""
        link = neighbour.link
        if link is None:
            return
        if link.is_telling:
            self._core.clock.after(_TELL_AGAIN, partial(self._tell_on, neighbour, link))
        else:
            self.tell_all(neighbour, link, self.offers_to(neighbour))

    def _tell_on(self, neighbour: Neighbour, link: Link) -> None:
        if neighbour.link is link:
            self.tell_anew(neighbour)

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
