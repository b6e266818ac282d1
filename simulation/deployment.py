"""Which nodes there are and who is whose parent: from the table of sites, or made to measure.

What is made: a root `hq`; `regions` branches below it; below each branch `fan_out` more, level by level,
until the lowest branches stand `depth` - 1 links from the root; and the stores, dealt out evenly.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from config.errors import ConfigurationError, did_you_mean
from config.fleet.table import read_sites

MAX_NODES: Final = 2_000_000
MAX_DEPTH: Final = 8
_WORDS: Final = ("stores", "regions", "fan_out", "depth")
_EXAMPLE: Final = "stores=2200,regions=25"


@dataclass(frozen=True, slots=True)
class Place:
    """One node of a deployment; `parent` is '' for the root."""

    name: str
    role: str
    parent: str


@dataclass(frozen=True, slots=True)
class Deployment:
    """Nodes, parents before their children. `tree`: its name, '' where the table does not say."""

    places: tuple[Place, ...]
    tree: str = ""

    def __len__(self) -> int:
        return len(self.places)

    def of_role(self, role: str) -> list[Place]:
        return [place for place in self.places if place.role == role]

    def depths(self) -> dict[str, int]:
        """How many links stand between each node and the root."""
        found: dict[str, int] = {}
        for place in self.places:
            found[place.name] = found[place.parent] + 1 if place.parent else 0
        return found

    def write(self, file: Path) -> None:
        """As a table of sites, which `config fleet` and the audit read too."""
        with file.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.writer(opened, lineterminator="\n")
            writer.writerow(("name", "role", "parent", "address", "tree"))
            for place in self.places:
                address = "" if place.role == "leaf" else f"{place.name}.example"
                writer.writerow((place.name, place.role, place.parent, address, self.tree))


def deployment(text: str) -> Deployment:
    """Read a table, or make what `text` says: `stores=2200,regions=25,fan_out=10,depth=3`.

    Raises `ConfigurationError` with everything that is wrong.
    """
    if "=" in text and not Path(text).exists():
        return generated(**_numbers(text))
    if Path(text).suffix.lower() != ".csv" and not Path(text).exists():
        raise ConfigurationError(
            f"there is no table of sites {text!r}: expected a CSV file, or a deployment to be made,"
            f" such as {_EXAMPLE}"
        )
    rows = read_sites(text)
    children: dict[str, list[Place]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(Place(row.name, row.role, row.parent))
    return Deployment(tuple(_downwards(children)), next((row.tree for row in rows if row.tree), ""))


def _downwards(children: dict[str, list[Place]]) -> Iterator[Place]:
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


def generated(stores: int, regions: int = 0, fan_out: int = 0, depth: int = 2) -> Deployment:
    """Make a deployment. Without `regions` about as many as each region has stores; `fan_out` 0 = 10."""
    _check(stores, regions, fan_out, depth)
    places = [Place("hq", "root", "")]
    branches: Sequence[str] = ["hq"]
    if depth > 1:
        regions = regions or max(1, round(stores**0.5))
        branches = [f"region-{number:0{len(str(regions))}}" for number in range(1, regions + 1)]
        places += [Place(name, "branch", "hq") for name in branches]
    for _ in range(depth - 2):
        below = [(f"{name}-{number}", name) for name in branches for number in range(1, (fan_out or 10) + 1)]
        places += [Place(name, "branch", parent) for name, parent in below]
        branches = [name for name, _ in below]
    width = len(str(stores))
    for number in range(stores):
        places.append(
            Place(f"store-{number + 1:0{width}}", "leaf", branches[number * len(branches) // stores])
        )
    return Deployment(tuple(places))


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
