"""A parent announces where it can be dialled: its children find it there when their file's way fails.

All nodes have the settings that a user gets.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from commands import sapwood
from harness import PATIENCE, Network, have

from broker.cli.demo.line import CutLine
from broker.cli.demo.plan import free_ports

SECRET = "known to north and york"
DEFAULTS = {"tree": "test"}


@pytest.fixture
async def tree(tmp_path: Path) -> AsyncIterator[Network]:
    """HQ, a region, and a store that proves itself; its line to the region can be cut."""
    async with Network(tmp_path, DEFAULTS) as network:
        file = network.folder / "york.secret"
        file.write_text(SECRET, encoding="utf-8")
        file.chmod(0o600)
        network.add("hq")
        network.add("north", "hq", role="branch", children=[{"name": "york", "secret_file": file.name}])
        network.add("york", "north", line=True)
        (line,) = network.lines.values()
        way = {"nodetype": "leaf", "uri": f"ws://127.0.0.1:{line.port}/link", "secret_file": file.name}
        network.configure("york", "north", tree_connectors=[way])
        await network.start()
        yield network


@asynccontextmanager
async def second_line(network: Network, to: int) -> AsyncIterator[tuple[CutLine, str]]:
    (port,) = free_ports(1)
    async with CutLine(port, to) as line:
        yield line, f"ws://127.0.0.1:{port}/link"


async def announced(network: Network, uri: str) -> None:
    await network.until(
        "york", lambda status: status["parent"]["dialling"]["announced"] == [uri], f"told of {uri}"
    )


async def linked_over(network: Network, uri: str) -> None:
    await network.until(
        "york",
        lambda status: (status["parent"]["state"], status["parent"]["dialling"]["uri"]) == ("running", uri),
        f"linked over {uri}",
    )


async def served(network: Network, number: int) -> None:
    """The message comes. One that was taken just before a kill may come once more, and says so."""
    payload = b"%d" % number
    await network.send("hq", "queue:prices@york", [payload])
    async with network.client("york") as client, asyncio.timeout(PATIENCE):
        await have(client, "queue:prices")
        async for delivery in client.subscribe("queue:prices"):
            delivery.ack()
            if delivery.payload == payload:
                break
            assert delivery.redelivered
    await network.until_drained("york")


async def test_an_announcement_reaches_a_store_and_is_dialled_also_after_a_kill(tree: Network) -> None:
    async with second_line(tree, tree.ports["north"]) as (second, uri):
        code, _, errors = await sapwood("announce", uri, "--url", tree.url("north"))
        assert code == 0, errors
        await announced(tree, uri)
        await served(tree, 1)
        await tree.line("york").cut()
        await linked_over(tree, uri)
        await served(tree, 2)
        tree.kill("york")
        await tree.start("york")
        await linked_over(tree, uri)
        await served(tree, 3)
        await tree.line("york").restore()
        await second.cut()
        await linked_over(tree, f"ws://127.0.0.1:{tree.line('york').port}/link")
        await served(tree, 4)


async def test_another_listener_is_told_to_a_store_and_dialled(tree: Network) -> None:
    async with second_line(tree, tree.ports["north"]) as (_, uri):
        await tree.stop("north")
        tree.configure("north", "hq", role="branch", listener={"public_uri": uri})
        await tree.start("north")
        await announced(tree, uri)
        await tree.line("york").cut()
        await linked_over(tree, uri)
        await served(tree, 1)


async def test_whoever_cannot_prove_to_be_the_parent_is_not_linked_with_there(tree: Network) -> None:
    tree.add("mallory", listener={"host": "127.0.0.1"}, permits="open")
    await tree.start("mallory")
    uri = f"ws://127.0.0.1:{tree.ports['mallory']}/link"
    code, _, errors = await sapwood("announce", uri, "--url", tree.url("north"))
    assert code == 0, errors
    await announced(tree, uri)
    await tree.line("york").cut()

    def refused(status: dict[str, dict[str, dict[str, str]]]) -> bool:
        said = status["parent"]["dialling"]
        return "mallory" in said["error"]

    status = await tree.until("york", refused, "refused by its own check")
    assert status["parent"]["state"] != "running"
    assert (await tree.status("mallory"))["children"] == []
