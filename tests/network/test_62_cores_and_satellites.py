"""dCache's words in the files of real nodes: two cores in a mesh, and satellites that are leaves of both."""

import asyncio

from harness import Network
from meshes import add_mesh, until_below

CORES = ("core-a", "core-b")


async def test_satellites_link_with_all_cores_and_reach_each_other(network: Network) -> None:
    add_mesh(network, *CORES, scheme="core")
    ways = [f"ws://127.0.0.1:{network.ports[name]}/link" for name in CORES]
    for name in ("pool-1", "pool-2"):
        network.add(name, scheme="satellite", tree_connectors=[{"uri": ways[0], "uris": ways[1:]}])
    await network.launch("pool-1")
    status = await network.status("pool-1")
    assert (status["role"], status["chain"]) == ("leaf", ["pool-1"]), "without a core it is no root"
    await network.start(*CORES, "pool-2")
    for name in ("pool-1", "pool-2"):
        await until_below(network, name, *CORES)
    wanted = [b"%d" % number for number in range(20)]
    reading = [
        asyncio.create_task(network.collect("pool-2", destination, len(wanted)))
        for destination in ("queue:requests", "topic:states/#")
    ]
    for name in CORES:
        await network.until_known(name, "queue:requests")
        await network.until_known(name, "topic:states/#")
    for destination in ("queue:requests", "topic:states/now"):
        await network.send("pool-1", destination, wanted)
    assert [sorted(got) for got in await asyncio.gather(*reading)] == [sorted(wanted)] * 2
