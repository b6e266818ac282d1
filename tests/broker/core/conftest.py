"""Gives each test of the core a forest of its own."""

import pytest

from simulation.forest import Forest


@pytest.fixture
def forest() -> Forest:
    return Forest()
