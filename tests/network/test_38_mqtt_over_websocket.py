"""MQTT over WebSocket at a node's HTTP port: section 6 of the specifications, by paho and frame by frame."""

import sys
import threading
from pathlib import Path

import aiohttp
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

sys.path.insert(0, str(Path(__file__).parent))

from mqtt_wire import CONNECT, PINGREQ, DoorNode, fresh, packet, text

PATIENCE = 180.0
CLOSED = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


def without_origin(headers: dict[str, str]) -> dict[str, str]:
    """As a program says it: with an origin, as paho has it, it is taken for a page."""
    return {name: value for name, value in headers.items() if name != "Origin"}


HELLO = packet(CONNECT, text("MQTT") + b"\x04\x02\x00\x00" + text("page"))


@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_mqtt_6_paho_sends_and_reads_over_a_websocket(door: DoorNode, version: MQTTProtocolVersion) -> None:
    """A message above the size of a frame, too."""
    topic, ready = fresh("t"), threading.Semaphore(0)
    got: list[bytes] = []
    client = paho.Client(CallbackAPIVersion.VERSION2, fresh("page"), protocol=version, transport="websockets")
    client.ws_set_options(path="/mqtt", headers=without_origin)
    client.on_connect = lambda *_: ready.release()
    client.on_subscribe = lambda *_: ready.release()

    def came(_client: object, _data: object, message: paho.MQTTMessage) -> None:
        got.append(message.payload)
        ready.release()

    client.on_message = came
    client.connect("127.0.0.1", door.http)
    client.loop_start()
    try:
        assert ready.acquire(timeout=PATIENCE)
        client.subscribe(topic, 2)
        assert ready.acquire(timeout=PATIENCE)
        payloads = [b"1", bytes(3_000_000), b"3"]
        for payload in payloads:
            client.publish(topic, payload, 2)
        for _ in payloads:
            assert ready.acquire(timeout=PATIENCE)
        assert got == payloads
    finally:
        client.disconnect()
        client.loop_stop()


async def test_mqtt_6_0_0_4_the_subprotocol_is_agreed_and_packets_may_be_cut_and_joined(
    door: DoorNode,
) -> None:
    url = f"http://127.0.0.1:{door.http}/mqtt"
    async with aiohttp.ClientSession() as session:
        async with session.ws_connect(url, protocols=["mqtt"]) as socket:
            assert socket.protocol == "mqtt"
            for at in range(0, len(HELLO), 5):
                await socket.send_bytes(HELLO[at : at + 5])
            assert await socket.receive_bytes(timeout=PATIENCE) == b"\x20\x02\x00\x00"
            await socket.send_bytes(packet(PINGREQ) * 2)
            heard = b""
            while len(heard) < 4:
                heard += await socket.receive_bytes(timeout=PATIENCE)
            assert heard == b"\xd0\x00\xd0\x00"
        async with session.get(url, headers={"Upgrade": "websocket"}) as answer:
            assert (answer.status, "subprotocol mqtt" in await answer.text()) == (400, True)


async def test_mqtt_6_0_0_1_a_text_ends_the_connection(door: DoorNode) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{door.http}/mqtt", protocols=["mqtt"]) as socket,
    ):
        await socket.send_str("hello")
        assert (await socket.receive(timeout=PATIENCE)).type in (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
        )


async def test_a_page_in_a_browser_proves_itself_also_on_this_machine(door: DoorNode) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"http://127.0.0.1:{door.http}/mqtt",
            protocols=["mqtt"],
            headers={"Origin": "https://elsewhere.example"},
        ) as socket,
    ):
        await socket.send_bytes(HELLO)
        assert (await socket.receive_bytes(timeout=PATIENCE))[:3] == b"\x20\x02\x00"
        assert (await socket.receive(timeout=PATIENCE)).type in (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
        )


async def test_a_stranger_has_no_more_bytes_than_any_other(door: DoorNode) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"http://127.0.0.1:{door.http}/mqtt", protocols=["mqtt"]) as socket,
    ):
        await socket.send_bytes(b"\x10\xff\xff\x7f" + bytes(100_000))
        assert (await socket.receive(timeout=PATIENCE)).type in (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
        )
