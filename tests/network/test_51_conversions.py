"""What MQTT 5, MQTT 3.1.1 and AMQP say of a message, each to each, property by property.

    hq (RabbitMQ) <- leeds (RabbitMQ), york (Mosquitto), bath (Mosquitto)

Applications at leeds and york send, those at hq and bath receive; they are plain paho-mqtt and pika programs.
The law is the table in `bridges.properties`.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Self

import paho.mqtt.client as paho
import pika
import pytest
import pytest_asyncio
from conversion_cases import FROM_AMQP, FROM_MQTT_3_1_1, FROM_MQTT_5, FULL_AMQP, FULL_MQTT, Said
from harness import Network
from mosquitto_clients import joined
from mosquitto_server import DISCOVERY, MosquittoServer
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from rabbitmq_server import RabbitServer
from rabbitmq_site import Applications, Reader

from bridges.site_brokers.mosquitto.loop_detection import digest

pytestmark = pytest.mark.asyncio(loop_scope="module")
NEW, OLD = MQTTProtocolVersion.MQTTv5, MQTTProtocolVersion.MQTTv311
PATIENCE = 180.0

PROPERTIES = ("ContentType", "ResponseTopic", "CorrelationData", "UserProperty", "PayloadFormatIndicator")
AMQP_PROPERTIES = (
    "delivery_mode",
    "content_type",
    "content_encoding",
    "priority",
    "correlation_id",
    "reply_to",
)
AMQP_PROPERTIES += ("message_id", "timestamp", "type", "user_id", "app_id")


class MqttProgram:
    """A plain paho program. `got`: topic, payload and what was said, in the order of arrival."""

    def __init__(
        self, server: MosquittoServer, name: str, version: MQTTProtocolVersion, *filters: str
    ) -> None:
        self.got: list[tuple[str, bytes, Said]] = []
        self._server, self._version, self._filters = server, version, filters
        self._there = threading.Event()
        self._paho = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version)
        self._paho.on_connect = self._connected
        self._paho.on_subscribe = lambda *_: self._there.set()
        self._paho.on_message = lambda _client, _data, message: self.got.append(
            (message.topic, message.payload, heard(message))
        )

    def __enter__(self) -> Self:
        self._paho.connect("127.0.0.1", self._server.port)
        self._paho.loop_start()
        assert self._there.wait(PATIENCE), "the broker does not answer"
        return self

    def __exit__(self, *exception: object) -> None:
        self._paho.disconnect()
        self._paho.loop_stop()

    def _connected(self, client: paho.Client, *_: object) -> None:
        if not self._filters:
            self._there.set()
        elif self._version == NEW:
            client.subscribe([(text, SubscribeOptions(2, retainAsPublished=True)) for text in self._filters])
        else:
            client.subscribe([(text, 2) for text in self._filters])

    def publish(self, topic: str, payload: bytes, qos: int = 1, retain: bool = False, **said: Any) -> None:
        """Returns when the broker has it."""
        properties = None
        if said:
            properties = Properties(PacketTypes.PUBLISH)
            for name, value in said.items():
                setattr(properties, name, value)
        self._paho.publish(topic, payload, qos, retain, properties).wait_for_publish(PATIENCE)

    def payloads(self) -> Sequence[bytes]:
        return [payload for _, payload, _ in self.got]

    def heard(self) -> dict[str, Said]:
        return {payload.decode(): said for _, payload, said in self.got}

    async def until(self, payload: bytes) -> None:
        async with asyncio.timeout(PATIENCE):
            while payload not in self.payloads():
                await asyncio.sleep(0.02)


def heard(message: paho.MQTTMessage) -> Said:
    """What a message said of itself; what it did not say is not there."""
    said: Said = {"qos": message.qos} | ({"retain": True} if message.retain else {})
    for name in (*PROPERTIES, "MessageExpiryInterval"):
        value = getattr(message.properties, name, None)
        if value not in (None, [], b"", ""):
            said[name] = sorted(value) if name == "UserProperty" else value
    return said


def heard_amqp(properties: pika.BasicProperties) -> Said:
    said = {name: value for name in AMQP_PROPERTIES if (value := getattr(properties, name)) is not None}
    headers = {name: value for name, value in (properties.headers or {}).items() if name != "x-sapwood"}
    return said | ({"headers": headers} if headers else {})


class Matrix:
    """The four sites, and the programs of each. `office` hears AMQP, `till` MQTT 5, `old_till` MQTT 3.1.1."""

    def __init__(
        self,
        network: Network,
        rabbits: dict[str, Applications],
        mosquittos: dict[str, MosquittoServer],
        till: MqttProgram,
        old_till: MqttProgram,
    ) -> None:
        self.network, self.rabbits, self.mosquittos = network, rabbits, mosquittos
        self.till, self.old_till = till, old_till
        self.office = Reader(rabbits["hq"].channel(), "", "matrix.#", "back.#", exclusive=True)

    def heard_at_office(self) -> dict[str, Said]:
        return {body.decode(): heard_amqp(properties) for body, properties in self.office.got}

    async def until_all_have(self, *payloads: bytes) -> None:
        """All of them: one of QoS 2 is overtaken by those behind it while it waits to be released."""
        for payload in payloads:
            await self._until_has(payload)

    async def _until_has(self, payload: bytes) -> None:
        for program in (self.till, self.old_till):
            await program.until(payload)
        async with asyncio.timeout(PATIENCE):
            while payload not in self.office.bodies:
                self.office.channel.connection.process_data_events(0.01)
                await asyncio.sleep(0.01)

    async def until_wanted(self, name: str) -> None:
        """Wait until leeds and york take these topics from their brokers, and hq knows who hears them."""
        await self.rabbits["leeds"].until_bound(f"{name}.#")
        until = self.network.until
        await until(
            "york", lambda status: f"{name}/#" in status["site_broker"].get("taking", ()), f"taking {name}"
        )
        for site in ("hq", "bath"):
            await until(site, lambda status: f"topic:{name}/#" in status["site_broker"]["consumers"], "told")
        await self.network.until_known("hq", f"topic:{name}/#")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def matrix(tmp_path_factory: pytest.TempPathFactory, rabbitmq: RabbitServer) -> AsyncIterator[Matrix]:
    folder: Path = tmp_path_factory.mktemp("matrix")
    rabbitmq.start()
    vhosts = {site: f"{site}-{folder.name}" for site in ("hq", "leeds")}
    mosquittos = {site: MosquittoServer(folder / f"broker-{site}", *DISCOVERY) for site in ("york", "bath")}
    rabbits = {}
    try:
        for vhost in vhosts.values():
            rabbitmq.add_vhost(vhost)
        for server in mosquittos.values():
            server.start()
        rabbits = {site: Applications(rabbitmq, vhost) for site, vhost in vhosts.items()}
        async with Network(folder) as network:
            everywhere = [{"pattern": f"topic:{name}/#", "scope": "tree"} for name in ("matrix", "back")]
            for site, parent in (("hq", ""), ("leeds", "hq"), ("york", "hq"), ("bath", "hq")):
                if site in vhosts:
                    at = {"uri": rabbitmq.uri(vhosts[site]), "management": rabbitmq.management_uri}
                else:
                    at = {"uri": mosquittos[site].uri}
                network.add(site, parent, site_broker=at, delivery={"destinations": everywhere})
            await network.start()
            await joined(network, *mosquittos)
            till = MqttProgram(mosquittos["bath"], "till", NEW, "matrix/#", "back/#")
            with till, MqttProgram(mosquittos["bath"], "old-till", OLD, "matrix/#", "back/#") as old_till:
                made = Matrix(network, rabbits, mosquittos, till, old_till)
                for name in ("matrix", "back"):
                    await made.until_wanted(name)
                yield made
    finally:
        for applications in rabbits.values():
            applications.close()
        for server in mosquittos.values():
            server.kill()
        for vhost in vhosts.values():
            rabbitmq.delete_vhost(vhost)


def only_what_3_1_1_has(said: Said) -> Said:
    return {"qos": said["qos"]}


async def test_from_mqtt_5_to_all(matrix: Matrix) -> None:
    with MqttProgram(matrix.mosquittos["york"], "sender-5", NEW) as sender:
        for name, (said, _, _) in FROM_MQTT_5.items():
            sender.publish("matrix/five/one", name.encode(), **said)
        sender.publish("matrix/five/end", b"end of 5")
    await matrix.until_all_have(b"end of 5", *map(str.encode, FROM_MQTT_5))
    new, office, old = matrix.till.heard(), matrix.heard_at_office(), matrix.old_till.heard()
    assert {name: new.get(name) for name in FROM_MQTT_5} == {
        name: said for name, (_, said, _) in FROM_MQTT_5.items()
    }
    assert {name: office.get(name) for name in FROM_MQTT_5} == {
        name: said for name, (_, _, said) in FROM_MQTT_5.items()
    }
    assert {name: old.get(name) for name in FROM_MQTT_5} == {
        name: only_what_3_1_1_has(said) for name, (_, said, _) in FROM_MQTT_5.items()
    }


async def test_from_amqp_to_all(matrix: Matrix) -> None:
    leeds = matrix.rabbits["leeds"]
    cases = {f"amqp {name}": case for name, case in FROM_AMQP.items()}
    for name, (said, _, _) in cases.items():
        properties = pika.BasicProperties(**{"delivery_mode": 2, **said})
        leeds.publish("matrix.amqp.one", name.encode(), "amq.topic", properties)
    leeds.publish("matrix.amqp.end", b"end of amqp", "amq.topic")
    await matrix.until_all_have(b"end of amqp", *map(str.encode, cases))
    new, office, old = matrix.till.heard(), matrix.heard_at_office(), matrix.old_till.heard()
    assert {name: new.get(name) for name in cases} == {name: said for name, (_, said, _) in cases.items()}
    assert {name: office.get(name) for name in cases} == {name: said for name, (_, _, said) in cases.items()}
    assert {name: old.get(name) for name in cases} == {
        name: only_what_3_1_1_has(said) for name, (_, said, _) in cases.items()
    }
    topics = {topic for topic, payload, _ in matrix.till.got if payload.decode() in cases}
    assert topics == {"matrix/amqp/one"}


async def test_from_mqtt_3_1_1_to_all(matrix: Matrix) -> None:
    cases = {f"old {name}": case for name, case in FROM_MQTT_3_1_1.items()}
    with MqttProgram(matrix.mosquittos["york"], "sender-3", OLD) as sender:
        for name, (said, _, _) in cases.items():
            sender.publish("matrix/three/one", name.encode(), **said)
        sender.publish("matrix/three/end", b"end of 3.1.1")
    await matrix.until_all_have(b"end of 3.1.1", *map(str.encode, cases))
    new, office, old = matrix.till.heard(), matrix.heard_at_office(), matrix.old_till.heard()
    assert {name: new.get(name) for name in cases} == {name: said for name, (_, said, _) in cases.items()}
    assert {name: old.get(name) for name in cases} == {name: said for name, (_, said, _) in cases.items()}
    assert {name: office.get(name) for name in cases} == {name: said for name, (_, _, said) in cases.items()}


@pytest.mark.parametrize("sender", ["MQTT 5", "MQTT 3.1.1", "AMQP"])
async def test_what_is_retained_reaches_who_comes_later(matrix: Matrix, sender: str) -> None:
    name = {"MQTT 5": "five", "MQTT 3.1.1": "three", "AMQP": "amqp"}[sender]
    body = f"last of {name}".encode()
    if sender == "AMQP":
        kept = pika.BasicProperties(delivery_mode=2, headers={"sapwood-retained": True})
        matrix.rabbits["leeds"].publish(f"matrix.retained.{name}", body, "amq.topic", kept)
    else:
        with MqttProgram(
            matrix.mosquittos["york"], f"keeper-{name}", NEW if name == "five" else OLD
        ) as keeper:
            keeper.publish(f"matrix/retained/{name}", body, retain=True)
    await matrix.until_all_have(body)
    plain = {"qos": 1, "retain": True}
    marked = plain | {"UserProperty": [("sapwood-from-tree", digest(f"matrix/retained/{name}", body))]}
    assert matrix.till.heard()[body.decode()] == marked
    assert matrix.heard_at_office()[body.decode()] == {
        "delivery_mode": 2,
        "headers": {"sapwood-retained": True},
    }
    for version, what in ((NEW, marked), (OLD, plain)):
        late = MqttProgram(matrix.mosquittos["bath"], f"late-{name}", version, f"matrix/retained/{name}")
        with late:
            await late.until(body)
            assert late.heard() == {body.decode(): what}


async def test_what_is_left_of_an_expiry_arrives(matrix: Matrix) -> None:
    with MqttProgram(matrix.mosquittos["york"], "sender-5", NEW) as sender:
        sender.publish("matrix/expiry", b"expires from 5", MessageExpiryInterval=3600)
    hour = pika.BasicProperties(delivery_mode=2, expiration="3600000")
    matrix.rabbits["leeds"].publish("matrix.expiry", b"expires from amqp", "amq.topic", hour)
    for body in (b"expires from 5", b"expires from amqp"):
        await matrix.until_all_have(body)
        assert 3000 < matrix.till.heard()[body.decode()]["MessageExpiryInterval"] <= 3600
        (left,) = [properties.expiration for each, properties in matrix.office.got if each == body]
        assert 3_000_000 < int(left) <= 3_600_000


async def test_what_an_amqp_program_passes_on_is_for_mqtt_5_as_it_was(matrix: Matrix) -> None:
    with MqttProgram(matrix.mosquittos["york"], "sender-5", NEW) as sender:
        sender.publish("matrix/there", b"there 5", qos=2, **{**FULL_MQTT, "ResponseTopic": "answers/till"})
    await matrix.until_all_have(b"there 5")
    (properties,) = [each for body, each in matrix.office.got if body == b"there 5"]
    matrix.rabbits["leeds"].publish("back.again", b"back at 5", "amq.topic", properties)
    await matrix.until_all_have(b"back at 5")
    assert matrix.till.heard()["back at 5"] == {"qos": 2, **FULL_MQTT}


async def test_what_an_mqtt_5_program_passes_on_is_for_amqp_as_it_was(matrix: Matrix) -> None:
    leeds = matrix.rabbits["leeds"]
    leeds.publish("matrix.there", b"there amqp", "amq.topic", pika.BasicProperties(**FULL_AMQP))
    await matrix.until_all_have(b"there amqp")
    said = dict(matrix.till.heard()["there amqp"])
    with MqttProgram(matrix.mosquittos["york"], "passing-on", NEW) as sender:
        sender.publish("back/again", b"back at amqp", **said)
    await matrix.until_all_have(b"back at amqp")
    assert matrix.heard_at_office()["back at amqp"] == FULL_AMQP
