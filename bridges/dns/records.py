"""The ways that SRV and TXT records of `_sapwood._tcp.DOMAIN` name, and in which order to try them.

Each way to a node is one SRV record (priority, weight, port, host) and one TXT record at the same name, of
strings KEY=VALUE: `target` (HOST:PORT, which SRV record it belongs to), `carrier`, `path`, `tree`, `node`,
`incarnation`, and of a node that registers itself `beat` and `lease`. Without `target` it belongs to every
SRV record that has none of its own, so one written by hand may be short. Keys that are not known are left
aside: the record grows. Without TXT a way is `wss` at `/link`.

Law: whatever the records hold, what comes out are link URIs that a file could hold, at most `MOST` of them;
what was left out is said in notes, bounded too.
Law: DNS gives records in another order each time. Which are left out does not depend on it: of two looks at
the same records both find the same ways.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from config.kinds import Fault
from config.schemes import DIRECT
from config.uris import ANNOUNCED_URI, HOST, address, is_address
from config.values import NAME

SERVICE: Final = "_sapwood._tcp"
MOST: Final = 256
MOST_TEXTS: Final = 16
"""Of one target. How many come in all is bounded by the size of a message of DNS, 64 KiB."""
MOST_NOTES: Final = 12
_LONGEST_TEXT: Final = 2048
_LONGEST_LEASE: Final = 30 * 86_400
_HEX: Final = frozenset("0123456789abcdef")


class Service(NamedTuple):
    """One SRV record. `host`: without the dot at its end; '' is the root, which says: not here."""

    priority: int
    weight: int
    port: int
    host: str

    @property
    def target(self) -> str:
        return f"{self.host.lower()}:{self.port}"


@dataclass(frozen=True, slots=True)
class NamedParent:
    """One way to a node. A field that DNS does not say is ''. `lease` in seconds, 0 where nobody keeps it up.

    `beat`: another one each time when its node has renewed it.
    """

    uri: str
    priority: int = 0
    weight: int = 0
    tree: str = ""
    node: str = ""
    incarnation: str = ""
    beat: str = ""
    lease: float = 0.0

    @property
    def service(self) -> Service:
        way = address(self.uri)
        return Service(self.priority, self.weight, way.port, way.host)

    @property
    def text(self) -> tuple[str, ...]:
        """The strings of its TXT record."""
        way = address(self.uri)
        said = {
            "target": self.service.target,
            "carrier": way.scheme,
            "path": way.path,
            "tree": self.tree,
            "node": self.node,
            "incarnation": self.incarnation,
            "beat": self.beat,
            "lease": f"{self.lease:g}" if self.lease else "",
        }
        return tuple(f"{key}={value}" for key, value in said.items() if value)


def shown(text: object) -> str:
    """A text from DNS, for a note: short and printable."""
    made = str(text).encode("ascii", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else "?" for letter in made)[:80]


class Notes(list[str]):
    """The records that were left out, and why; bounded. `more`: how many notes had no room."""

    more = 0

    def add(self, text: str) -> None:
        if text in self:
            return
        if len(self) < MOST_NOTES:
            self.append(text)
        else:
            self.more += 1

    def all(self) -> tuple[str, ...]:
        return (*self, f"and {self.more} more") if self.more else tuple(self)


def read_text(strings: Sequence[bytes]) -> dict[str, str]:
    """The keys and values of one TXT record. Raises `Fault` for what is none of ours."""
    if sum(map(len, strings)) > _LONGEST_TEXT:
        raise Fault(f"a TXT record of {sum(map(len, strings))} bytes: expected {_LONGEST_TEXT} at most")
    found: dict[str, str] = {}
    for string in strings:
        text = string.decode("ascii", "backslashreplace")
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier() or not value.isprintable():
            raise Fault(f"a TXT string {shown(text)!r}: expected KEY=VALUE")
        if key in found:
            raise Fault(f"a TXT record that says {shown(key)} twice")
        found[key] = value
    if not found:
        raise Fault("a TXT record that says nothing")
    return found


def places(services: Iterable[Service], texts: Iterable[Sequence[bytes]], notes: Notes) -> list[NamedParent]:
    """All ways that these records name. A way that cannot be is left out, and told in `notes`."""
    known: dict[str, list[dict[str, str]]] = {}
    for strings in sorted(map(tuple, texts)):
        try:
            said = read_text(strings)
        except Fault as fault:
            notes.add(f"left out {fault}")
            continue
        of_target = known.setdefault(said.get("target", "").lower(), [])
        if len(of_target) < MOST_TEXTS:
            of_target.append(said)
        else:
            notes.add(f"more than {MOST_TEXTS} TXT records of one target: the others were left out")
    found: dict[str, NamedParent] = {}
    for service in sorted(services, key=_first_wanted):
        for said in known.get(service.target) or known.get("") or [{}]:
            try:
                place = _place(service, said)
            except Fault as fault:
                notes.add(f"left out {shown(service.target)!r}: {shown(fault)}")
                continue
            if len(found) >= MOST and place.uri not in found:
                notes.add(f"more than {MOST} ways: the others were left out")
                return list(found.values())
            found[place.uri] = place
    return list(found.values())


def _first_wanted(service: Service) -> tuple[int, int, str]:
    """The smaller priority, then the larger weight; then whichever, but always the same."""
    return service.priority, -service.weight, service.target


def _place(service: Service, said: Mapping[str, str]) -> NamedParent:
    if not service.host:
        raise Fault("'.' says that the service is not to be had there")
    if is_address(HOST.parse(service.host)):
        raise Fault("an SRV record names a host, never an IP address")
    return _named(service, said)


def place_of(said: Mapping[str, str]) -> NamedParent:
    """The way to a node's own port that a TXT record names by itself, `target` included. Raises `Fault`."""
    if said.get("carrier", DIRECT.tls_scheme) not in DIRECT.schemes:
        raise Fault("a way that is no node's own port: the same network tells of no broker")
    host, _, port = said.get("target", "").rpartition(":")
    if not (port.isdecimal() and len(port) <= 5):
        raise Fault(f"a target {shown(said.get('target', ''))!r}: expected HOST:PORT")
    return _named(Service(0, 0, int(port), host), said)


