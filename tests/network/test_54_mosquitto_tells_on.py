"""A Mosquitto whose log has said a thousand things still tells who reads; one with limits is heeded."""

import asyncio
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from harness import Network
from mosquitto_clients import Listener, joined, takes
from mosquitto_server import DISCOVERY, MosquittoServer
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

Start = Callable[..., MosquittoServer]
MANY, TOGETHER = 1500, 100


async def subscriptions(network: Network, count: int) -> None:
    await network.until(
        "york", lambda status: status["site_broker"].get("subscriptions") == count, f"told of {count}"
    )


def subscribe(server: MosquittoServer) -> paho.Client:
    """A client with many filters, as many together as a packet is to hold."""
    client = paho.Client(CallbackAPIVersion.VERSION2, "many", protocol=MQTTProtocolVersion.MQTTv5)
    texts = [(f"many/{number}", 1) for number in range(MANY)]

    def begin(*_: Any) -> None:
        for first in range(0, MANY, TOGETHER):
            client.subscribe(texts[first : first + TOGETHER])

    client.on_connect = begin
    client.connect("127.0.0.1", server.port)
    client.loop_start()
    return client


async def test_a_thousand_lines_of_the_log_are_not_the_last(network: Network, broker: Start) -> None:
    server = broker("york")
    network.add("york", site_broker={"uri": server.uri})
    await network.start()
    await joined(network, "york")
    client = await asyncio.to_thread(subscribe, server)
    await subscriptions(network, MANY)
    client.disconnect()
    client.loop_stop()
    await subscriptions(network, 0)
    with Listener(server.port, "-t", "prices/#", "-q", "1", "-i", "till"):
        await subscriptions(network, 1)
    await subscriptions(network, 0)


async def test_a_mosquitto_that_has_no_qos_2_and_retains_nothing_is_given_less(
    network: Network, broker: Start
) -> None:
    hq = broker("hq")
    york = broker("york", *DISCOVERY, "max_qos 1", "retain_available false")
    network.add("hq", site_broker={"uri": hq.uri})
    network.add("york", "hq", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "hq", "york")
    with Listener(york.port, "-t", "prices/#", "-q", "1", "-i", "till") as till:
        await takes(network, "hq", "prices/#")
        client = paho.Client(CallbackAPIVersion.VERSION2, "office", protocol=MQTTProtocolVersion.MQTTv5)
        client.connect("127.0.0.1", hq.port)
        client.loop_start()
        client.publish("prices/tea", b"9", 2, retain=True)
        got = await till.until(1)
        assert [(each["payload"], each["qos"], each["retain"]) for each in got] == [("9", 1, 0)]
        client.disconnect()
        client.loop_stop()
    status = await network.status("york")
    assert (status["site_broker"]["failures"], status["dead"]["messages"]) == (0, 0)
