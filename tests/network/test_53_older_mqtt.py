"""A broker that refuses MQTT 5: the node falls back to 3.1.1 by itself, and works.

The broker is a real Mosquitto behind a gate, which answers a CONNECT of MQTT 5 as older brokers do.
"""

import asyncio
from collections.abc import Callable

import pytest
from harness import Network
from mosquitto_clients import Listener, joined, publish, takes
from mosquitto_server import MosquittoServer

OLD_ANSWER = bytes.fromhex("20020001")
"""CONNACK of MQTT 3.1.1: unacceptable protocol version."""
NEW_ANSWER = bytes.fromhex("2003008400")
"""CONNACK of MQTT 5: unsupported protocol version."""
LEVEL = 8
"""Where the protocol's level stands in a CONNECT of less than 128 bytes: after type, length and `MQTT`."""


class Gate:
    """Lets everything through to a port but MQTT 5. `refused`: how often it did not."""

    def __init__(self, target: int, answer: bytes) -> None:
        self._target, self._answer = target, answer
        self.refused = 0

    async def open(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await reader.readexactly(LEVEL + 1)
            if first[LEVEL] == 5:
                self.refused += 1
                writer.write(self._answer)
                await writer.drain()
                return
            there, onward = await asyncio.open_connection("127.0.0.1", self._target)
            onward.write(first)
            async with asyncio.TaskGroup() as pumping:
                pumping.create_task(_pump(reader, onward))
                pumping.create_task(_pump(there, writer))
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


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
