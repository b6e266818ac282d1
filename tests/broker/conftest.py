"""Small trees of pure cores that tests of several parts begin with."""

import pytest

from simulation.forest import Forest


@pytest.fixture
def chain() -> Forest:
    """hq, north below it, york below that."""
    return Forest().grow(("hq",), ("north", "hq", "branch"), ("york", "north"))


@pytest.fixture
def fork() -> Forest:
    """hq, north and south below it, york below north."""
    return Forest().grow(("hq",), ("north", "hq", "branch"), ("south", "hq", "branch"), ("york", "north"))
