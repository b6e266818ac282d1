"""Who subscribed before the node came is found once the broker is restarted, and the check says so."""

import asyncio
from collections.abc import Callable

from commands import sapwood
from harness import Network
from mosquitto_clients import Listener, joined, knows
from mosquitto_server import DISCOVERY, MosquittoServer

Start = Callable[..., MosquittoServer]


async def test_a_restart_of_the_broker_makes_everybody_known(network: Network, broker: Start) -> None:
    silent = [line for line in DISCOVERY if not line.startswith(("log_", "connection_"))]
    server = broker("york", *silent)
    network.add("hq")
    network.add("york", "hq", site_broker={"uri": server.uri})
    with (
        Listener(server.port, "-t", "prices/#", "-q", "1", "-i", "till"),
        Listener(server.port, "-t", "$share/g/queue/orders", "-q", "1", "-i", "kitchen"),
    ):
        async with asyncio.timeout(180):
            while "the broker has 2 subscriptions already" not in await check(network):
                await asyncio.sleep(0.5)
        await network.start()
        await network.until(
            "york",
            lambda status: "does not tell" in status["site_broker"].get("discovery", ""),
            "heeding what the broker tells after its restart",
        )
        await knows(network, "york")
        server.stop()
        server.lines = DISCOVERY
        server.start()
        await joined(network, "york")
        await knows(network, "york", "queue:orders", "topic:prices/#")
    assert "already" not in await check(network)


async def check(network: Network) -> str:
    code, output, errors = await sapwood("node", "check", str(network.nodes["york"].file))
    assert code == 0, errors
    return output + errors
