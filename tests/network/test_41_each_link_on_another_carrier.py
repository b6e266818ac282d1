"""A mixed tree: RabbitMQ at HQ, Mosquitto in a region, WebSocket elsewhere, and no difference."""

import asyncio
from itertools import chain

from harness import PATIENCE, Network
from mosquitto_server import MosquittoServer
from quick import QUICK_SITE
from rabbitmq_server import RabbitServer

STORES = {"york": "north", "leeds": "north", "bath": "south"}


def build(network: Network, mosquitto: MosquittoServer, rabbitmq: RabbitServer) -> None:
    """hq <-amqp- north <-mqtt- york, north <-ws- leeds, hq <-ws- south <-ws- bath."""
    rabbit, mosquito = f"amqp://127.0.0.1:{rabbitmq.port}", f"mqtt://127.0.0.1:{mosquitto.port}"
    network.add("hq", listener={"link_brokers": [{"uri": rabbit, "proves_names": True}]}, **QUICK_SITE)
    network.add(
        "north",
        "hq",
        tree_connectors=[{"nodetype": "branch", "uri": rabbit}],
        listener={"link_brokers": [{"uri": mosquito, "proves_names": True}]},
        **QUICK_SITE,
    )
    network.add("york", "north", tree_connectors=[{"nodetype": "leaf", "uri": mosquito}], **QUICK_SITE)
    network.add("leeds", "north", **QUICK_SITE)
    network.add("south", "hq", role="branch", **QUICK_SITE)
    network.add("bath", "south", **QUICK_SITE)


async def test_each_link_on_another_carrier(
    network: Network, mosquitto: MosquittoServer, rabbitmq: RabbitServer
) -> None:
    rabbitmq.start()
    mosquitto.start()
    build(network, mosquitto, rabbitmq)
    await network.start()
    down = {name: [f"{name}{i}".encode() for i in range(50)] for name in STORES}
    for name, payloads in down.items():
        await network.send("hq", f"queue:prices@{name}", payloads)
    for name, payloads in down.items():
        assert await network.collect(name, "queue:prices", 50) == payloads
    collecting = asyncio.create_task(network.collect("hq", "queue:sales", 150))
    # Whoever has not heard of a consumer when it goes again is not told of it.
    async with asyncio.timeout(PATIENCE):
        while len(await seen(network, "queue:sales")) < len(network.nodes.by_name) - 1:
            await asyncio.sleep(0.05)
    for name, payloads in down.items():
        await network.send(name, "queue:sales", payloads)
    assert sorted(await collecting) == sorted(chain.from_iterable(down.values()))
    assert await seen(network, "queue:sales") == {
        name: 1 for name in network.nodes.by_name if name != "hq"
    }, "a consumer at the root is told to each node once"
    async with network.client("york") as client:
        await client.subscribe("topic:offers/#").ready()
        await network.until_known("hq", "topic:offers/#")
        assert await seen(network, "topic:offers/#") == {"north": 1, "hq": 1}


async def seen(network: Network, destination: str) -> dict[str, int]:
    """How many advisories of a destination each node has received."""
    found: dict[str, int] = {}
    for name in network.nodes.by_name:
        rows = network.advisories(name)
        count = sum(f"{row.kind}:{row.destination}" == destination for row in rows)
        found |= {name: count} if count else {}
    return found
