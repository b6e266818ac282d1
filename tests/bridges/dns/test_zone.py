"""The zone's own server is asked where it is."""

import asyncio
import socket
from typing import Any

import pytest
from bind_server import KEY, KEY_NAME, ZONE, BindServer

from bridges.dns.errors import LocationError
from bridges.dns.zone import Zone, ZoneAccess


@pytest.mark.parametrize("silent", [False, True])
async def test_of_a_server_with_several_addresses_one_that_answers_is_enough(
    bind: BindServer, domain: str, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """The first takes no connection, or takes it and says nothing."""
    bind.set(domain, "SRV", "0 5 7600 localhost.")
    addresses: list[tuple[str, int]] = []

    async def looked_up(*_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in addresses]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", looked_up)
    with socket.socket() as other:
        other.bind(("127.0.0.2", bind.port))
        if silent:
            other.listen()
        zone = Zone(ZoneAccess(domain, ZONE, f"ns.{ZONE}:{bind.port}", KEY_NAME, KEY, timeout=2.0))
        addresses += [("127.0.0.2", bind.port), ("127.0.0.1", bind.port)]
        assert len((await zone.read()).services) == 1
        if not silent:
            addresses.pop()
            with pytest.raises(LocationError, match="cannot be reached"):
                await zone.read()
