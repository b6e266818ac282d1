"""One name, one thing: no class has the name of another of its house, and none that of two others."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

from definitions import definitions

ROOT = Path(__file__).parents[1]
HOUSES = ("treeconnector", "broker", "bridges", "config", "sapwood", "simulation", "interfaces", "audit")
TWINS = {"sapwood": {"Client"}}
"""The client's blocking half is the same by the same name, in a module of its own: `sapwood.sync.Client`."""


def classes(house: str) -> list[str]:
    files = sorted((ROOT / house).rglob("*.py"))
    return [node.name for path in files for node in definitions(path) if isinstance(node, ast.ClassDef)]


def test_no_class_name_is_used_twice_in_a_house_nor_in_three_houses() -> None:
    where: defaultdict[str, list[str]] = defaultdict(list)
    for house in HOUSES:
        names = classes(house)
        assert names, house
        twice = {name for name, count in Counter(names).items() if count > 1}
        assert twice == TWINS.get(house, set()), f"used twice in {house}"
        for name in set(names):
            where[name].append(house)
    thrice = {name: houses for name, houses in where.items() if len(houses) > 2}
    assert not thrice, "give one of them a name of its own"


def test_every_package_is_a_map_of_its_modules() -> None:
    """A stranger opens a package's `__init__` first: each module of it is there by name."""
    lost = []
    for house in HOUSES:
        for page in sorted((ROOT / house).rglob("__init__.py")):
            text = ast.get_docstring(ast.parse(page.read_text(encoding="utf-8"))) or ""
            parts = [path.stem for path in page.parent.glob("*.py") if not path.name.startswith("__")]
            parts += [path.parent.name for path in page.parent.glob("*/__init__.py")]
            lost += [
                f"{page.relative_to(ROOT)}: {part}"
                for part in sorted(parts)
                if not re.search(rf"\b{part}\b", text)
            ]
    assert not lost, "modules that the map of their package does not have:\n" + "\n".join(lost)
