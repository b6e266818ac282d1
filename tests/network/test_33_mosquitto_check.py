"""`sapwood node check` says what a Mosquitto lacks, with the lines to add."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import ran
from harness import Network
from mosquitto_server import DISCOVERY, MosquittoServer

from bridges.site_brokers.mosquitto.inspection import KEPT

Start = Callable[..., MosquittoServer]
ALL = tuple(dict.fromkeys((*DISCOVERY, *KEPT)))
DOCUMENT = Path(__file__).parents[2] / "docs" / "mosquitto.md"


async def check(network: Network, name: str) -> list[dict[str, Any]]:
    _, output, _ = await ran("node", "check", network.nodes[name].file, "--json")
    findings: list[dict[str, Any]] = json.loads(output)["findings"]
    return [found for found in findings if found["subject"] == "site broker"]


async def test_a_mosquitto_that_tells_everything_lacks_nothing(network: Network, broker: Start) -> None:
    network.add("york", site_broker={"uri": broker("york", *ALL).uri})
    (found,) = await check(network, "york")
    assert found["state"] == "ok", found


@pytest.mark.parametrize("lines", [(), ("autosave_interval 1",), ("autosave_on_changes true",)], ids=str)
async def test_a_mosquitto_that_would_lose_what_it_confirmed_is_told_by_which_lines_it_keeps_it(
    network: Network, broker: Start, lines: tuple[str, ...]
) -> None:
    """Killed, it would come back as it was: it saves by the clock, or after 1,800 changes."""
    server = broker("york", *DISCOVERY, "log_type information", *lines)
    network.add("york", site_broker={"uri": server.uri})
    (found,) = await check(network, "york")
    assert (found["state"], "saves at once" in found["text"]) == ("warning", True)
    assert {"persistence true", "autosave_on_changes true", "autosave_interval 1"} < {*found["lines"]}


async def test_a_plain_mosquitto_lacks_lines_and_they_are_printed(network: Network, broker: Start) -> None:
    network.add("york", site_broker={"uri": broker("york", "allow_anonymous true", "sys_interval 1").uri})
    (found,) = await check(network, "york")
    assert found["state"] == "warning"
    assert found["lines"] == [
        "log_dest topic",
        "log_type subscribe",
        "log_type unsubscribe",
        "log_type notice",
        "connection_messages true",
        "log_type error",
        "persistence true",
        "autosave_on_changes true",
        "autosave_interval 1",
        "log_type information",
        "max_queued_messages 100000",
    ]
    documented = (
        DOCUMENT.read_text(encoding="utf-8").partition("```\nlog_dest topic\n")[2].partition("```")[0]
    )
    assert sorted(found["lines"]) == sorted(["log_dest topic", *documented.splitlines()])


async def test_a_broker_that_gives_all_connections_of_a_user_one_id_is_refused_with_the_reason(
    network: Network, broker: Start, tmp_path: Any
) -> None:
    passwords, secret = tmp_path / "passwords", tmp_path / "secret"
    subprocess.run(["mosquitto_passwd", "-b", "-c", passwords, "sapwood", "hidden"], check=True)
    passwords.chmod(0o644)
    secret.write_text("hidden\n")
    secret.chmod(0o600)
    lines = ["allow_anonymous false" if line.startswith("allow_anonymous") else line for line in DISCOVERY]
    server = broker("york", *lines, f"password_file {passwords}", "use_username_as_clientid true")
    login = {"user": "sapwood", "secret_file": str(secret)}
    network.add("york", site_broker={"uri": server.uri, **login})
    found = await check(network, "york")
    assert any("use_username_as_clientid" in each["text"] for each in found), found


async def test_one_line_that_lacks_is_named(network: Network, broker: Start) -> None:
    lines = [line for line in ALL if line != "log_type unsubscribe"]
    network.add("york", site_broker={"uri": broker("york", *lines).uri})
    (found,) = await check(network, "york")
    assert found["lines"] == ["log_type unsubscribe"]


async def test_a_broker_that_is_away_is_a_warning(network: Network, broker: Start) -> None:
    server = broker("york")
    network.add("york", site_broker={"uri": server.uri})
    server.kill()
    (found,) = await check(network, "york")
    assert (found["state"], "cannot be reached" in found["text"]) == ("warning", True)


async def test_permissions_that_lack_are_printed_and_a_node_without_them_does_not_start(
    network: Network, broker: Start, tmp_path: Any
) -> None:
    acl = tmp_path / "acl"
    acl.write_text("topic readwrite prices/#\n")
    server = broker("york", *ALL, f"acl_file {acl}")
    network.add("york", site_broker={"uri": server.uri})
    found = await check(network, "york")
    assert any("topic readwrite $sapwood/bridge/#" in each["lines"] for each in found), found
    acl.write_text("topic readwrite $sapwood/bridge/#\ntopic read $SYS/#\ntopic readwrite #\n")
    server.stop()
    server.start()
    assert [each["state"] for each in await check(network, "york")] == ["ok"]
