"""What one neighbour has told this node: routes in the table, and offers that were declined.

Law: the digest is over what the neighbour offered. An offer over a limit, or one that is not the
neighbour's to make, is *declined*: kept and counted in the digest, so that a refusal does not make both
ends differ for ever, and not put into the table. When room comes back, it is put in after all.

Law: a link that has been down for a while makes the neighbour's queue and domain routes dormant
(`set_dormant`). That is this end's own view and no part of the digest: what was offered live is kept
apart from what is live here, and `set_live` brings it back.

Law: between `begin_snapshot` and `end_snapshot` every advice marks its key, and the end sweeps what was
not marked, so a route that stands is never taken out and put in again. Caller's duty: when a link ends,
`abandon_snapshot`: then nothing is swept.

There is no second copy of a route: what is held is what the table has for this gateway, the declined
ones, and the set of those that were offered dormant. A method that changes anything returns an `Applied`,
from which the caller makes the rows that it keeps on disk.
"""

from collections.abc import Callable, Iterable, Sequence
from sys import intern
from typing import Final, NamedTuple, Protocol

from sapwood.protocol.destinations import Destination, Kind
from sapwood.protocol.errors import FrameError, InvalidName, PatternError, SequenceError
from sapwood.protocol.names import node_name, queue_name
from treeconnector.advertiser import RESYNC
from treeconnector.frames import Advice
from treeconnector.offers import OfferStanding, Tally, standing
from treeconnector.patterns import MAX_LENGTH, check_pattern
from treeconnector.routes import Route, RoutingTable

LINK_DOWN: Final = "link-down"
LINK_UP: Final = "link-up"
LEVEL_WEIGHT: Final = 256
_OPERATIONS: Final = frozenset(("add", "live", "dormant", "remove"))


class Limits(NamedTuple):
    """What one link may put into the table, and how many declined offers are remembered.

    `weight`: of all routes together; each weighs its characters and `LEVEL_WEIGHT` for each of its levels,
    about the bytes that it costs here. A neighbour that goes on offering beyond `declined`, or beyond
    `declined_weight`, breaks the protocol, as does one whose names are longer than `patterns.MAX_LENGTH`;
    all else that is too much is declined by name.
    """

    routes: int = 50_000
    length: int = 1024
    levels: int = 64
    declined: int = 100_000
    weight: int = 100 * 1024 * 1024
    declined_weight: int = 64 * 1024 * 1024


class Kept(NamedTuple):
    """A row to keep: `route.live` is what was offered; `declined` ones are held for the digest only."""

    route: Route
    declined: bool


class Applied(NamedTuple):
    """What changed: rows to keep, keys whose rows go, keys declined from now on and why the first was.

    A key is in `kept` or in `gone`, once, whatever one batch of advices said of it in turn.
    """

    kept: list[Kept]
    gone: list[Destination]
    declined: list[Destination]
    reason: str = ""

    def __bool__(self) -> bool:
        return bool(self.kept or self.gone or self.declined)


class _Changes:
    """What changes while advices are taken in; the last word on each key counts."""

    __slots__ = ("declined", "rows")

    def __init__(self) -> None:
        self.rows: dict[Destination, Kept | None] = {}
        self.declined: dict[Destination, str] = {}

    def applied(self) -> Applied:
        kept = [row for row in self.rows.values() if row is not None]
        gone = [key for key, row in self.rows.items() if row is None]
        reason = next(iter(self.declined.values()), "")
        return Applied(kept, gone, list(self.declined), reason)


class StoredRoute(Protocol):
    """A row as it was kept on disk; `broker.core.rows.RouteRow` is one."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def live(self) -> int: ...
    @property
    def origin(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def reads(self) -> int: ...
    @property
    def declined(self) -> int: ...


Legality = Callable[[Route], str]
"""Says why a neighbour's route is not its to offer; '' if it is."""


def anything_goes(_route: Route) -> str:
    return ""


