"""`sapwood node check` says what a Mosquitto lacks, with the lines to add."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from harness import Network
from mosquitto_server import DISCOVERY, MosquittoServer

Start = Callable[..., MosquittoServer]


async def check(network: Network, name: str) -> list[dict[str, Any]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "broker.cli", "node", "check", str(network.nodes[name].file), "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    findings: list[dict[str, Any]] = json.loads(output)["findings"]
    return [found for found in findings if found["subject"] == "site broker"]


async def test_a_mosquitto_that_tells_everything_lacks_nothing(network: Network, broker: Start) -> None:
    network.add("york", site_broker={"uri": broker("york").uri})
    (found,) = await check(network, "york")
    assert found["state"] == "ok", found


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
    ]


async def test_one_line_that_lacks_is_named(network: Network, broker: Start) -> None:
    lines = [line for line in DISCOVERY if line != "log_type unsubscribe"]
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
    server = broker("york", *DISCOVERY, f"acl_file {acl}")
    network.add("york", site_broker={"uri": server.uri})
    found = await check(network, "york")
    assert any("topic readwrite $sapwood/bridge/#" in each["lines"] for each in found), found
    acl.write_text("topic readwrite $sapwood/bridge/#\ntopic read $SYS/#\ntopic readwrite #\n")
    server.stop()
    server.start()
    assert [each["state"] for each in await check(network, "york")] == ["ok"]
