"""Makes the programs of this folder importable, and those that drive real nodes and a real browser."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "network")]

from harness import Network  # noqa: E402 - the path is set above
from intake_peers import Target, running  # noqa: E402


@pytest_asyncio.fixture
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    """An empty network; all its processes are gone afterwards."""
    async with Network(tmp_path) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def target(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Target]:
    """A node that all tests of a module share; it ends well, and has told of no fault."""
    async with running(tmp_path_factory.mktemp("node")) as made:
        yield made
        assert await made.process.stop() == 0
        assert "Traceback" not in made.log, made.log
