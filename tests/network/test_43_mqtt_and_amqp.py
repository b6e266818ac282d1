"""RabbitMQ at HQ, Mosquitto in a store: property by property between AMQP, MQTT 5 and MQTT 3.1.1."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pika
import pytest_asyncio
from harness import Network
from mosquitto_clients import Listener, joined, publish, takes
from mosquitto_server import MosquittoServer
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications, Reader


class Mixed(NamedTuple):
    network: Network
    rabbit: Applications
    mosquitto: MosquittoServer

    def reader(self) -> Reader:
        """An application at HQ that reads `sales`."""
        return Reader(self.rabbit.channel(), "", "sales", exclusive=True)


@pytest_asyncio.fixture
async def mixed(
    network: Network, broker: Callable[..., MosquittoServer], rabbitmq: RabbitServer, vhost: str
) -> Any:
    york = broker("york")
    management = rabbitmq.management_uri
    network.add("hq", site_broker={"uri": rabbitmq.uri(vhost), "management": management})
    network.add("york", "hq", site_broker={"uri": york.uri})
    await network.start()
    await joined(network, "york")
    await network.until("hq", lambda status: status["site_broker"]["state"] == "running", "with its broker")
    made = Mixed(network, Applications(rabbitmq, vhost), york)
    yield made
    made.rabbit.close()


TO_MQTT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing": ({}, {}),
    "content type": ({"content_type": "application/json"}, {"content-type": "application/json"}),
    "headers": ({"headers": {"a": "x", "n": 5}}, {"user-properties": {"a": "x", "n": "5"}}),
    "correlation id": ({"correlation_id": "order/7"}, {"correlation-data": "order/7"}),
    "number as correlation id": ({"correlation_id": "4711"}, {"correlation-data": "4711"}),
    "message id": ({"message_id": "m-1"}, {"user-properties": {"sapwood-message-id": "m-1"}}),
    "timestamp": ({"timestamp": 1_790_000_000}, {"user-properties": {"sapwood-timestamp": "1790000000"}}),
    "priority": ({"priority": 7}, {"user-properties": {"sapwood-priority": "7"}}),
    "type": ({"type": "order"}, {"user-properties": {"sapwood-type": "order"}}),
    "app id": ({"app_id": "till"}, {"user-properties": {"sapwood-app-id": "till"}}),
    "content encoding": (
        {"content_encoding": "gzip"},
        {"user-properties": {"sapwood-content-encoding": "gzip"}},
    ),
}


async def test_amqp_properties_arrive_at_mqtt_5_and_only_the_payload_at_3_1_1(mixed: Mixed) -> None:
    port = mixed.mosquitto.port
    with (
        Listener(port, "-t", "prices/#", "-q", "2", "-i", "new") as new,
        Listener(port, "-t", "prices/#", "-q", "2", "-i", "old", version="311") as old,
    ):
        await mixed.rabbit.until_bound("prices.#")
        for name, (given, _) in TO_MQTT.items():
            properties = pika.BasicProperties(**{"delivery_mode": 2, **given})
            mixed.rabbit.publish("prices.tea", name.encode(), "amq.topic", properties)
        mixed.rabbit.publish("prices.tea", b"soon", "amq.topic", pika.BasicProperties(expiration="90000"))
        mixed.rabbit.publish("prices.end", b"end", "amq.topic")
        for listener in (new, old):
            await listener.until_the_last_is("end")
    got = {message["payload"]: message for message in new.got()}
    assert {name: got[name].get("properties", {}) for name in TO_MQTT} == {
        name: wanted for name, (_, wanted) in TO_MQTT.items()
    }
    assert {got[name]["qos"] for name in TO_MQTT} == {1}
    assert got["nothing"]["topic"] == "prices/tea"
    assert 80 <= got["soon"]["properties"]["message-expiry-interval"] <= 90
    assert {message["payload"] for message in old.got()} >= set(TO_MQTT)
    assert all("properties" not in message for message in old.got())


TO_AMQP: dict[str, tuple[list[str], dict[str, Any]]] = {
    "nothing": ([], {}),
    "content type": (["content-type", "text/plain"], {"content_type": "text/plain"}),
    "user property": (["user-property", "a", "1"], {"headers": {"a": "1"}}),
    "correlation data": (["correlation-data", "n-7"], {"correlation_id": "n-7"}),
    "number": (["correlation-data", "17"], {"correlation_id": "17"}),
    "utf-8": (["payload-format-indicator", "1"], {"headers": {"sapwood-utf8": True}}),
    "message id": (["user-property", "sapwood-message-id", "m-1"], {"message_id": "m-1"}),
    "priority": (["user-property", "sapwood-priority", "4"], {"priority": 4}),
    "type": (["user-property", "sapwood-type", "order"], {"type": "order"}),
}
KINDS = ("content_type", "correlation_id", "message_id", "priority", "type", "app_id", "timestamp")


def comparable(properties: pika.BasicProperties) -> dict[str, Any]:
    found = {name: value for name in KINDS if (value := getattr(properties, name)) is not None}
    headers = {name: value for name, value in (properties.headers or {}).items() if name != "x-sapwood"}
    return found | ({"headers": headers} if headers else {})


async def test_mqtt_properties_arrive_at_amqp_and_qualities_as_delivery_modes(mixed: Mixed) -> None:
    port, reader = mixed.mosquitto.port, mixed.reader()
    await takes(mixed.network, "york", "sales")
    for name, (option, _) in TO_AMQP.items():
        publish(port, "sales", name.encode(), *(("-D", "publish", *option) if option else ()))
    publish(port, "sales", b"qos 0", qos=0)
    publish(port, "sales", b"qos 2", qos=2)
    publish(port, "sales", b"retained", "-r")
    publish(port, "sales", b"old", version="311")
    publish(port, "sales", b"soon", "-D", "publish", "message-expiry-interval", "90")
    publish(port, "sales", b"ask", "-D", "publish", "response-topic", "queue/answers")
    await reader.until(len(TO_AMQP) + 6)
    got = {body.decode(): properties for body, properties in reader.got}
    assert {name: comparable(got[name]) for name in TO_AMQP} == {
        name: wanted for name, (_, wanted) in TO_AMQP.items()
    }
    assert {got[name].delivery_mode for name in (*TO_AMQP, "qos 2", "old")} == {2}
    assert got["qos 0"].delivery_mode == 1
    assert comparable(got["qos 2"]) == {"headers": {"sapwood-qos": 2}}
    assert comparable(got["retained"]) == {"headers": {"sapwood-retained": True}}
    assert comparable(got["old"]) == {}
    assert 80_000 <= int(got["soon"].expiration) <= 90_000
    with Listener(port, "-t", "$share/g/queue/answers", "-q", "1", "-i", "asker") as asker:
        mixed.rabbit.publish(got["ask"].reply_to, b"nine")
        (answer,) = await asker.until(1)
        assert (answer["topic"], answer["payload"]) == ("queue/answers", "nine")
