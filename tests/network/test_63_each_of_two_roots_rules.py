"""Two roots as one: each of them administers what is below, also while the other is dead; then one leaves."""

import asyncio
from typing import Any

from commands import refused, told
from harness import PATIENCE, Network
from meshes import add_mesh, until_below
from quick import numbers

from broker.cli.demo.processes import Status
from broker.cli.http import ask

CORES = ("hq-1", "hq-2")
COUNT = 20


async def start(network: Network) -> None:
    """Two roots, a region and a store below it."""
    add_mesh(network, *CORES)
    network.add("uk", "hq-1", role="branch")
    network.add("york", "uk")
    await network.start()
    await until_below(network, "uk", *CORES)


async def api(network: Network, asked: str, path: str, method: str = "GET", **body: Any) -> Any:
    return await asyncio.to_thread(ask, network.url(asked), path, method=method, body=body or None)


async def aliases(network: Network, asked: str) -> set[str]:
    shown = await api(network, asked, "/api/routes?node=york&kind=alias")
    return {route["destination"] for route in shown["routes"]}


async def administered(network: Network, asked: str) -> None:
    """All that can be asked and done from far is asked and done by one of the roots."""
    alias = {"kind": "alias", "destination": f"of-{asked}", "gateway": "till", "node": "york"}
    await api(network, asked, "/api/routes", "POST", **alias)
    pong = await api(network, asked, "/api/ping?address=System@york")
    assert (pong["node"], pong["here"]) == ("york", True)
    route = await api(network, asked, "/api/traceroute?address=System@york")
    assert [hop["node"] for hop in route["hops"]] == [asked, "uk", "york"]
    links = await api(network, asked, "/api/links?node=uk")
    assert {link["name"] for link in links["links"]} == {*CORES, "york"}


async def test_each_administers_what_is_below_and_what_leaves_is_forgotten(network: Network) -> None:
    await start(network)
    for asked in CORES:
        await administered(network, asked)
    assert "ancestors only" in await refused(network, "uk", "route", "show", "--node", "hq-2")
    network.kill("hq-1")
    assert await aliases(network, "hq-2") == {"of-hq-1", "of-hq-2"}
    await told(network, "hq-2", "route", "remove", "alias", "of-hq-1", "till", "--node", "york")
    await network.launch("hq-1")
    await until_below(network, "uk", *CORES)
    await network.until("hq-1", in_its_mesh, "linked with the other")
    network.kill("york")
    network.kill("uk")
    for name in CORES:
        await network.until_child(name, "uk", "down")
    await network.send("hq-1", "queue:prices@york", numbers(COUNT))
    left = await told(network, "hq-1", "node", "leave")
    assert left["messages_kept_here"] == 0
    await network.nodes["hq-1"].exited(PATIENCE)
    for name in ("uk", "york"):
        await network.launch(name)
    await network.until("uk", lambda status: not status["parents"], "below one only")
    await network.until("uk", lambda status: status["chain"] == ["uk", "hq-2"], "below the one")
    assert await network.collect("york", "queue:prices", COUNT) == numbers(COUNT)
    assert await aliases(network, "hq-2") == {"of-hq-2"}


def in_its_mesh(status: Status) -> bool:
    return [each["state"] for each in status["mesh"]] == ["running"]
