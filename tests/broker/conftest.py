"""Small trees of pure cores that tests of several parts begin with."""

import pytest

from simulation.forest import Forest


def linked(*places: tuple[str, ...]) -> Forest:
    """Each place: name, parent, role."""
    made = Forest()
    for place in places:
        made.add(*place)
    made.dial_all()
    made.settle()
    return made


@pytest.fixture
def chain() -> Forest:
    """hq, north below it, york below that."""
    return linked(("hq",), ("north", "hq", "branch"), ("york", "north"))


@pytest.fixture
def fork() -> Forest:
    """hq, north and south below it, york below north."""
    return linked(("hq",), ("north", "hq", "branch"), ("south", "hq", "branch"), ("york", "north"))
