"""The check of a Mosquitto; that of its log is in tests/network/test_33_mosquitto_check.py."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mosquitto_clients import Listener
from mosquitto_server import DISCOVERY, MosquittoServer
from rabbitmq_site import FakeDesk

from bridges.site_brokers.base import Finding, Setup, SiteBrokerRefused
from bridges.site_brokers.mosquitto import MosquittoBridge, inspection
from bridges.site_brokers.mosquitto.connection import Filter, MqttConnection
from bridges.site_brokers.mosquitto.discovery import COUNT
from config.model import SiteBroker


async def test_its_own_subscriptions_are_not_taken_for_those_of_others_though_it_takes_long(
    server: MosquittoServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker counts again meanwhile, as it does every some seconds."""
    permissions = inspection._permissions
    with Listener(server.port, "-t", COUNT, "-i", "watch") as watch:

        async def slow(*arguments: Any) -> list[Finding]:
            found = await permissions(*arguments)
            while int(watch.payloads()[-1]) == 1:
                await asyncio.sleep(0.02)
            return found

        await watch.until_the_last_is("1")
        monkeypatch.setattr(inspection, "_permissions", slow)
        settings = SiteBroker(uri=server.uri)
        setup = Setup("test", "york", "0" * 32, tmp_path, settings, None, None, 60.0, 1 << 20, 1000)
        found = await MosquittoBridge(setup).inspect()
    (text,) = [each.text for each in found if "already" in each.text]
    assert "the broker has 1 subscription already" in text


async def test_a_bridge_of_the_broker_is_named(server: MosquittoServer, tmp_path: Path) -> None:
    """Beside nodes at both ends, what it passes on both ways would go round without end."""
    lines = ("allow_anonymous true", "connection north", f"address 127.0.0.1:{server.port}", "topic # both")
    other = MosquittoServer(tmp_path / "other", *lines, "remote_clientid to-the-north")
    other.start()
    try:
        with Listener(server.port, "-t", "$SYS/broker/connection/+/state", "-i", "watch") as watch:
            await watch.until_the_last_is("1")
        settings = SiteBroker(uri=server.uri, discovery="static")
        setup = Setup("test", "york", "0" * 32, tmp_path, settings, None, None, 60.0, 1 << 20, 1000)
        found = await MosquittoBridge(setup).inspect()
    finally:
        other.kill()
    assert [each for each in found if "('to-the-north')" in each.text and "without end" in each.text]


async def test_a_listener_with_a_mount_point_is_said_to_be_none_for_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspection, "_PATIENCE", 0.1)
    mounted = MosquittoServer(tmp_path / "mounted", *DISCOVERY, "mount_point site/")
    mounted.start()
    try:
        settings = SiteBroker(uri=mounted.uri)
        setup = Setup("test", "york", "0" * 32, tmp_path, settings, None, None, 60.0, 1 << 20, 1000)
        found = await MosquittoBridge(setup).inspect()
        with pytest.raises(SiteBrokerRefused, match="mount_point"):
            await MosquittoBridge(setup).run(FakeDesk())
    finally:
        mounted.kill()
    assert [each for each in found if each.fatal and "mount_point" in each.text]


async def test_who_may_not_read_of_bridges_is_told_which_lines_the_log_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where dynamic security lets a node read the log and the counts alone."""
    subscribe = MqttConnection.subscribe

    async def narrow(self: MqttConnection, filters: Sequence[Filter]) -> list[int]:
        codes = await subscribe(self, filters)
        return [135 if "connection" in each.text else code for each, code in zip(filters, codes, strict=True)]

    monkeypatch.setattr(MqttConnection, "subscribe", narrow)
    monkeypatch.setattr(inspection, "_PATIENCE", 0.1)
    bare = MosquittoServer(tmp_path / "bare", "allow_anonymous true")
    bare.start()
    try:
        setup = Setup(
            "test", "york", "0" * 32, tmp_path, SiteBroker(uri=bare.uri), None, None, 60.0, 1 << 20, 1000
        )
        found = await MosquittoBridge(setup).inspect()
    finally:
        bare.kill()
    (text,) = [each.text for each in found if "the broker's log does not show" in each.text]
    assert text.endswith("mosquitto.conf lacks lines; add them and restart Mosquitto")
