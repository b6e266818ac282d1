"""Which nodes there are and who is whose parent: from the table of sites, or made to measure.

What is made: a root `hq`; `regions` branches below it; below each branch `fan_out` more, level by level,
until the lowest branches stand `depth` - 1 links from the root; and the stores, dealt out evenly. With
`cores` the root is a mesh of so many nodes, `hq-a` and on; with `region_cores` each of the regions is.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from broker.grants import Grants
from config.errors import ConfigurationError, did_you_mean
from config.fleet.permits import Permitted
from config.fleet.row import SiteRow
from config.fleet.table import read_sites
from config.model import Permits, Site

MAX_NODES: Final = 2_000_000
MAX_DEPTH: Final = 8
MAX_CORES: Final = 3
_LETTERS: Final = "abc"
_WORDS: Final = ("stores", "regions", "fan_out", "depth", "cores", "region_cores")
_SOMETIMES: Final = ("mesh", "consume", "send")
_EXAMPLE: Final = "stores=2200,regions=25"
_OPEN: Final = Permits(default="open")


@dataclass(frozen=True, slots=True)
class DeployedNode:
    """One node of a deployment. `parent`: '' for the root; several of one mesh with spaces between. `mesh`: a
    word that all nodes of one mesh have. `consume`, `send`: what it may beside what is its own.
    """

    name: str
    role: str
    parent: str
    mesh: str = ""
    consume: str = ""
    send: str = ""

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(self.parent.split())


@dataclass(frozen=True, slots=True)
class Deployment:
    """Nodes, parents before their children. `tree`: its name, '' where the table does not say. `closed`: it
    is a table's, whose nodes have permits as `config fleet` writes them; what is made to measure is open.
    """

    places: tuple[DeployedNode, ...]
    tree: str = ""
    closed: bool = False

    def __len__(self) -> int:
        return len(self.places)

    def of_role(self, role: str) -> list[DeployedNode]:
        return [place for place in self.places if place.role == role]

    def depths(self) -> dict[str, int]:
        """How many links stand between each node and the root."""
        found: dict[str, int] = {}
        for place in self.places:
            found[place.name] = found[place.parents[0]] + 1 if place.parent else 0
        return found

    def meshes(self) -> dict[str, list[str]]:
        """The nodes of each mesh, by its word."""
        found: dict[str, list[str]] = {}
        for place in self.places:
            if place.mesh:
                found.setdefault(place.mesh, []).append(place.name)
        return found

    def rules(self) -> dict[str, Grants]:
        """What each node lets its children do, and what they are."""
        if not self.closed:
            everything = Grants(Site(name="any", permits=_OPEN))
            return dict.fromkeys((place.name for place in self.places), everything)
        permitted = Permitted([SiteRow(**asdict(place)) for place in self.places])
        names = [place.name for place in self.places]
        return {name: Grants(Site(name=name, children=permitted.children(name))) for name in names}

    def write(self, file: Path) -> None:
        """As a table of sites, which `config fleet` and the audit read too."""
        with file.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.writer(opened, lineterminator="\n")
            more = [name for name in _SOMETIMES if any(getattr(place, name) for place in self.places)]
            writer.writerow(("name", "role", "parent", "address", "tree", *more))
            for place in self.places:
                address = "" if place.role == "leaf" else f"{place.name}.example"
                cells = (place.name, place.role, place.parent, address, self.tree)
                writer.writerow((*cells, *(getattr(place, name) for name in more)))


def deployment(text: str) -> Deployment:
    """Read a table, or make what `text` says: `stores=2200,regions=25,fan_out=10,depth=3`.

    Addresses may be missing in the table: here nodes are dialled by their names.

    Raises `ConfigurationError` with everything that is wrong.
    """
    if "=" in text and not Path(text).exists():
        return generated(**_numbers(text))
    if Path(text).suffix.lower() != ".csv" and not Path(text).exists():
        raise ConfigurationError(
            f"there is no table of sites {text!r}: expected a CSV file, or a deployment to be made,"
            f" such as {_EXAMPLE}"
        )
    rows = read_sites(text, dialled=False)
    children: dict[str, list[DeployedNode]] = {}
    for row in rows:
        place = DeployedNode(row.name, row.role, " ".join(row.parents), row.mesh, row.consume, row.send)
        children.setdefault(next(iter(row.parents), ""), []).append(place)
    tree = next((row.tree for row in rows if row.tree), "")
    return Deployment(tuple(_downwards(children)), tree, closed=True)


def _downwards(children: dict[str, list[DeployedNode]]) -> Iterator[DeployedNode]:
    level = children.get("", [])
    while level:
        yield from level
        level = [child for place in level for child in children.get(place.name, ())]


def _numbers(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in text.split(","):
        word, _, number = (piece.strip() for piece in part.partition("="))
        if word not in _WORDS:
            raise ConfigurationError(
                f"{word!r} says nothing of a deployment: expected {', '.join(_WORDS)},"
                f" as in {_EXAMPLE}{did_you_mean(word, _WORDS)}"
            )
        if word in found:
            raise ConfigurationError(f"{word} stands twice in {text!r}: leave one out")
        if not re.fullmatch("[0-9]{1,9}", number):
            raise ConfigurationError(f"{word}={number}: expected a whole number, as in {_EXAMPLE}")
        found[word] = int(number)
    if "stores" not in found:
        raise ConfigurationError(f"{text!r} does not say how many stores: expected it as in {_EXAMPLE}")
    return found


def generated(
    stores: int, regions: int = 0, fan_out: int = 0, depth: int = 2, cores: int = 1, region_cores: int = 1
) -> Deployment:
    """Make a deployment. Without `regions` about as many as each region has stores; `fan_out` 0 = 10."""
    _check(stores, regions, fan_out, depth)
    _check_meshes(depth, cores, region_cores)
    places = _nodes("hq", "root", "", cores)
    branches = {"hq": _cell(places)}
    if depth > 1:
        regions = regions or max(1, round(stores**0.5))
        names = [f"region-{number:0{len(str(regions))}}" for number in range(1, regions + 1)]
        made = {name: _nodes(name, "branch", branches["hq"], region_cores) for name in names}
        places += [place for nodes in made.values() for place in nodes]
        branches = {name: _cell(nodes) for name, nodes in made.items()}
    for _ in range(depth - 2):
        below = [
            DeployedNode(f"{name}-{number}", "branch", cell)
            for name, cell in branches.items()
            for number in range(1, (fan_out or 10) + 1)
        ]
        places += below
        branches = {place.name: place.name for place in below}
    width, lowest = len(str(stores)), list(branches.values())
    for number in range(stores):
        parent = lowest[number * len(lowest) // stores]
        places.append(DeployedNode(f"store-{number + 1:0{width}}", "leaf", parent))
    return Deployment(tuple(places))


def _nodes(name: str, role: str, parent: str, count: int) -> list[DeployedNode]:
    """A node, or the nodes of a mesh that stands for one."""
    if count == 1:
        return [DeployedNode(name, role, parent)]
    return [DeployedNode(f"{name}-{letter}", role, parent, name) for letter in _LETTERS[:count]]


def _cell(nodes: Sequence[DeployedNode]) -> str:
    """How their children name them as parents."""
    return " ".join(place.name for place in nodes)


def _check(stores: int, regions: int, fan_out: int, depth: int) -> None:
    if not 1 <= depth <= MAX_DEPTH:
        raise ConfigurationError(f"depth={depth}: expected 1 (stores below the root) to {MAX_DEPTH}")
    if depth == 1 and regions:
        raise ConfigurationError("depth=1 has no regions: leave regions out, or say depth=2")
    if depth < 3 and fan_out:
        raise ConfigurationError(f"depth={depth} has no branches below regions: leave fan_out out")
    branches = max(regions, 1) * max(fan_out, 10 if depth > 2 else 1) ** max(depth - 2, 0)
    if not 1 <= stores <= MAX_NODES or branches > MAX_NODES:
        raise ConfigurationError(
            f"{stores} stores below {branches} branches: expected 1 to {MAX_NODES} of each"
        )


def _check_meshes(depth: int, cores: int, region_cores: int) -> None:
    for word, count in (("cores", cores), ("region_cores", region_cores)):
        if not 1 <= count <= MAX_CORES:
            raise ConfigurationError(f"{word}={count}: expected a mesh of 2 or {MAX_CORES} nodes, or 1")
    if depth == 1 and region_cores > 1:
        raise ConfigurationError("depth=1 has no regions: leave region_cores out, or say depth=2")
