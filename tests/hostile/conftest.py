"""Makes the programs of this folder importable, and those that drive real nodes and a real browser."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "network")]

from harness import Network  # noqa: E402 - the path is set above


@pytest_asyncio.fixture
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    """An empty network; all its processes are gone afterwards."""
    async with Network(tmp_path) as made:
        yield made
