"""dCache's words in the files of real nodes: two cores in a mesh, and satellites that are leaves of both."""

import asyncio
from typing import Any

from harness import Network


def linked_with_both(status: dict[str, Any]) -> bool:
    return sorted(one["name"] for one in status["parents"] if one["state"] == "running") == [
        "core-a",
        "core-b",
    ]


async def test_satellites_link_with_all_cores_and_reach_each_other(network: Network) -> None:
    for name in ("core-a", "core-b"):
        network.add(name)
    for name, other in (("core-a", "core-b"), ("core-b", "core-a")):
        way = f"ws://127.0.0.1:{network.ports[other]}/link"
        network.configure(name, scheme="core", mesh={"cores": [{"name": other, "uri": way}]})
    ways = [f"ws://127.0.0.1:{network.ports[name]}/link" for name in ("core-a", "core-b")]
    for name in ("pool-1", "pool-2"):
        network.add(name, scheme="satellite", tree_connectors=[{"uri": ways[0], "uris": ways[1:]}])
    await network.start()
    for name in ("pool-1", "pool-2"):
        await network.until(name, linked_with_both, "linked with both")
    wanted = [b"%d" % number for number in range(20)]
    reading = [
        asyncio.create_task(network.collect("pool-2", destination, len(wanted)))
        for destination in ("queue:requests", "topic:states/#")
    ]
    for name in ("core-a", "core-b"):
        await network.until_known(name, "queue:requests")
        await network.until_known(name, "topic:states/#")
    for destination in ("queue:requests", "topic:states/now"):
        await network.send("pool-1", destination, wanted)
    assert [sorted(got) for got in await asyncio.gather(*reading)] == [sorted(wanted)] * 2


async def test_a_satellite_without_a_core_is_disconnected_and_no_root(network: Network) -> None:
    network.add("pool-1", scheme="satellite", tree_connectors=[{"uri": "ws://127.0.0.1:9/link"}])
    await network.launch("pool-1")
    status = await network.status("pool-1")
    assert (status["role"], status["chain"]) == ("leaf", ["pool-1"])
