"""Gives each test of the core a forest of its own."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulation.forest import Forest


@pytest.fixture
def forest() -> Forest:
    return Forest()
