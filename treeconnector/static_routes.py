"""Routes that an operator sets: exact, alias, default and dumpster. They stay until somebody removes them.

exact     messages for this very address go through these neighbours
alias     messages for this address are for another address
default   neighbours for what no route names, beside the parent
dumpster  the queue of this node for what nothing else takes

Law: adding a route twice and removing one that is not there are errors. Each address has one alias, a node
one dumpster; aliases lead somewhere, never in a circle.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeVar

from sapwood.protocol.destinations import Destination, parse
from sapwood.protocol.errors import RouteError
from sapwood.protocol.names import node_name, queue_name

MOST: Final = 10_000
MOST_IN_A_ROW: Final = 100
_Value = TypeVar("_Value")


class StaticKind(StrEnum):
    EXACT = "exact"
    ALIAS = "alias"
    DEFAULT = "default"
    DUMPSTER = "dumpster"


class Step(StrEnum):
    """When the look-up asks a kind of route: before what was learned, or after it."""

    FIRST = "first"
    READDRESS = "readdress"
    LAST = "last"
    NOWHERE = "nowhere"


class RouteForm(NamedTuple):
    """A kind of route. `addressed`: it is of one address. `to`: where it leads. `step`: when it counts.

    `text`: for people. One that leads to no neighbour is alone: of its address, or of the node.
    """

    addressed: bool
    to: Literal["neighbour", "address", "queue"]
    step: Step
    text: str

    def form(self, kind: str) -> str:
        """How a person writes it."""
        return " ".join((kind, *(("ADDRESS",) if self.addressed else ()), self.to.upper()))


FORMS: Final[dict[str, RouteForm]] = {
    StaticKind.EXACT: RouteForm(True, "neighbour", Step.FIRST, "one address, over one neighbour"),
    StaticKind.ALIAS: RouteForm(True, "address", Step.READDRESS, "an address that stands for another"),
    StaticKind.DEFAULT: RouteForm(False, "neighbour", Step.LAST, "what no other route names"),
    StaticKind.DUMPSTER: RouteForm(False, "queue", Step.NOWHERE, "what has no way at all"),
}
"""Of every kind; whoever reads, checks, keeps, shows or follows such routes asks this table."""


class StaticRoute(NamedTuple):
    """`destination`: of exact and alias, else None. `to`: a neighbour, an alias's address, a queue's name."""

    kind: str
    destination: Destination | None
    to: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, str(self.destination or ""), "->", self.to)))

    @property
    def gateway(self) -> str:
        """The neighbour that it leads over, '' = none: it stays at this node."""
        return self.to if FORMS[self.kind].to == "neighbour" else ""


def one_of(kinds: Iterable[str]) -> str:
    """Kinds in a sentence: 'exact, alias or default'."""
    *others, last = kinds
    return f"{', '.join(others)} or {last}"


def address_of(text: str) -> Destination:
    """`NAME`, `NAME@NODE`, `NAME@local` or either after `queue:`. Raises `InvalidName` or `RouteError`."""
    if text.startswith("topic:"):
        raise RouteError(f"{text[:80]!r} is a topic: expected a queue, 'NAME' or 'NAME@NODE'")
    return parse(f"queue:{text.removeprefix('queue:')}")


def static_route(kind: str, destination: str, to: str) -> StaticRoute:
    """A route from its words; default and dumpster have no `destination`.

    Raises `InvalidName` or `RouteError`.
    """
    if kind not in FORMS:
        raise RouteError(f"{kind[:40]!r} routes are not set by hand: expected {', '.join(FORMS)}")
    form = FORMS[kind]
    if destination and not form.addressed:
        raise RouteError(f"a {kind} route has no destination, but {destination[:80]!r} was given")
    where = address_of(destination) if form.addressed else None
    match form.to:
        case "neighbour":
            return StaticRoute(kind, where, node_name(to))
        case "address":
            return StaticRoute(kind, where, str(address_of(to)))
        case "queue":
            return StaticRoute(kind, where, queue_name(to.removeprefix("queue:").removesuffix("@local")))


class StaticRoutes:
    """The routes of one node, and what the look-up asks of them at each of its steps.

    `exact`: neighbours by address, before what was learned. `aliases`: other addresses. `defaults`:
    neighbours for what was not learned, and `reserves`: more of these by address. `dumpster`: a queue's
    name, '' = none.
    `steers`: is there a route that changes the way of messages which have one?
    """

    __slots__ = ("_count", "_kept", "aliases", "defaults", "dumpster", "exact", "reserves", "steers")

    def __init__(self) -> None:
        self._kept: dict[str, dict[Destination | None, tuple[str, ...]]] = {}
        self._count = 0
        self.exact: dict[Destination, tuple[str, ...]] = {}
        self.aliases: dict[Destination, Destination] = {}
        self.reserves: dict[Destination, tuple[str, ...]] = {}
        self.defaults: tuple[str, ...] = ()
        self.dumpster = ""
        self.steers = False

    def __repr__(self) -> str:
        return (
            f"<StaticRoutes exact={len(self.exact)} aliases={len(self.aliases)}"
            f" defaults={len(self.defaults)} dumpster={self.dumpster or 'none'}>"
        )

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[StaticRoute]:
        for kind in FORMS:
            for key, names in self._kept.get(kind, {}).items():
                for name in names:
                    yield StaticRoute(kind, key, name)

    def __contains__(self, route: object) -> bool:
        if not isinstance(route, StaticRoute):
            return False
        return route.to in self._kept.get(route.kind, {}).get(route.destination, ())

    def copy(self) -> "StaticRoutes":
        """The same routes, to try on them whether others can stand beside them."""
        made = StaticRoutes()
        for route in self:
            made.add(route, known=True)
        return made

    def uses(self, gateway: str) -> bool:
        """Does a route go through this neighbour?"""
        return any(route.gateway == gateway for route in self)

    # Changing

    def add(self, route: StaticRoute, *, known: bool = False) -> None:
        """`known`: it was set before. Raises `RouteError` for one that is there already or cannot be."""
        kind, key, to = route
        if route in self:
            raise RouteError(f"the route {route} is there already: expected a new one")
        if len(self) >= MOST:
            raise RouteError(f"there are {MOST} static routes: remove some first")
        if FORMS[kind].addressed is not (key is not None):
            addressed = " and ".join(each for each, form in FORMS.items() if form.addressed)
            raise RouteError(f"{route} is no route: {addressed} have a destination, others have none")
        names = self._kept.get(kind, {}).get(key, ())
        if names and FORMS[kind].to != "neighbour":
            (other,) = names
            found = f"the {kind} is {other!r}" if key is None else f"{key} is an {kind} of {other}"
            raise RouteError(f"{found} already: remove that first")
        if FORMS[kind].step is Step.READDRESS and key is not None and not known:
            self._check_circle(key, parse(to))
        self._kept.setdefault(kind, {})[key] = tuple(sorted((*names, to)))
        self._count += 1
        self._look_up_anew(FORMS[kind].step, key)

    def _check_circle(self, key: Destination, target: Destination) -> None:
        """Wrinkle: the others make no circle, so one leads back to `key`. Each new alias walks along them."""
        way = [key]
        further: Destination | None = target
        while further is not None:
            way.append(further)
            if further == key:
                raise RouteError(f"the alias leads in a circle: {' -> '.join(map(str, way))}")
            if len(way) - 2 > MOST_IN_A_ROW:
                raise RouteError(f"{key} leads over {MOST_IN_A_ROW} other aliases: expected fewer")
            further = self.aliases.get(further)

    def remove(self, route: StaticRoute) -> None:
        """Raises `RouteError` for a route that is not there."""
        kind, key, to = route
        if route not in self:
            known = ", ".join(str(each) for each in self if each.kind == kind) or "none"
            raise RouteError(f"there is no route {route}: of that kind there is {known[:400]}")
        kept = self._kept[kind]
        kept[key] = tuple(name for name in kept[key] if name != to)
        if not kept[key]:
            del kept[key]
        self._count -= 1
        self._look_up_anew(FORMS[kind].step, key)

    def _look_up_anew(self, step: Step, key: Destination | None) -> None:
        """The routes of a step changed for an address, or for all."""
        kinds = (kind for kind, form in FORMS.items() if form.step is step)
        names = tuple(sorted(name for kind in kinds for name in self._kept.get(kind, {}).get(key, ())))
        match step, key:
            case Step.FIRST, Destination():
                _put(self.exact, key, names)
            case Step.READDRESS, Destination():
                _put(self.aliases, key, parse(names[0]) if names else None)
            case Step.LAST, Destination():
                _put(self.reserves, key, names)
            case Step.LAST, None:
                self.defaults = names
            case _:
                self.dumpster = names[0] if names else ""
        self.steers = bool(self.exact or self.aliases or self.reserves or self.defaults)

    def remove_gateway(self, gateway: str) -> list[StaticRoute]:
        """Take out all routes through a neighbour, and return them."""
        gone = [route for route in self if gateway and route.gateway == gateway]
        for route in gone:
            self.remove(route)
        return gone


def _put(held: dict[Destination, _Value], key: Destination, value: _Value | None) -> None:
    if value:
        held[key] = value
    else:
        held.pop(key, None)


def chosen_default(destination: Destination, gateways: Iterable[str]) -> str:
    """Which of several defaults a destination takes: always the same while it is among them.

    Rendezvous hashing: when one goes, only what it carried moves. `gateways`: at least one.
    """
    text = str(destination)
    return max(gateways, key=lambda name: (blake2b(f"{name}\n{text}".encode(), digest_size=8).digest(), name))
