"""Every node is asked from any other: its routes are set and kept, ping and traceroute show who is where."""

import asyncio
from typing import Any

from commands import refused, sapwood, told
from harness import PATIENCE, Network, collect
from quick import start_tree

WAY = ["york", "north", "hq", "south"]


def hops(route: Any) -> list[str]:
    return [hop["node"] for hop in route["hops"]]


async def test_ping_and_traceroute_along_the_tree(network: Network) -> None:
    await start_tree(network)
    route = await told(network, "york", "traceroute", "RoutingMgr@south")
    assert (hops(route), route["complete"]) == (WAY, True)
    assert [hop["how"] for hop in route["hops"]] == ["default", "default", "domain", "local"]
    assert all(hop["ms"] >= 0 and hop["at"].endswith("Z") for hop in route["hops"])
    code, output, _ = await sapwood("traceroute", "RoutingMgr@south", "--url", network.url("york"))
    assert code == 0
    lines = [line.split()[1] for line in output.splitlines() if line.strip()[:1].isdigit()]
    assert lines == WAY
    pong = await told(network, "york", "ping", "System@south")
    assert (pong["node"], pong["here"]) == ("south", True)
    assert "nobody reads 'till' there" in await refused(network, "york", "ping", "till@south")
    async with network.client("south") as client:
        await client.create("till")
        await client.subscribe("queue:till").ready()
        await network.until_known("hq", "queue:till")
        code, output, _ = await sapwood("ping", "till", "--url", network.url("york"))
        assert (code, output.split()[0]) == (0, "till@south")
        cells = await told(network, "hq", "cells", "--node", "south")
        names = {cell["name"]: cell["readers"] for cell in cells["cells"]}
        assert names == {"System": 1, "RoutingMgr": 1, "lm": 1, "till": 1}
    links = await told(network, "hq", "links", "--node", "north")
    assert [(link["name"], link["state"]) for link in links["links"]] == [
        ("hq", "running"),
        ("york", "running"),
    ]


async def test_who_does_not_answer_is_named(network: Network) -> None:
    await start_tree(network)
    network.kill("south")
    await network.until_child("hq", "south", "down")
    errors = await refused(network, "york", "traceroute", "till@south")
    assert "the way to till@south ends at south" in errors
    assert "'nowhere'" in await refused(network, "hq", "route", "show", "--node", "nowhere")
    assert "ancestors only" in await refused(
        network, "york", "route", "add", "alias", "a", "b", "--node", "hq"
    )


async def test_a_route_that_is_set_elsewhere_is_used_and_outlives_a_kill(network: Network) -> None:
    await start_tree(network)
    add = ("route", "add", "alias", "till", "checkout@south", "--node", "north")
    set_route = await told(network, "hq", *add)
    assert (set_route["node"], set_route["gateway"]) == ("north", "queue:checkout@south")
    network.kill("north")
    await network.start("north")
    await network.nodes.until_linked("york", PATIENCE)
    assert "is there already" in await refused(network, "hq", *add)
    async with network.client("south") as south:
        reading = asyncio.create_task(collect(south, "queue:checkout", 3))
        await network.send("york", "queue:till", [b"1", b"2", b"3"])
        assert [delivery.payload for delivery in await reading] == [b"1", b"2", b"3"]
    shown = await told(network, "hq", "route", "show", "--node", "north", "--kind", "alias")
    assert [(each["destination"], each["gateway"]) for each in shown["routes"]] == [
        ("till", "checkout@south")
    ]
    remove = ("route", "remove", *add[2:])
    assert (await told(network, "hq", *remove))["kind"] == "alias"
    assert "there is no route alias" in await refused(network, "hq", *remove)
    shown = await told(network, "hq", "route", "show", "--node", "north", "--kind", "default")
    assert [each["gateway"] for each in shown["routes"]] == ["hq"]


async def test_the_dumpster_at_the_root_takes_what_nobody_serves(network: Network) -> None:
    await start_tree(network)
    assert (await told(network, "hq", "route", "add", "dumpster", "lost"))["gateway"] == "lost"
    await network.send("york", "queue:nobody", [b"1"])
    async with network.client("hq") as hq:
        (lost,) = await collect(hq, "queue:lost", 1)
    assert (str(lost.destination), lost.payload) == ("queue:nobody", b"1")
    code, output, _ = await sapwood("route", "show", "--url", network.url("hq"))
    assert code == 0
    assert "dumpster" in output


async def test_a_cell_at_local_is_this_node_first(network: Network) -> None:
    await start_tree(network)
    async with network.client("york") as york, network.client("south") as south:
        await york.create("till")
        await south.create("till")
        await south.subscribe("queue:till").ready()
        await network.until_known("hq", "queue:till")
        reading = asyncio.create_task(collect(york, "queue:till", 1))
        await network.until_known("north", "queue:till")
        await network.send("york", "queue:till@local", [b"mine"])
        assert [each.payload for each in await reading] == [b"mine"]