class Held:
    """The offers of one neighbour. `legality` is asked for each route that is about to enter the table."""

    __slots__ = (
        *("_declined", "_declined_weight", "_gateway", "_legality", "_limits", "_offered_dormant", "_table"),
        *("_tally", "_unmarked", "_waiting", "_weight", "dormant", "heard_at"),
    )

    def __init__(
        self,
        table: RoutingTable,
        gateway: str,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        legality: Legality = anything_goes,
    ) -> None:
        self._table = table
        self._gateway = gateway
        self._limits = limits
        self._legality = legality
        self._tally = Tally()
        self._declined: dict[Destination, Route] = {}
        self._waiting: dict[Destination, None] = {}
        self._offered_dormant: dict[Destination, None] = {}
        self._weight = self._declined_weight = 0
        self._unmarked: set[Destination] | None = None
        self.dormant = False
        self.heard_at = 0.0

    def __repr__(self) -> str:
        state = " dormant" if self.dormant else ""
        return f"<Held from {self._gateway} count={self.count} declined={len(self._declined)}{state}>"

    @property
    def count(self) -> int:
        """How many keys the neighbour has offered, declined ones and domain routes included."""
        return self._tally.count

    @property
    def digest(self) -> bytes:
        """Digest of what the neighbour has offered (see `offers`)."""
        return self._tally.digest

    @property
    def declined(self) -> Iterable[Destination]:
        """The keys that were offered and are not in the table."""
        return self._declined.keys()

    @property
    def in_snapshot(self) -> bool:
        return self._unmarked is not None

    def limit(self, limits: Limits) -> bool:
        """It may put so much into the table from now on, and what is there stays. Whether that is another
        limit: then `review`."""
        changed, self._limits = limits != self._limits, limits
        return changed

    def apply(self, advices: Sequence[Advice], now: float) -> Applied:
        """Take in what the neighbour says. Raises `FrameError`, before any change, if that is no advice."""
        self._check(advices)
        self.heard_at = now
        changes = _Changes()
        for advice in advices:
            if self._unmarked is not None:
                self._unmarked.discard(advice.key)
            if advice.op == "remove":
                self._withdraw(advice.key, advice.cause, advice.origin, changes)
            else:
                self._offer(advice, changes)
        self._promote(changes)
        return changes.applied()

    def begin_snapshot(self) -> None:
        """The neighbour begins to say all that it offers. One that was under way counts for nothing."""
        self._unmarked = {*self._table.routes_of(self._gateway), *self._declined}

    def abandon_snapshot(self) -> None:
        """The link has ended: whatever was not said yet still stands."""
        self._unmarked = None

    def end_snapshot(self) -> Applied:
        """The neighbour has said all: sweep what it did not name. Raises `SequenceError` if none began."""
        if self._unmarked is None:
            raise SequenceError(f"{self._gateway} ends a snapshot: expected it to begin one first")
        unmarked, self._unmarked = self._unmarked, None
        return self._withdraw_all(unmarked, RESYNC)

    def withdraw(self, cause: str) -> Applied:
        """The neighbour leaves the tree: forget all that it has said."""
        self._unmarked = None
        return self._withdraw_all([*self._table.routes_of(self._gateway), *self._declined], cause)

    def review(self) -> Applied:
        """Ask again for every offer, because what is legal has changed: some go, some come back."""
        changes = _Changes()
        before = list(self._declined)
        for key, route in list(self._table.routes_of(self._gateway).items()):
            reason = self._legality(route)
            if reason:
                changes.declined[key] = reason
                self._decline(route._replace(live=key not in self._offered_dormant), changes)
        for key in before:
            self._reconsider(key, changes)
        self._promote(changes)
        return changes.applied()

    def set_dormant(self) -> None:
        """The link has been down for long: queue and domain routes wait. Nothing on disk changes."""
        self.dormant = True
        self._refresh(LINK_DOWN)

    def set_live(self) -> None:
        """The link is up: what the neighbour offers live is live."""
        self.dormant = False
        self._refresh(LINK_UP)

    def restore(self, rows: Iterable[StoredRoute]) -> None:
        """At a start: take back what was kept. Caller's duty: only this neighbour's rows, and only once."""
        for row in rows:
            key = self._table.same_key(Destination(Kind(row.kind), row.name))
            route = Route(key, self._gateway, bool(row.live), intern(row.origin), row.cause, row.reads)
            self._tally.add(key, standing(route.live, route.reads))
            if not route.live:
                self._offered_dormant[key] = None
            if row.declined:
                self._declined[key] = route
                self._declined_weight += _weight(key)
                self._waiting[key] = None
            else:
                self._table.put(self._as_seen_here(route))
                self._weight += _weight(key)

    # One offer

    def _check(self, advices: Sequence[Advice]) -> None:
        for advice in advices:
            if advice.op not in _OPERATIONS:
                known = ", ".join(sorted(_OPERATIONS))
                raise FrameError(f"{self._gateway} advises {advice.op[:20]!r}: expected one of {known}")
            if len(advice.name) > MAX_LENGTH:
                raise FrameError(
                    f"{self._gateway} advises a name of {len(advice.name)} characters: {MAX_LENGTH} at most"
                )
        limits = self._limits
        if len(self._declined) > limits.declined or self._declined_weight > limits.declined_weight:
            raise FrameError(
                f"{self._gateway} goes on after {len(self._declined)} of its offers were declined:"
                f" {limits.declined} at most are remembered, and {limits.declined_weight} bytes of them"
            )

    def _standing(self, key: Destination) -> OfferStanding | None:
        route = self._table.route(key, self._gateway) or self._declined.get(key)
        return standing(key not in self._offered_dormant, route.reads) if route else None

    def _offer(self, advice: Advice, changes: _Changes) -> None:
        key = self._table.same_key(advice.key)
        offered = standing(advice.op != "dormant", advice.reads)
        before = self._standing(key)
        if before == offered:
            return
        if before is not None:
            self._tally.remove(key, before)
        self._tally.add(key, offered)
        if offered.live:
            self._offered_dormant.pop(key, None)
        else:
            self._offered_dormant[key] = None
        origin = intern(advice.origin)  # one text for the thousands of routes of a store
        route = Route(key, self._gateway, offered.live, origin, advice.cause, advice.reads)
        reason = self._why_not(route)
        if reason:
            if key not in self._declined:
                changes.declined[key] = reason
            self._decline(route, changes)
        else:
            self._accept(route, changes)

    def _withdraw(self, key: Destination, cause: str, origin: str, changes: _Changes) -> None:
        """A key that was never offered may be withdrawn: add and remove may have been taken together."""
        before = self._standing(key)
        if before is None:
            return
        self._tally.remove(key, before)
        self._offered_dormant.pop(key, None)
        if self._declined.pop(key, None) is not None:
            self._declined_weight -= _weight(key)
        elif self._table.drop(key, self._gateway, cause, origin) is not None:
            self._weight -= _weight(key)
        self._waiting.pop(key, None)
        changes.declined.pop(key, None)
        changes.rows[key] = None

    def _withdraw_all(self, keys: Iterable[Destination], cause: str) -> Applied:
        changes = _Changes()
        for key in keys:
            route = self._table.route(key, self._gateway)
            self._withdraw(key, cause, route.origin if route else "", changes)
        self._promote(changes)
        return changes.applied()

    def _why_not(self, route: Route) -> str:
        """Why a route is declined; '' if it is not."""
        key = route.key
        try:
            if key.kind == Kind.TOPIC:
                check_pattern(key.name, self._limits.length, self._limits.levels)
            elif key.kind == Kind.QUEUE:
                queue_name(key.name)
            else:
                node_name(key.name)
        except (PatternError, InvalidName) as error:
            return str(error)
        reason = self._legality(route)
        if reason:
            return reason
        routes = self._table.routes_of(self._gateway)
        if key in routes:
            return ""
        if len(routes) >= self._limits.routes:
            self._waiting[key] = None
            return f"{self._gateway} has {len(routes)} routes here, which is its limit: {key} is not used"
        if self._weight + _weight(key) > self._limits.weight:
            self._waiting[key] = None
            return f"the {len(routes)} routes of {self._gateway} are too long together: {key} is not used"
        return ""

    def _accept(self, route: Route, changes: _Changes) -> None:
        if self._declined.pop(route.key, None) is not None:
            self._declined_weight -= _weight(route.key)
        if self._table.route(route.key, self._gateway) is None:
            self._weight += _weight(route.key)
        self._waiting.pop(route.key, None)
        self._table.put(self._as_seen_here(route))
        changes.declined.pop(route.key, None)
        changes.rows[route.key] = Kept(route, False)

    def _decline(self, route: Route, changes: _Changes) -> None:
        if self._table.drop(route.key, self._gateway, route.cause, route.origin) is not None:
            self._weight -= _weight(route.key)
        if route.key not in self._declined:
            self._declined_weight += _weight(route.key)
        self._declined[route.key] = route
        changes.rows[route.key] = Kept(route, True)

    def _promote(self, changes: _Changes) -> None:
        """Offers that were declined for want of room go into the table while there is some."""
        while self._waiting and len(self._table.routes_of(self._gateway)) < self._limits.routes:
            key, _ = self._waiting.popitem()
            self._reconsider(key, changes)
            if key in self._waiting:  # it is too long for the room that there is
                return

    def _reconsider(self, key: Destination, changes: _Changes) -> None:
        route = self._declined[key]
        if not self._why_not(route):
            self._accept(route, changes)

    # What the link's own state makes of it

    def _as_seen_here(self, route: Route) -> Route:
        if self.dormant and route.live and route.key.kind != Kind.TOPIC:
            return route._replace(live=False)
        return route

    def _refresh(self, cause: str) -> None:
        for key, route in list(self._table.routes_of(self._gateway).items()):
            live = key not in self._offered_dormant and not (self.dormant and key.kind != Kind.TOPIC)
            if route.live != live:
                self._table.set_live(key, self._gateway, live, cause)


def _weight(key: Destination) -> int:
    return len(key.name) + LEVEL_WEIGHT * (1 + key.name.count("/"))
