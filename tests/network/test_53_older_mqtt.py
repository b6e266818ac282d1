"""A broker that refuses MQTT 5: the node falls back to 3.1.1 by itself, and works.

The broker is a real Mosquitto behind a gate, which answers a CONNECT of MQTT 5 as older brokers do.
"""

import asyncio
from collections.abc import Callable

import pytest
from harness import Network
from mosquitto_clients import Listener, joined, publish, takes
from mosquitto_server import MosquittoServer
from older_broker import NEW_ANSWER, OLD_ANSWER, Gate


@pytest.mark.parametrize("answer", [OLD_ANSWER, NEW_ANSWER], ids=["as 3.1.1", "as 5"])
async def test_a_broker_without_mqtt_5_is_spoken_to_in_its_own_version(
    network: Network, broker: Callable[..., MosquittoServer], answer: bytes
) -> None:
    server = broker("york")
    gate = Gate(server.port, answer)
    async with await gate.open() as listening:
        port = listening.sockets[0].getsockname()[1]
        network.add("hq")
        network.add("york", "hq", site_broker={"uri": f"mqtt://127.0.0.1:{port}"})
        await network.start()
        await joined(network, "york")
        status = await network.status("york")
        assert status["site_broker"]["protocol"] == "MQTT 3.1.1"
        assert gate.refused > 0
        with Listener(
            server.port, "-t", "$share/g/queue/prices", "-q", "1", "-i", "till", version="311"
        ) as till:
            await network.until_known("hq", "queue:prices")
            await network.send("hq", "queue:prices", [b"1", b"2"])
            await till.until(2)
            assert till.payloads() == ["1", "2"]
        orders = asyncio.create_task(network.collect("hq", "queue:orders", 3))
        await takes(network, "york", "queue/orders")
        for number in range(3):
            publish(server.port, "queue/orders", b"%d" % number, version="311")
        assert await orders == [b"0", b"1", b"2"]
        with Listener(server.port, "-t", "door/#", "-q", "1", "-i", "guard", version="311") as guard:
            opened = asyncio.create_task(network.collect("hq", "topic:door/#", 2))
            await takes(network, "york", "door/#")
            await network.until_known("hq", "topic:door/#")
            await network.send("hq", "topic:door/1", [b"open"])
            await guard.until(1)
            publish(server.port, "door/1", b"open", version="311")
            assert await opened == [b"open", b"open"]
        await network.stop("york")