def _named(service: Service, said: Mapping[str, str]) -> NamedParent:
    host = HOST.parse(service.host)
    carrier = said.get("carrier", DIRECT.tls_scheme)
    path = said.get("path", DIRECT.path if carrier in DIRECT.schemes else "")
    tree, node = said.get("tree", ""), said.get("node", "")
    for name in filter(None, (tree, node)):
        NAME.parse(name)
    incarnation, beat = said.get("incarnation", ""), said.get("beat", "")
    if len(incarnation) > 32 or not set(incarnation) <= _HEX or len(beat) > 20:
        raise Fault("an incarnation or beat that no node has")
    uri = ANNOUNCED_URI.parse(f"{carrier}://{host.lower()}:{service.port}{path}")
    return NamedParent(
        address(uri).uri,
        service.priority,
        service.weight,
        tree,
        node,
        incarnation,
        beat,
        _lease(said.get("lease", "")),
    )


def _lease(text: str) -> float:
    if not text:
        return 0.0
    if not (text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= _LONGEST_LEASE):
        raise Fault(f"a lease of {shown(text)!r}: expected 1 to {_LONGEST_LEASE} seconds")
    return float(text)


def in_order(found: Iterable[NamedParent], chance: random.Random) -> list[NamedParent]:
    """The order of RFC 2782: the smaller priority first; of equal ones drawn at random by weight."""
    ordered: list[NamedParent] = []
    for _, group in groupby(sorted(found, key=lambda place: place.priority), lambda place: place.priority):
        left = list(group)
        chance.shuffle(left)
        left.sort(key=lambda place: place.weight > 0)  # "in any order, except": those of weight 0 first
        while left:
            ordered.append(left.pop(_draw([place.weight for place in left], chance)))
    return ordered


def _draw(weights: list[int], chance: random.Random) -> int:
    """The index whose running sum first reaches a number from 0 to the sum of all."""
    number = chance.randint(0, sum(weights))
    running = 0
    for index, weight in enumerate(weights):
        running += weight
        if running >= number:
            return index
    raise AssertionError(weights)
