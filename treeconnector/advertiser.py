"""What this node tells one audience: its parents (`Up`), its children (`Down`), or the other nodes of its
mesh (`Beside`); the same to each of them.

Law, up: everything that a local consumer wants or a child has told; live if any such route is. Law, down:
what a local consumer wants or the parent has told; never what a child has told, and no domain routes.
Both follow from the table alone.

Law: for each key one *add* when its first route appears, and one *remove* when the last has gone. A consumer
of this node lingers: its route is offered for `linger` seconds more, once in the whole tree, by this node. A
neighbour's route has lingered where its consumer was, so it is withdrawn at once; so is what is given back
(`end_linger`). `take` returns what is due: what came and went between two takes costs nothing.

Caller's duty: call `take(now)` after each batch of changes (a change carries no time, so a removal
lingers from the take that first sees it) and again at `next_deadline()`. What `take` has returned counts
as told: a link that could not say it finds so at its next start, when both ends compare digests, and is
then told the whole `snapshot`.

Wrinkle: a topic that was withdrawn, and is offered again, makes no digest differ. A link that was down in
between, or lost the withdrawal, is told both (`returned`): the other end has to give what is retained anew.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.names import LOCAL
from treeconnector.frames import Advice
from treeconnector.offers import OfferStanding, Tally, standing
from treeconnector.routes import Route, RoutingTable

LINGER: Final = 10.0
MOVED: Final = "moved"
RESYNC: Final = "resync"
GIVEN_BACK: Final = "given-back"
"""The cause of a remove that did not wait for its linger: messages of that key are on their way back."""
AT_ONCE: Final = 0.0
MOST_RETURNED: Final = 10_000
"""Topics that were withdrawn, and of these those that are offered again, so many of each: the latest."""

ADVISE_DOWN: Final[Mapping[str, tuple[Kind, ...]]] = {
    "all": (Kind.QUEUE, Kind.TOPIC),
    "topics": (Kind.TOPIC,),
    "queues": (Kind.QUEUE,),
    "none": (),
}


class Up:
    """The parents: hear of everything on this node and below it."""

    name: Final = "up"

    def standing(self, table: RoutingTable, key: Destination) -> OfferStanding | None:
        """In which state `key` is to be offered; None = not at all."""
        routes, live = table.spread(key)
        for name in table.apart:
            other = table.route(key, name)
            if other is not None:
                routes -= 1
                live -= other.live
        if not routes:
            return None
        if key.kind != Kind.DOMAIN:
            return standing(live > 0)
        route = self.route(table, key)
        return standing(live > 0, route.reads if route else 0)

    def route(self, table: RoutingTable, key: Destination) -> Route | None:
        """The route that makes `key` appear: the first that is live, else the first."""
        found = None
        for route in table.gateways(key).values():
            if route.gateway not in table.apart:
                if route.live:
                    return route
                found = found or route
        return found


class Down:
    """The children: hear of what this node and its ancestors want. `advise`: a key of `ADVISE_DOWN`."""

    __slots__ = ("_kinds",)

    name: Final = "down"

    def __init__(self, advise: str = "all") -> None:
        self._kinds = ADVISE_DOWN[advise]

    def standing(self, table: RoutingTable, key: Destination) -> OfferStanding | None:
        """In which state `key` is to be offered; None = not at all."""
        route = self.route(table, key)
        return standing(route.live) if route else None

    def route(self, table: RoutingTable, key: Destination) -> Route | None:
        """The route that makes `key` appear: the first that is live, else the first."""
        if key.kind not in self._kinds:
            return None
        found = None
        for gateway in [LOCAL, *table.parents]:
            route = table.route(key, gateway)
            if route is not None and route.live:
                return route
            found = found or route
        return found


class Beside:
    """The other nodes of a mesh: hear of what is wanted on this node itself, of its name, and to which
    neighbours it has a line. What is below a child they hear from the child.
    """

    name: Final = "mesh"

    def standing(self, table: RoutingTable, key: Destination) -> OfferStanding | None:
        """In which state `key` is to be offered; None = not at all. A neighbour without a line is dormant."""
        route = self.route(table, key)
        if route is not None and route.gateway == LOCAL:
            return standing(route.live, route.reads if key.kind == Kind.DOMAIN else 0)
        if route is not None or (key.kind == Kind.DOMAIN and key.name in table.parents):
            return standing(key.name in table.lines, route.reads if route else 0)
        return None

    def route(self, table: RoutingTable, key: Destination) -> Route | None:
        """The route that makes `key` appear; a parent has none."""
        local = table.route(key, LOCAL)
        if local is not None or key.kind != Kind.DOMAIN or key.name in table.mesh:
            return local
        return table.route(key, key.name)


Audience = Up | Down | Beside


class _Leaving(NamedTuple):
    """A key that is offered still and wanted no more. `due`: None until a take has seen it."""

    due: float | None
    cause: str
    origin: str


class Advertiser:
    """Watches a table and says what its audience is to be told. `node`: whose table it is. `linger`: seconds
    of running time.

    What is in the table now counts as told. Caller's duty: restore the table first, name its
    parents, and then make the advertiser, so that a restart tells nobody anything new.
    """

    __slots__ = (
        "_audience",
        "_changed",
        "_gone",
        "_leaving",
        "_linger",
        "_node",
        "_offered",
        "_returned",
        "_table",
        "_tally",
        "_unseen",
    )

    def __init__(self, table: RoutingTable, audience: Audience, node: str, linger: float = LINGER) -> None:
        self._table = table
        self._node = node
        self._audience = audience
        self._linger = linger
        self._offered: dict[Destination, OfferStanding] = {}
        self._changed: dict[Destination, tuple[str, str]] = {}
        self._leaving: OrderedDict[Destination, _Leaving] = OrderedDict()
        self._unseen: dict[Destination, None] = {}
        self._gone: dict[Destination, float] = {}
        self._returned: dict[Destination, float] = {}
        self._tally = Tally()
        for key in table:
            wanted = audience.standing(table, key)
            if wanted is not None:
                self._offer(key, wanted)
        table.watch(self._on_change)

    def __repr__(self) -> str:
        return (
            f"<Advertiser {self._audience.name} offered={self.count} changed={len(self._changed)}"
            f" leaving={len(self._leaving)}>"
        )

    @property
    def count(self) -> int:
        """How many keys have been offered, domain routes included."""
        return self._tally.count

    @property
    def domains(self) -> int:
        """How many of the offered keys are domain routes."""
        return self._tally.domains

    @property
    def digest(self) -> bytes:
        """Digest of what has been offered (see `offers`)."""
        return self._tally.digest

    def restore(self, withdrawn: Mapping[Destination, float]) -> None:
        """After a start: topics that were withdrawn before it, and when, the latest last."""
        for key, at in withdrawn.items():
            _note(self._returned if key in self._offered else self._gone, key, at)

    def close(self) -> None:
        """Watch the table no more."""
        self._table.unwatch(self._on_change)

    def offers(self, key: Destination) -> bool:
        """Whether the audience has been told of `key`, and not yet that it has gone."""
        return key in self._offered

    def snapshot(self) -> list[Advice]:
        """All that has been offered, as one consistent cut; changes not yet taken are not in it."""
        offers = sorted(self._offered.items(), key=_nodes_last)
        return [self._advice(_add(offered), key, offered, RESYNC) for key, offered in offers]

    @property
    def leaving(self) -> Iterable[Destination]:
        """What is still offered and not wanted any more."""
        return self._leaving

    @property
    def pending(self) -> bool:
        """Is there anything that `take` will return, now or later?"""
        return bool(self._changed or self._leaving)

    def next_deadline(self) -> float | None:
        """When `take` has something to return: a time, `AT_ONCE`, or None where nothing is pending."""
        if self._changed or self._unseen:
            return AT_ONCE
        for leaving in self._leaving.values():
            return leaving.due
        return None

    def take(self, now: float) -> list[Advice]:
        """The advices that are due; from now on they count as told."""
        if not self._changed and not self._leaving:
            return []
        changed = sorted(self._changed.items(), key=_nodes_last)
        advices = [self._announce(key, cause, origin) for key, (cause, origin) in changed]
        self._changed.clear()
        self._start_lingering(now)
        due: list[Destination] = []
        for key, leaving in self._leaving.items():
            if leaving.due is not None and leaving.due > now:
                break
            due.append(key)
        advices.extend(self._withdraw(key, now) for key in due)
        return advices

    def returned(self, since: float) -> list[Advice]:
        """Of topics that were withdrawn then or later, and are offered again: *remove*, and *add*."""
        keys = [key for key, at in self._returned.items() if at >= since and key in self._offered]
        adds = [self._advice(_add(self._offered[key]), key, self._offered[key], RESYNC) for key in keys]
        return [said for add in adds for said in (add._replace(op="remove"), add)]

    def _on_change(self, key: Destination, cause: str, origin: str) -> None:
        wanted = self._audience.standing(self._table, key)
        offered = self._offered.get(key)
        if wanted is None and offered is not None:
            self._changed.pop(key, None)
            if key not in self._leaving:
                self._leaving[key] = _Leaving(None, cause, origin)
                self._unseen[key] = None
            return
        if self._leaving:
            self._leaving.pop(key, None)
            self._unseen.pop(key, None)
        if wanted == offered:
            self._changed.pop(key, None)
        else:
            self._changed[key] = (cause, origin)

    def _start_lingering(self, now: float) -> None:
        """Linger times are alike, so keys leave in the order in which they began; those due now first."""
        for key in self._unseen:
            leaving = self._leaving[key]
            lingers = leaving.origin == self._node and leaving.cause != MOVED
            self._leaving[key] = leaving._replace(due=now + self._linger if lingers else now)
            if not lingers:
                self._leaving.move_to_end(key, last=False)
        self._unseen.clear()

    def end_linger(self, key: Destination) -> bool:
        """Messages of this key go back to the audience: withdraw it with the next take, if it only lingers.

        Returns whether the audience sends no more of it then.
        """
        leaving = self._leaving.get(key)
        if leaving is None:
            return key not in self._offered
        self._leaving[key] = leaving._replace(due=AT_ONCE, cause=GIVEN_BACK)
        self._leaving.move_to_end(key, last=False)
        self._unseen.pop(key, None)
        return True

    def _announce(self, key: Destination, cause: str, origin: str) -> Advice:
        wanted = self._audience.standing(self._table, key)
        if wanted is None:  # cannot be: a change without a standing is never kept
            raise AssertionError(f"{key} changed to nothing in {self!r}")
        offered = self._offered.get(key)
        if offered is not None:
            self._tally.remove(key, offered)
        self._offer(key, wanted)
        if offered is not None and offered.live != wanted.live:
            return Advice(
                "live" if wanted.live else "dormant", key.kind, key.name, origin, cause, wanted.reads
            )
        return self._advice(_add(wanted), key, wanted)

    def _offer(self, key: Destination, wanted: OfferStanding) -> None:
        self._offered[key] = wanted
        self._tally.add(key, wanted)
        if key in self._gone:
            _note(self._returned, key, self._gone.pop(key))

    def _withdraw(self, key: Destination, now: float) -> Advice:
        if key.kind == Kind.TOPIC:
            _note(self._gone, key, now)
        leaving = self._leaving.pop(key)
        self._tally.remove(key, self._offered.pop(key))
        return Advice("remove", key.kind, key.name, leaving.origin, leaving.cause)

    def _advice(self, operation: str, key: Destination, offered: OfferStanding, cause: str = "") -> Advice:
        route = self._audience.route(self._table, key)
        origin = route.origin if route else ""
        if not cause and route:
            cause = route.cause
        return Advice(operation, key.kind, key.name, origin, cause, offered.reads)


def _note(when: dict[Destination, float], key: Destination, at: float) -> None:
    when.pop(key, None)
    when[key] = at
    if len(when) > MOST_RETURNED:
        del when[next(iter(when))]


def _nodes_last(item: tuple[Destination, object]) -> bool:
    """Whoever hears of a node has heard before of what is wanted there."""
    return item[0].kind == Kind.DOMAIN


def _add(offered: OfferStanding) -> str:
    """The operation that puts a key in this state whether or not it was known."""
    return "add" if offered.live else "dormant"
