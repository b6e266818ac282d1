"""`sapwood node leave`: what the site's broker still had for the node is taken, and nothing is left there."""

from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
import pytest
from commands import told
from harness import Network
from mosquitto_clients import Listener, joined, publish_lines, takes
from mosquitto_server import MosquittoServer
from older_broker import NEW_ANSWER, Gate
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from rabbitmq_chain import Chain

Start = Callable[..., MosquittoServer]
COUNT = 3000


async def leave(network: Network, name: str) -> list[str]:
    """As an operator does; returns what is left to do at the broker, when the node has ended."""
    await network.nodes.until_linked(name)  # its link may have been down for a moment
    left: dict[str, Any] = await told(network, name, "node", "leave")
    assert await network.nodes[name].exited() == 0
    commands: list[str] = left["site_broker"]
    return commands


def has_session(port: int, client_id: str) -> bool:
    """Does the broker keep a session of that name? It is none the wiser afterwards."""
    kept: list[bool] = []
    client = paho.Client(
        CallbackAPIVersion.VERSION2, client_id, clean_session=False, protocol=MQTTProtocolVersion.MQTTv311
    )

    def connected(_client: object, _data: object, flags: paho.ConnectFlags, *_: object) -> None:
        kept.append(flags.session_present)
        client.disconnect()

    client.on_connect = connected
    client.connect("127.0.0.1", port)
    client.loop_forever()
    return kept[0]


@pytest.mark.parametrize("version", ["5", "3.1.1"])
async def test_mosquitto_gives_all_and_keeps_no_session(
    network: Network, broker: Start, version: str
) -> None:
    hq, york = broker("hq"), broker("york")
    gate = Gate(york.port, NEW_ANSWER if version == "3.1.1" else b"", rude=True)
    async with await gate.open() as listening:
        port = listening.sockets[0].getsockname()[1]
        network.add("hq", site_broker={"uri": hq.uri})
        network.add("york", "hq", site_broker={"uri": f"mqtt://127.0.0.1:{port}"})
        await network.start()
        await joined(network, "hq", "york")
        with Listener(hq.port, "-t", "up/#", "-q", "1", "-i", "office") as office:
            await takes(network, "york", "up/#")
            publish_lines(york.port, "up/sales", [b"%d" % number for number in range(COUNT)])
            assert await leave(network, "york") == []
            got = await office.until(COUNT)
            assert {int(each["payload"]) for each in got} == set(range(COUNT))
    assert [has_session(york.port, f"sapwood-{part}york@test") for part in ("", "ear-")] == [False, False]


async def test_rabbitmq_gives_all_and_keeps_no_queue(chain: Chain) -> None:
    await chain.start("hq", "north", "york")
    reader = chain.reader("hq", "", "up.#", exclusive=True)
    await chain.at["york"].until_bound("up.#")
    source = chain.at["york"].channel()
    source.confirm_delivery()
    for number in range(COUNT // 10):
        source.basic_publish("amq.topic", "up.sales", b"%d" % number)
    assert await leave(chain.network, "york") == []
    assert {int(body) for body in await reader.until(COUNT // 10)} == set(range(COUNT // 10))
    queues = chain.server.api("GET", f"/queues/{chain.at['york'].vhost}")
    assert [queue["name"] for queue in queues if queue["name"].startswith("sapwood")] == []


async def test_who_leaves_without_its_broker_is_told_what_to_do_there(
    network: Network, pair: tuple[MosquittoServer, MosquittoServer]
) -> None:
    _, york = pair
    york.kill()
    await network.until("york", lambda status: status["site_broker"]["state"] != "running", "alone")
    start = f"mosquitto_sub -h 127.0.0.1 -p {york.port}"
    assert await leave(network, "york") == [
        f"{start} -i sapwood-york@test -E -t x",
        f"{start} -i sapwood-ear-york@test -E -t x",
    ]
