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
from typing import Final, Literal, NamedTuple

from sapwood.protocol.destinations import Destination, parse
from sapwood.protocol.errors import RouteError
from sapwood.protocol.names import node_name, queue_name

MOST: Final = 10_000


class StaticKind(StrEnum):
    EXACT = "exact"
    ALIAS = "alias"
    DEFAULT = "default"
    DUMPSTER = "dumpster"


class Words(NamedTuple):
    """What a kind of route is made of. `addressed`: it is of one address. `to`: what it leads to."""

    addressed: bool
    to: Literal["neighbour", "address", "queue"]

    def form(self, kind: str) -> str:
        """How a person writes it."""
        return " ".join((kind, *(("ADDRESS",) if self.addressed else ()), self.to.upper()))


WORDS: Final = {
    StaticKind.EXACT: Words(addressed=True, to="neighbour"),
    StaticKind.ALIAS: Words(addressed=True, to="address"),
    StaticKind.DEFAULT: Words(addressed=False, to="neighbour"),
    StaticKind.DUMPSTER: Words(addressed=False, to="queue"),
}
"""Of every kind; whoever reads, checks or shows such routes asks this table."""


class StaticRoute(NamedTuple):
    """`destination`: of exact and alias, else None. `to`: a neighbour, an alias's address, a queue's name."""

    kind: StaticKind
    destination: Destination | None
    to: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, str(self.destination or ""), "->", self.to)))

    @property
    def gateway(self) -> str:
        """The neighbour that it leads over, '' = none: it stays at this node."""
        return self.to if WORDS[self.kind].to == "neighbour" else ""


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
    if kind not in list(StaticKind):
        raise RouteError(f"{kind[:40]!r} routes are not set by hand: expected {', '.join(StaticKind)}")
    known = StaticKind(kind)
    if destination and not WORDS[known].addressed:
        raise RouteError(f"a {known} route has no destination, but {destination[:80]!r} was given")
    where = address_of(destination) if WORDS[known].addressed else None
    match WORDS[known].to:
        case "neighbour":
            return StaticRoute(known, where, node_name(to))
        case "address":
            return StaticRoute(known, where, str(address_of(to)))
        case "queue":
            return StaticRoute(known, where, queue_name(to.removeprefix("queue:").removesuffix("@local")))


class StaticRoutes:
    """The routes of one node. `exact`: neighbours by address. `dumpster`: a queue's name, '' = none."""

    def __init__(self) -> None:
        self.exact: dict[Destination, tuple[str, ...]] = {}
        self.aliases: dict[Destination, Destination] = {}
        self.defaults: tuple[str, ...] = ()
        self.dumpster = ""

    def __repr__(self) -> str:
        return (
            f"<StaticRoutes exact={len(self.exact)} aliases={len(self.aliases)}"
            f" defaults={len(self.defaults)} dumpster={self.dumpster or 'none'}>"
        )

    def __len__(self) -> int:
        exact = sum(map(len, self.exact.values()))
        return exact + len(self.aliases) + len(self.defaults) + bool(self.dumpster)

    def __iter__(self) -> Iterator[StaticRoute]:
        for key, neighbours in self.exact.items():
            for name in neighbours:
                yield StaticRoute(StaticKind.EXACT, key, name)
        for key, target in self.aliases.items():
            yield StaticRoute(StaticKind.ALIAS, key, str(target))
        for name in self.defaults:
            yield StaticRoute(StaticKind.DEFAULT, None, name)
        if self.dumpster:
            yield StaticRoute(StaticKind.DUMPSTER, None, self.dumpster)

    def __contains__(self, route: object) -> bool:
        match route:
            case StaticRoute(kind=StaticKind.DEFAULT, to=to):
                return to in self.defaults
            case StaticRoute(kind=StaticKind.DUMPSTER, to=to):
                return bool(to) and to == self.dumpster
            case StaticRoute(kind=StaticKind.EXACT, destination=Destination() as key, to=to):
                return to in self.exact.get(key, ())
            case StaticRoute(kind=StaticKind.ALIAS, destination=Destination() as key, to=to):
                return key in self.aliases and str(self.aliases[key]) == to
        return False

    def uses(self, gateway: str) -> bool:
        """Does an exact or default route go through this neighbour?"""
        return gateway in self.defaults or any(gateway in names for names in self.exact.values())

    # Changing

    def add(self, route: StaticRoute) -> None:
        """Raises `RouteError` for a route that is there already, or that cannot be."""
        if route in self:
            raise RouteError(f"the route {route} is there already: expected a new one")
        if len(self) >= MOST:
            raise RouteError(f"there are {MOST} static routes: remove some first")
        match route.kind, route.destination:
            case StaticKind.EXACT, Destination() as key:
                self.exact[key] = tuple(sorted((*self.exact.get(key, ()), route.to)))
            case StaticKind.ALIAS, Destination() as key:
                self._add_alias(key, parse(route.to))
            case StaticKind.DEFAULT, None:
                self.defaults = tuple(sorted((*self.defaults, route.to)))
            case StaticKind.DUMPSTER, None if not self.dumpster:
                self.dumpster = route.to
            case StaticKind.DUMPSTER, None:
                raise RouteError(f"the dumpster is {self.dumpster!r} already: remove that first")
            case _:
                raise RouteError(f"{route} is no route: exact and alias have a destination, others have none")

    def _add_alias(self, key: Destination, target: Destination) -> None:
        if key in self.aliases:
            raise RouteError(f"{key} is an alias of {self.aliases[key]} already: remove that first")
        way = [key]
        further: Destination | None = target
        while further is not None:
            if further in way:
                raise RouteError(f"the alias leads in a circle: {' -> '.join(map(str, (*way, further)))}")
            way.append(further)
            further = self.aliases.get(further)
        self.aliases[key] = target

    def remove(self, route: StaticRoute) -> None:
        """Raises `RouteError` for a route that is not there."""
        if route not in self:
            known = ", ".join(str(each) for each in self if each.kind == route.kind) or "none"
            raise RouteError(f"there is no route {route}: of that kind there is {known[:400]}")
        match route.kind, route.destination:
            case StaticKind.EXACT, Destination() as key:
                left = tuple(name for name in self.exact.pop(key) if name != route.to)
                if left:
                    self.exact[key] = left
            case StaticKind.ALIAS, Destination() as key:
                del self.aliases[key]
            case StaticKind.DEFAULT, _:
                self.defaults = tuple(name for name in self.defaults if name != route.to)
            case _:
                self.dumpster = ""

    def remove_gateway(self, gateway: str) -> list[StaticRoute]:
        """Take out all routes through a neighbour, and return them."""
        gone = [route for route in self if gateway and route.gateway == gateway]
        for route in gone:
            self.remove(route)
        return gone


def chosen_default(destination: Destination, gateways: Iterable[str]) -> str:
    """Which of several defaults a destination takes: always the same while it is among them.

    Rendezvous hashing: when one goes, only what it carried moves. `gateways`: at least one.
    """
    text = str(destination)
    return max(gateways, key=lambda name: (blake2b(f"{name}\n{text}".encode(), digest_size=8).digest(), name))
