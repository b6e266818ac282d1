"""Makes `harness` importable for the numbered tests, marks them, and gives each a network of its own."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

sys.path.insert(0, str(Path(__file__).parent))

from harness import Network


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.network)


@pytest_asyncio.fixture
async def network(tmp_path: Path) -> AsyncIterator[Network]:
    """An empty network; all its processes are gone afterwards."""
    async with Network(tmp_path) as made:
        yield made
