"""A Mosquitto of its own for each test that takes one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mosquitto_server import DISCOVERY, MosquittoServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MosquittoServer]:
    made = MosquittoServer(tmp_path / "mosquitto", *DISCOVERY)
    made.start()
    yield made
    made.kill()
