"""Gives each test of the core a forest of its own: an empty one, or one with meshes."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulation.forest import Forest


@pytest.fixture
def forest() -> Forest:
    return Forest()


@pytest.fixture
def meshes() -> Forest:
    """Three roots that are one, two branches that are one, a store below these and one below the roots."""
    made = Forest()
    made.add_mesh("c1", "c2", "c3")
    made.add_mesh("n1", "n2", parent="c2")
    made.add("york", "n1", "leaf")
    made.add("shop", "c2", "leaf")
    made.heal(5)
    return made
