"""A link that rides on a broker keeps what a WebSocket keeps, whatever is killed or cut."""

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

import pytest
from harness import NOBODY_THERE, Network
from mosquitto_server import MosquittoServer
from quick import QUICK_SITE, Producer, Record, expect, numbers, recording
from rabbitmq_server import RabbitServer

from broker.cli.demo.line import CutLine
from broker.cli.demo.plan import free_ports

Server = MosquittoServer | RabbitServer
FLOWS = {
    "queue:sales": ("york", "hq", ""),
    "queue:prices": ("hq", "york", ""),
    "topic:offers/york": ("hq", "york", "offers"),
    "topic:alarms/york": ("york", "hq", "alarms"),
}
"""destination -> the node of its producer, that of its consumer, name of the durable subscription."""
ROUNDS = {"mqtt": ("broker", "york", "line", "hq") * 2, "amqp": ("york", "line", "hq", "broker") * 2}


@pytest.fixture(params=ROUNDS)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue({"mqtt": "mosquitto", "amqp": "rabbitmq"}[request.param])
    found.start()
    return found


def scheme(server: Server) -> str:
    return "mqtt" if isinstance(server, MosquittoServer) else "amqp"


def parent(server: Server) -> dict[str, object]:
    """Settings of a node at whose broker children dial: over what it announces they find nobody."""
    uri = f"{scheme(server)}://127.0.0.1:{server.port}"
    link_brokers = [{"uri": uri, "proves_names": True}]
    return {"listener": {"public_uri": NOBODY_THERE, "link_brokers": link_brokers}, **QUICK_SITE}


def child(server: Server, port: int, role: str = "leaf") -> dict[str, object]:
    """Settings of a node that dials there, maybe through a line with a port of its own."""
    uri = f"{scheme(server)}://127.0.0.1:{port}"
    return {"tree_connectors": [{"nodetype": role, "uri": uri}], **QUICK_SITE}


async def until_linked(network: Network) -> None:
    """York, over the broker."""
    await network.nodes.until_linked("york")
    await network.until("hq", lambda status: status["link_brokers"][0]["links"] == 1, "linked over a broker")


async def harm(
    network: Network, server: Server, line: CutLine, victim: str, moment: Callable[[], float]
) -> None:
    """Take one thing away for a moment."""
    match victim:
        case "broker":
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(moment())
            await asyncio.to_thread(server.start)
        case "line":
            await line.cut()
            await asyncio.sleep(moment())
            await line.restore()
        case _:
            network.kill(victim)
            await asyncio.sleep(moment())
            await network.launch(victim)


async def test_everything_confirmed_arrives_once_and_in_order(network: Network, server: Server) -> None:
    line = CutLine(free_ports(1)[0], server.port)
    network.add("hq", **parent(server))
    network.add("york", "hq", **child(server, line.port))
    chance = random.Random(40)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(line)
        await network.start()
        clients = {name: await stack.enter_async_context(network.client(name)) for name in ("hq", "york")}
        records: dict[str, Record] = {}
        for destination, (_, consumer, durable) in FLOWS.items():
            records[destination] = await stack.enter_async_context(
                recording(clients[consumer], destination, durable)
            )
        await network.until_known("york", "topic:alarms/york")
        await network.until_known("hq", "topic:offers/york")
        producers = {
            destination: Producer(await stack.enter_async_context(network.client(entry)), destination, seed)
            for seed, (destination, (entry, _, _)) in enumerate(FLOWS.items())
        }
        running = [asyncio.create_task(producer.run()) for producer in producers.values()]
        for victim in ROUNDS[scheme(server)]:
            await until_linked(network)
            await asyncio.sleep(chance.uniform(0, 0.3))
            for destination, record in records.items():
                record.kills += FLOWS[destination][1] == victim
            await harm(network, server, line, victim, lambda: chance.uniform(0, 0.2))
        await until_linked(network)
        for producer in producers.values():
            producer.enough = True
        await asyncio.gather(*running)
        for destination, record in records.items():
            sent = producers[destination].confirmed
            assert len(sent) > len(ROUNDS[scheme(server)])
            await expect(record, sent)
        await network.until_drained("hq")
        await network.until_drained("york")


async def test_a_stalled_line_is_noticed_and_a_store_comes_back_on_another(
    network: Network, server: Server
) -> None:
    line = CutLine(free_ports(1)[0], server.port)
    network.add("hq", **parent(server))
    network.add("york", "hq", **child(server, line.port))
    async with line:
        await network.start()
        await network.send("hq", "queue:prices", [b"1"])
        line.stall()
        await network.until_child("hq", "york", "down")
        network.configure("york", "hq", **child(server, server.port))
        network.kill("york")
        await network.launch("york")
        await until_linked(network)
        assert await network.collect("york", "queue:prices", 1) == [b"1"]


async def test_a_rabbitmq_in_want_of_memory_holds_a_link_up_and_loses_nothing(
    network: Network, rabbitmq: RabbitServer
) -> None:
    rabbitmq.start()
    network.add("hq", **parent(rabbitmq))
    network.add("york", "hq", **child(rabbitmq, rabbitmq.port))
    await network.start()
    control = partial(rabbitmq.control, "rabbitmqctl", "set_vm_memory_high_watermark")
    await asyncio.to_thread(control, "0.00001")
    try:
        await network.send("hq", "queue:prices", numbers(200))
        await network.until_child("hq", "york", "down")
    finally:
        await asyncio.to_thread(control, "0.4")
    await until_linked(network)
    assert await network.collect("york", "queue:prices", 200) == numbers(200)


async def test_a_child_finds_its_parent_by_the_next_way_when_the_broker_is_gone(
    network: Network, server: Server
) -> None:
    network.add("hq", **parent(server))
    network.add("york", "hq", **QUICK_SITE)
    ways = child(server, server.port)["tree_connectors"]
    assert isinstance(ways, list)
    ways[0]["uris"] = [f"ws://127.0.0.1:{network.ports['hq']}/link"]
    network.configure("york", "hq", tree_connectors=ways)
    await network.start("hq")
    await network.until("hq", lambda status: status["link_brokers"][0]["state"] == "listening", "listening")
    await network.start("york")
    status = await network.status("hq")
    assert [broker["links"] for broker in status["link_brokers"]] == [1]
    await asyncio.to_thread(server.kill)
    try:
        status = await network.until(
            "hq",
            lambda status: (
                status["link_brokers"][0]["links"] == 0 and status["children"][0]["state"] == "running"
            ),
            "linked on WebSocket",
        )
        await network.send("york", "queue:sales", [b"1"])
        assert await network.collect("hq", "queue:sales", 1) == [b"1"]
    finally:
        await asyncio.to_thread(server.start)
    await network.until(
        "hq", lambda status: status["link_brokers"][0]["state"] == "listening", "listening again"
    )
