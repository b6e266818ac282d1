"""Of two roots that are one, a store's messages go over the one in its own zone, as long as that is up."""

from collections import Counter

from harness import Network
from meshes import add_mesh, until_below

from broker.cli.demo.processes import Status

ZONES = {"hq-1": "uk", "hq-2": "fr"}
COUNT = 20


async def came(network: Network) -> Counter[str]:
    """How many messages the roots that run have had from their children."""
    found: Counter[str] = Counter()
    for root in ZONES:
        if network.nodes[root].running:
            found[root] = sum(int(child["in"]) for child in (await network.status(root))["children"])
    return found


async def ways(network: Network, store: str, time: int) -> dict[str, int]:
    """How many messages for queues of many names, which nobody reads, come to which root."""
    before = await came(network)
    async with network.client(store) as client:
        for number in range(COUNT):
            await client.send(f"queue:{store}-{time}-{number}", b"x")
    await network.until_drained(store)
    return dict(await came(network) - before)


async def test_messages_leave_the_zone_only_while_nobody_there_is_up(network: Network) -> None:
    add_mesh(network, *ZONES)
    for root, zone in ZONES.items():
        network.configure(root, zone=zone)
    connectors = [{"nodetype": "leaf", "uri": f"ws://127.0.0.1:{network.ports[root]}/link"} for root in ZONES]
    for store, zone, first in (("york", "uk", 1), ("lyon", "fr", 0), ("oslo", "no", 0)):
        network.add(store, tree_connectors=[connectors[first]], zone=zone)
    await network.start()
    for store in ("york", "lyon", "oslo"):
        await until_below(network, store, *ZONES)
    assert await ways(network, "york", 1) == {"hq-1": COUNT}
    assert await ways(network, "lyon", 1) == {"hq-2": COUNT}
    assert set(await ways(network, "oslo", 1)) == set(ZONES), "in no zone of theirs: all of them"
    network.kill("hq-1")
    await network.until("york", parted, "parted from hq-1")
    assert await ways(network, "york", 2) == {"hq-2": COUNT}
    await network.launch("hq-1")
    await until_below(network, "york", *ZONES)
    assert await ways(network, "york", 3) == {"hq-1": COUNT}


def parted(status: Status) -> bool:
    return any(parent["state"] != "running" for parent in status["parents"])
