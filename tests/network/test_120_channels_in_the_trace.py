"""A channel is followed over three nodes: its opening, its end, a line that broke, and who refused it.

hq <- north <- shop
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from commands import sapwood, told
from harness import PATIENCE, Network
from test_105_channels_through_the_tree import PERMITS, forwarding, is_known, offered, serving, until

WAY = ["hq", "north", "shop"]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


@pytest.fixture
async def tree(network: Network) -> AsyncIterator[Network]:
    """The shop offers `till` to hq, and `office` to north alone; hq lets its children serve both."""
    async with serving(echo) as port:
        both = PERMITS | {"serves": ("till@shop", "office@shop")}
        network.add("hq", permits=both)
        network.add("north", "hq", role="branch", permits=both)
        network.add("shop", "north", forwards=(offered(port), offered(port, "office", ("north",))))
        await network.start()
        await until(lambda: is_known(network))
        yield network


async def story(network: Network, node: str, channel: str) -> dict[str, Any]:
    found: dict[str, Any] = await told(network, node, "trace", "--channel", channel)
    return found


def seen(found: dict[str, Any]) -> list[tuple[str, str, str, list[str]]]:
    """Each hop: the node, the neighbours of its way, what happened there."""
    return [
        (each["node"], each["came"], each["to"], [event["kind"] for event in each["events"]])
        for each in found["hops"]
    ]


def way(*events: str) -> list[tuple[str, str, str, list[str]]]:
    beside = zip(WAY, ["", *WAY], [*WAY[1:], ""], strict=False)
    return [(node, came, to, ["opening", *events]) for node, came, to in beside]


async def until_complete(network: Network, node: str, channel: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while not (found := await story(network, node, channel))["complete"]:
            await asyncio.sleep(0.05)
    return found


async def test_opening_and_end_are_told_by_each_node_of_the_way(tree: Network) -> None:
    async with forwarding(tree, "hq", "shop:till") as here:
        reader, writer = await here.connect()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        found = await story(tree, "hq", "till@shop")
        assert (seen(found), found["complete"]) == (way("open"), False)
        assert [(hop["there"], hop["back"]) for hop in found["hops"]] == [(5, 5)] * 3
        asked = [hop["ms"]["opening"] for hop in found["hops"]]
        opened = [hop["ms"]["open"] for hop in found["hops"]]
        assert asked == sorted(asked)
        assert opened == sorted(opened, reverse=True)
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
    for node in WAY:
        ended = await until_complete(tree, node, found["channel"])
        assert seen(ended) == way("open", "over")
        assert (ended["origin"], ended["destination"]) == ("hq", "till@shop")
    code, output, _ = await sapwood("trace", "--channel", found["channel"], "--url", tree.url("north"))
    assert code == 0
    assert f"channel {found['channel']} from hq to till@shop · complete" in output


async def test_a_node_that_is_killed_and_who_refuses_are_named(tree: Network) -> None:
    async with forwarding(tree, "hq", "shop:office") as here:
        reader, _ = await here.connect()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        refused = await until_complete(tree, "hq", "office@shop")
    assert seen(refused) == way("refused")
    assert {hop["reason"] for hop in refused["hops"]} == {"PERMIT: shop does not offer office to hq"}
    code, output, _ = await sapwood("trace", "--channel", "office@shop", "--url", tree.url("hq"))
    assert (code, "shop: refused: PERMIT: shop does not offer office to hq" in output) == (0, True)
    async with forwarding(tree, "hq", "shop:till") as here:
        reader, writer = await here.connect()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        number = (await story(tree, "hq", "till@shop"))["channel"]
        tree.kill("shop")
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
    await tree.until_child("north", "shop", "down")
    found = await story(tree, "hq", number)
    assert seen(found) == way("open", "broken")[:2]
    assert found["hops"][1]["reason"] == "the link between north and shop is broken"
    assert (found["unreachable"], found["complete"]) == (["shop"], False)


async def test_what_nobody_knows_is_said(tree: Network) -> None:
    for channel, expected, text in (
        ("ab" * 16, 1, "no node that was asked knows channel"),
        ("till@nowhere", 1, "hq knows no channel to till@nowhere"),
        ("till", 2, "expected its number of 32 digits, or NAME@NODE"),
    ):
        code, output, errors = await sapwood("trace", "--channel", channel, "--url", tree.url("hq"))
        assert (code, output) == (expected, "")
        assert text in errors
