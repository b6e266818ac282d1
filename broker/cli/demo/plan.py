"""Who exists in the demo and what they send each other, read from the example chain's tables.

Law: everything that is sent is decided here, before anything runs, so that the ledger knows what must
arrive. A payload is JSON and begins with an id that nobody else's payload has.
"""

import csv
import itertools
import json
import random
import socket
from collections import deque
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from config.fleet.permits import Permitted
from config.fleet.row import SiteRow
from treeconnector.wording import counted

OFFERS: Final = 120
_PORTS: Final = range(20_000, 32_000)
"""Below the range from which systems take the ports of outgoing connections: a restarted node finds its
port free."""
_GIVEN: Final[deque[int]] = deque(maxlen=1000)


@dataclass(frozen=True, slots=True)
class DemoNode:
    """One node of the chain. `parent` is empty for the root. `consume`, `send`: as in a table of sites."""

    name: str
    parent: str
    role: str
    consume: str = ""
    send: str = ""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message to send at `source` and the receivers that must get it."""

    id: str
    source: str
    destination: str
    payload: bytes
    receivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """The tree of the demo, in the order of the table: parents first."""

    places: tuple[DemoNode, ...]

    @property
    def root(self) -> DemoNode:
        return next(place for place in self.places if not place.parent)

    def place(self, name: str) -> DemoNode:
        return next(place for place in self.places if place.name == name)

    def children(self, name: str) -> list[DemoNode]:
        return [place for place in self.places if place.parent == name]

    @property
    def stores(self) -> list[DemoNode]:
        return [place for place in self.places if place.role == "leaf"]

    @property
    def victim(self) -> DemoNode:
        """The store that is killed."""
        return self.stores[0]

    @property
    def region(self) -> DemoNode:
        """The region whose line is cut: the victim's."""
        return self.place(self.victim.parent)

    def neighbours(self) -> dict[str, set[str]]:
        """Who is directly linked with whom."""
        linked: dict[str, set[str]] = {place.name: set() for place in self.places}
        for place in self.places:
            if place.parent:
                linked[place.name].add(place.parent)
                linked[place.parent].add(place.name)
        return linked


def read_table(name: str) -> list[dict[str, str]]:
    """Rows of one of the example chain's tables, which come with the program."""
    return list(csv.DictReader(read_text(name).splitlines()))


def read_text(name: str) -> str:
    return files("broker.cli.demo").joinpath("data", name).read_text(encoding="utf-8")


def read_chain() -> Chain:
    columns = ("name", "parent", "role", "consume", "send")
    return Chain(tuple(DemoNode(*map(row.__getitem__, columns)) for row in read_table("stores.csv")))


def price_queue(store: str) -> str:
    return f"queue:{store}/prices"


def offer_topic(region: str) -> str:
    return f"topic:offers/{region}"


SALES_QUEUE: Final = "queue:sales"


def price_lists(chain: Chain) -> list[Parcel]:
    """HQ to every store's queue: the whole price list, an article a message, all stores side by side."""
    root = chain.root.name
    return [
        _parcel(f"price/{store.name}/{row['article']}", root, price_queue(store.name), row, (store.name,))
        for row in read_table("prices.csv")
        for store in chain.stores
    ]


def offers(chain: Chain) -> list[Parcel]:
    """HQ to all stores of the region, by topic: every so many articles one at two thirds of its price."""
    region = chain.region.name
    receivers = tuple(store.name for store in chain.stores if store.parent == region)
    rows = read_table("prices.csv")
    chosen = random.Random(1).sample(rows, OFFERS)
    return [
        _parcel(
            f"offer/{region}/{row['article']}",
            chain.root.name,
            offer_topic(region),
            {"article": row["article"], "pence": int(row["pence"]) * 2 // 3},
            receivers,
        )
        for row in chosen
    ]


def sales(chain: Chain) -> list[Parcel]:
    """Every store to HQ: its sales of a day."""
    root = chain.root.name
    return [
        _parcel(f"sale/{row['store']}/{row['receipt']}", row["store"], SALES_QUEUE, row, (root,))
        for row in read_table("sales.csv")
    ]


def _parcel(
    identity: str, source: str, destination: str, content: dict[str, Any], receivers: tuple[str, ...]
) -> Parcel:
    payload = json.dumps({"id": identity, **content}, separators=(",", ":")).encode()
    return Parcel(identity, source, destination, payload, receivers)


def free_ports(count: int) -> list[int]:
    """Different ports of 127.0.0.1 that nobody listens on at this moment, and none of those given last."""
    found: list[int] = []
    first = random.SystemRandom().randrange(len(_PORTS))
    for port in itertools.chain(_PORTS[first:], _PORTS[:first]):
        if port in _GIVEN:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        _GIVEN.append(port)
        if len(found) == count:
            return found
    raise OSError(
        f"only {counted(len(found), 'free port')} of {_PORTS.start} to {_PORTS.stop} on 127.0.0.1;"
        f" need {count}"
    )


@dataclass(frozen=True, slots=True)
class Ports:
    """Where each node listens, and the region's line (a proxy in front of the root)."""

    nodes: dict[str, int]
    line: int

    @classmethod
    def choose(cls, chain: Chain) -> "Ports":
        ports = free_ports(len(chain.places) + 1)
        return cls({place.name: port for place, port in zip(chain.places, ports, strict=False)}, ports[-1])

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.nodes[name]}"


def write_configurations(chain: Chain, ports: Ports, folder: Path) -> dict[str, Path]:
    """Write each node's file into `folder`; return their paths by name. The data stands beside them."""
    written = {}
    permitted = Permitted([SiteRow(**asdict(place)) for place in chain.places])
    for place in chain.places:
        path = folder / f"{place.name}.yaml"
        settings = _configuration(chain, place, ports) | _children(place, permitted)
        path.write_text(json.dumps({"broker": settings}, indent=2) + "\n", "utf-8")
        written[place.name] = path
    return written


def _children(place: DemoNode, permitted: Permitted) -> dict[str, Any]:
    """What its children may do, as `sapwood config fleet` has it."""
    children = [asdict(child) for child in permitted.children(place.name)]
    written = [{name: value for name, value in child.items() if value} for child in children]
    return {"children": written} if written else {}


def _configuration(chain: Chain, place: DemoNode, ports: Ports) -> dict[str, Any]:
    """JSON is YAML. Times are shorter than the defaults, because a demo has no minute to spare."""
    settings: dict[str, Any] = {
        "name": place.name,
        "tree": "demo",
        "data": f"data/{place.name}",
        "listener": {"port": ports.nodes[place.name]},
        "advisories": {"linger": "500ms"},
        "link": {"backoff_initial": "100ms", "backoff_max": "1s"},
    }
    if place.parent:
        over_the_line = place.name == chain.region.name
        port = ports.line if over_the_line else ports.nodes[place.parent]
        settings["tree_connectors"] = [{"nodetype": place.role, "uri": f"ws://127.0.0.1:{port}/link"}]
    return settings
