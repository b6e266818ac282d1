"""The tree of the retail demo."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[2]))  # for `benchmarks`, which are no part of the wheel

from audit_tables import sites, tree_of

from audit.deployment import Tree


@pytest.fixture(scope="session")
def demo_tree() -> Tree:
    """The tree of the retail demo."""
    stores = {"north": ("york", "durham", "lancaster"), "south": ("bath", "exeter", "winchester")}
    rows = sites(
        "hq - root",
        *(f"{region} hq branch" for region in stores),
        *(f"{store} {region} leaf" for region, names in stores.items() for store in names),
    )
    return tree_of(rows)
