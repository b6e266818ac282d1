"""Discovery before it is known how the broker writes its log."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bridges.site_brokers.mosquitto import discovery
from bridges.site_brokers.mosquitto.connection import Received
from bridges.site_brokers.mosquitto.discovery import LogDiscovery


async def made() -> LogDiscovery:
    setup = SimpleNamespace(max_consumers=100, settings=SimpleNamespace(discovery="automatic"))
    memory = SimpleNamespace(clients={})
    return LogDiscovery(
        cast("Any", setup), cast("Any", None), cast("Any", memory), cast("Any", None), lambda: None
    )


async def heard(found: LogDiscovery, count: int, line: bytes) -> list[tuple[str, bytes]]:
    for _ in range(count):
        found.heard(Received(discovery.LOGS[0], line, 0, False, False, 0, cast("Any", None), ()))
    return found._early


async def test_lines_that_cannot_be_read_yet_are_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "_MOST_EARLY", 10)
    assert len(await heard(await made(), 50, b"New client connected")) == 10


async def test_lines_that_cannot_be_read_yet_are_kept_up_to_a_size() -> None:
    """Whoever writes there writes lines of a megabyte."""
    early = await heard(await made(), 50, bytes(1024 * 1024))
    assert 14 * 1024 * 1024 < sum(len(payload) for _, payload in early) <= 16 * 1024 * 1024
